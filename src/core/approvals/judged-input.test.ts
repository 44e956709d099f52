import { describe, expect, it } from 'vitest'
import { Secret } from '#core/secret'
import { MemoryStore } from '#store/memory'
import { type SampleTool, sampleTool } from '#testing/sample-tool'
import { ALICE, callRequest, gist, openTestDesk } from '#testing/test-desk'
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

describe('a conditional tool', () => {
  const policy = { approval: 'conditional' } as const

  it('rule 21: always asks without a predicate, and when it throws or gives nothing', async () => {
    for (const when of [
      undefined,
      () => {
        throw new Error('oops')
      },
      () => true,
      // A config without types may give anything.
      () => Reflect.get({}, 'nothing'),
    ]) {
      const { ring } = stage({ policy, rules: { when } })
      expect(gist(await ring())).toBe('approval_required')
    }
  })

  it('runs without a yes where the predicate says no, and tells it no secrets', async () => {
    const seen: unknown[] = []
    const when = (facts: unknown) => {
      seen.push(facts)
      return false
    }
    const { ring } = stage({ policy, rules: { when } })
    const input = { amount: 5, password: 'hunter2', card: { pin: 1, holders: [{ api_key: 'hunter2' }] } }
    expect(gist(await ring({ input }))).toBe('ok "rung"')
    expect(seen).toMatchObject([
      { tool: RING, tier: 'write', principal: ALICE, input: { amount: 5, password: '[redacted]' } },
    ])
    expect(JSON.stringify(seen)).not.toContain('hunter2')
  })

  it.each([
    ['behind members that mean nothing', { ...padding(100), amount: 500 }],
    ['at the end of a long list', { parts: [...Array(99).fill(0), 500] }],
    ['at the end of a long text', { text: `${'x'.repeat(500)}500` }],
    ['below many levels', { a: { b: { c: { d: { e: { f: 500 } } } } } }],
    ['in what is sent as a credential too', { text: '500 euros' }],
  ])('rule 21: a caller hides nothing from the predicate: %s', async (_where, input) => {
    const when = ({ input: seen }: { input: object }) => JSON.stringify(seen).includes('500')
    const { ring } = stage({ policy, rules: { when } })
    const secrets = new Map([['any', new Secret('500 euros')]])
    expect(gist(await ring({ input, secrets }))).toBe('approval_required')
  })

  it('rule 21: the predicate judges what the schema makes of the input', async () => {
    const parseInput = () =>
      ({ ok: true, input: { amount: 500n, at: new Date(0), to: new Set(['bob']) } }) as const
    const seen: unknown[] = []
    const when = ({ input }: { input: object }) => seen.push(input) < 0
    const { ring } = stage({ policy, rules: { when }, parseInput })
    expect(gist(await ring({ input: { note: 'n' } }))).toBe('ok "rung"')
    expect(seen).toEqual([{ note: 'n', amount: 500, at: '1970-01-01T00:00:00.000Z', to: ['bob'] }])
  })
})
