import { ToolError } from '#kernel/base/errors'
import type { ToolContext } from '#kernel/tool/tool'
import type { FixtureFunction } from './opentool-fixtures.ts'

const ANYTHING = { type: 'object' }

/** Functions beyond the six, one for each rule that needs one. Counts how often `count` ran. */
export function specialFunctions() {
  const runs = { count: 0 }
  const tools: readonly FixtureFunction[] = [
    {
      id: 'Special.Give@1.0.0',
      description: 'Returns its input.',
      input: { type: 'object', properties: { it: { description: 'Anything.' } } },
      output: {},
      policy: { safetyTier: 'pure', replay: 'deterministic' },
      run: ({ it = null }) => it,
    },
    {
      id: 'Special.Count@1.0.0',
      name: 'count',
      description: 'Counts its runs; an older version.',
      input: ANYTHING,
      output: { title: 'not a legal name!', type: 'integer' },
      run: () => 0,
    },
    {
      id: 'Special.Count@1.10.0',
      name: 'count',
      description: 'Counts its runs.',
      input: ANYTHING,
      output: { title: 'not a legal name!', type: 'integer' },
      run: () => {
        runs.count += 1
        return runs.count
      },
    },
    {
      id: 'Special.Optional@1.0.0',
      name: 'optional',
      description: 'Returns the names of its arguments.',
      input: {
        type: 'object',
        properties: {
          plain: { type: 'string', description: 'No null.' },
          nullable: { type: ['string', 'null'], description: 'Null is a value.' },
          either: { anyOf: [{ type: 'number' }, { type: 'null' }], description: 'Null is a value.' },
          needed: { type: 'string', description: 'Must be there.' },
        },
        required: ['needed'],
        additionalProperties: { type: ['string', 'null'] },
      },
      output: { title: 'got', type: 'array', items: { type: 'string' } },
      policy: { safetyTier: 'pure', replay: 'deterministic' },
      run: (input) => Object.keys(input).sort(),
    },
    {
      id: 'Special.Fail@1.0.0',
      name: 'fail',
      description: 'Fails as requested.',
      input: {
        type: 'object',
        properties: { number: { type: 'number', description: 'Its own error number.' } },
      },
      output: null,
      run: ({ number }) => {
        throw new ToolError('The door is locked.', {
          developerMessage: 'see /srv/door.ts',
          additionalPromptContent: 'Use the key.',
          retryAfterMs: 1.5,
          canRetry: true,
          ...(typeof number === 'number' ? { errorNumber: number } : {}),
        })
      },
    },
    {
      id: 'Special.Mail@1.0.0',
      name: 'mail',
      description: 'Needs everything.',
      input: ANYTHING,
      output: { title: 'mail', type: 'string' },
      requirements: { authorization: [{ id: 'mail, inc' }], secrets: [{ id: 'PIN' }], userId: 'claimed' },
      run: (_input, context: ToolContext) =>
        [context.claimedUserId, context.token('mail, inc').reveal(), context.secret('PIN').reveal()].join(
          ' ',
        ),
    },
  ]
  return { runs, tools }
}
