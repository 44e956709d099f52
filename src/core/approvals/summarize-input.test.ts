import { describe, expect, it } from 'vitest'
import { MemoryStore } from '#store/memory'
import { type SampleTool, sampleTool } from '#testing/sample-tool'
import { ALICE, callRequest, openTestDesk } from '#testing/test-desk'
import { type ApprovalRules, DEFAULT_APPROVAL_RULES } from './approval-rules.ts'

const RING = 'Bell.Ring@1.0.0'

/** A desk with one tool, what a call of it comes to, and what approvers are asked. */
function stage({ rules = {}, ...changes }: SampleTool & { readonly rules?: Partial<ApprovalRules> }) {
  const store = new MemoryStore()
  const tool = sampleTool(RING, () => 'rung', changes)
  const desk = openTestDesk([tool], { store, approvalRules: { ...DEFAULT_APPROVAL_RULES, ...rules } })
  const ring = (request: Parameters<typeof callRequest>[1] = {}) =>
    desk.call(ALICE, callRequest(RING, { key: 'k', ...request }))
  const newest = async () => (await store.approvals.list({ limit: 1 }))[0]
  return { ring, newest }
}

const padding = (members: number) =>
  Object.fromEntries(Array.from({ length: members }, (_, place) => [place, 0]))

describe('what an approver sees', () => {
  it('rule 21: shows what the tool declares before anything else', async () => {
    const inputSchema = { type: 'object', properties: { amount: { type: 'number' } } }
    const { ring, newest } = stage({ inputSchema, policy: { approval: 'always' } })
    await ring({ input: { ...padding(100), amount: 500 } })
    expect(JSON.parse((await newest())?.subject.summaryJson ?? '')).toMatchObject({
      amount: 500,
      '…': '71 more',
    })
  })
})
