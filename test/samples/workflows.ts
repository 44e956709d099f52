import type { Approver } from '#kernel/approval/approvals'
import { type DefinedTool, tool } from '#kernel/tool/define'
import type { PolicyDefinition } from '#kernel/tool/tool'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, openTestGateway } from '#testing/test-gateway'

const BOB: Approver = { id: 'key:bob', tenant: 'default', scopes: ['approvals:respond'] }

export const TEXT = {
  type: 'object',
  properties: { text: { type: 'string', description: 'T.' } },
  required: ['text'],
} as const

/** The members of a tool or workflow definition besides its id and `run`. */
export const PLAIN = { description: 'A sample.', input: TEXT, output: {} } as const

/** A tool that records each run, for tests. */
export function noting(
  id: string,
  effects: string[],
  policy: PolicyDefinition = {},
  act: (text: string) => unknown = (text) => `${text}!`,
) {
  return tool({
    id,
    description: 'Notes.',
    input: TEXT,
    output: {},
    policy,
    run: ({ text }) => {
      effects.push(`${id.split('@')[0]} ${text}`)
      return act(text) as string
    },
  })
}

/** A gateway with these tools, a caller and an approver. */
export function workflowStage(tools: readonly DefinedTool[]) {
  const store = openMemoryStore()
  const gateway = openTestGateway(tools, { store })
  const approve = async (action: 'grant' | 'reject' = 'grant') => {
    const open = await store.approvals.list({ state: 'pending', limit: 1 })
    return (await gateway.approvals.decide(BOB, open[0], { action, reason: undefined })).kind
  }
  const call = (id: string, key: string | undefined = 'k', input = { text: 'a' }) =>
    gateway.call(ALICE, callRequest(id, { key, input }))
  return { store, gateway, approve, call }
}
