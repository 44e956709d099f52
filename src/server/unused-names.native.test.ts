import { expect, it } from 'vitest'
import { NO_ROLES } from '#kernel/base/principal'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { findUnusedNames } from './unused-names.ts'

const tools = requireTools(
  ['Left.Echo@1.0.0', 'Right.Echo@1.0.0', 'Right.Sum@1.0.0'].map((id) =>
    tool({
      id,
      description: 'Repeats.',
      input: {},
      output: {},
      policy: { safetyTier: 'pure' },
      run: () => ({}),
    }),
  ),
).map((made) => ({ ...made, nativeName: made.parts.name.toLowerCase() }))

const notes = (include: readonly string[], names?: 'native') =>
  findUnusedNames(
    {
      toolsets: new Map([['ref', { include, exclude: [], names }]]),
      auth: { apiKeys: [], roles: NO_ROLES },
      approverScopes: [],
      limited: [],
      budgets: [],
      webhooks: [],
    },
    { tools, sources: ['Left', 'Right'], unread: [], keys: [] },
  ).filter((text) => text.startsWith('toolsets.ref'))

it('MCP-171: the operator reads which names keep their prefixes in a toolset with native names', () => {
  expect(notes(['*'], 'native')).toEqual([
    'toolsets.ref: "echo" is the name of Left.Echo, Right.Echo, so these keep their prefixes there. Exclude all but one to serve it without a prefix.',
  ])
  expect(notes(['Right.*'], 'native')).toEqual([])
  expect(notes(['*'])).toEqual([])
})
