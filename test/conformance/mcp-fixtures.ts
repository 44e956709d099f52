import { setTimeout as wait } from 'node:timers/promises'
import { ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { FixtureTool } from './otc-fixtures.ts'

export interface McpFixtures {
  readonly tools: readonly FixtureTool[]
  /** Invocations so far, by full tool id. */
  readonly runs: ReadonlyMap<string, number>
}

const NUMBERS: JsonObject = {
  a: { type: 'number', description: 'The first number to add.' },
  b: { type: 'number', description: 'The second number to add.' },
}
const TEXT: JsonObject = { type: 'string', description: 'Some text.' }

function object(properties: JsonObject, required = Object.keys(properties)): JsonObject {
  return { type: 'object', properties, required }
}

/** The tools of the legend of `vectors/mcp.jsonl`, with fresh counters. */
export function mcpFixtures(): McpFixtures {
  const runs = new Map<string, number>()
  const counted = (tool: FixtureTool): FixtureTool => ({
    ...tool,
    run: (input, context) => {
      runs.set(tool.id, (runs.get(tool.id) ?? 0) + 1)
      return tool.run(input, context)
    },
  })
  return { tools: TOOLS.map(counted), runs }
}

const TOOLS: readonly FixtureTool[] = [
  {
    id: 'Math.Add@1.0.0',
    description: 'Adds.',
    input: object(NUMBERS),
    output: { type: 'number' },
    policy: { safetyTier: 'pure', replay: 'deterministic' },
    run: ({ a, b }) => Number(a) + Number(b),
  },
  {
    id: 'Math.Add@1.1.0',
    title: 'Add',
    description: 'Adds two or three.',
    input: object({ ...NUMBERS, c: { type: 'number', description: 'A third number.' } }, ['a', 'b']),
    output: { type: 'number' },
    policy: { safetyTier: 'pure', replay: 'deterministic' },
    run: ({ a, b, c }) => Number(a) + Number(b) + Number(c ?? 0),
  },
  {
    id: 'Mail.Send@1.0.0',
    description: 'Sends a mail.',
    input: object({ text: TEXT }),
    output: object({ sent: { type: 'boolean' } }),
    policy: { safetyTier: 'write' },
    run: ({ text }) => {
      if (text === 'fail')
        throw new ToolError('The mailbox is full.', { additionalPromptContent: 'Delete some.' })
      if (text === 'crash') throw new Error('boom s3cr3t')
      return { sent: true }
    },
  },
  {
    id: 'Mail.Delete@1.0.0',
    description: 'Deletes a mail after an approval.',
    input: {},
    output: null,
    policy: { safetyTier: 'write', approval: 'always' },
    run: () => null,
  },
  {
    id: 'Mail.Peek@1.0.0',
    description: 'Hidden from callers without its scope.',
    input: {},
    output: {},
    policy: { safetyTier: 'read', scopes: ['mail:peek'] },
    run: () => 'peeked',
  },
  {
    id: 'Text.Tree@1.0.0',
    description: 'Returns a list of lists.',
    input: {},
    output: {
      type: 'array',
      items: { $ref: '#/$defs/Leaf' },
      $defs: { Leaf: { type: 'string', minLength: 1 } },
    },
    policy: { safetyTier: 'pure' },
    run: () => ['a', 'b'],
  },
  {
    id: 'Text.Wrong@1.0.0',
    description: 'Declares a number and returns a text.',
    input: {},
    output: { type: 'number' },
    policy: { safetyTier: 'pure' },
    run: () => 'three',
  },
  {
    id: 'Text.Any@1.0.0',
    description: 'Returns its input.',
    input: object({ value: { description: 'Anything.' } }),
    output: {},
    policy: { safetyTier: 'pure' },
    run: ({ value }) => value ?? null,
  },
  {
    id: 'Text.Route@1.0.0',
    description: 'Has parameters that headers repeat.',
    input: object({
      region: { ...TEXT, 'x-mcp-header': 'Region' },
      count: { type: 'integer', description: 'How many.', 'x-mcp-header': 'Count' },
    }),
    output: {},
    policy: { safetyTier: 'pure' },
    run: ({ region }) => region ?? null,
  },
  {
    id: 'Ask.Name@1.0.0',
    description: 'Asks for a name.',
    input: {},
    output: { type: 'string' },
    policy: { safetyTier: 'write' },
    run: async (_input, context) => {
      const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
      const answer = await context.elicit({ mode: 'form', key: 'name', message: 'Name?', schema })
      return answer.action === 'accept' ? String(answer.content?.name) : answer.action
    },
  },
  {
    id: 'Slow.Steps@1.0.0',
    description: 'Reports its progress, not always in rising order.',
    input: {},
    output: null,
    policy: { safetyTier: 'pure' },
    run: async (_input, context) => {
      for (const done of [1, 2, 2, 1, 3]) {
        context.progress(done, 3)
        await wait(5)
      }
      return null
    },
  },
]
