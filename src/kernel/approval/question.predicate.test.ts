import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, gist, openTestGateway } from '#testing/test-gateway'
import { type SampleTool, sampleTool } from '../../../test/contracts/samples.ts'
import { type ApprovalRules, DEFAULT_APPROVAL_RULES } from './approvals.ts'
import { guarded, MissingMember } from './question.ts'

const RING = 'Bell.Ring@1.0.0'
const policy = { approval: 'conditional' } as const

/** A gateway with one tool, and a function that returns the result of calling it. */
function stage({ rules = {}, ...changes }: SampleTool & { readonly rules?: Partial<ApprovalRules> }) {
  const store = openMemoryStore()
  const got: unknown[] = []
  const tool = sampleTool(RING, (input) => got.push(input), { policy, ...changes })
  const gateway = openTestGateway([tool], { store, approvalRules: { ...DEFAULT_APPROVAL_RULES, ...rules } })
  const ring = async (request: Parameters<typeof callRequest>[1] = {}) =>
    gist(await gateway.call(ALICE, callRequest(RING, { key: 'k', ...request })))
  return { ring, got }
}

const padding = (members: number) =>
  Object.fromEntries(Array.from({ length: members }, (_, index) => [index, 0]))

/** A predicate in a config without types. */
type Loose = (facts: ReturnType<typeof JSON.parse>) => boolean

describe('a conditional tool', () => {
  it('rule 21: needs approval without a predicate, and if the predicate throws or returns nothing', async () => {
    for (const when of [
      undefined,
      () => {
        throw new Error('oops')
      },
      () => true,
      // A config without types may return anything.
      () => Reflect.get({}, 'nothing'),
    ]) {
      const { ring } = stage({ rules: { when } })
      expect(await ring()).toBe('approval_required')
    }
  })

  it('runs without approval if the predicate returns false; the predicate gets the parsed input', async () => {
    const seen: string[] = []
    const when = (facts: object) => seen.push(JSON.stringify(facts)) < 0
    const { ring, got } = stage({ rules: { when } })
    const input = { amount: 5, tokens: 7, card: { pin: 1 } }
    expect(await ring({ input })).toBe('ok 1')
    expect(got).toEqual([input])
    expect(seen.map((text) => JSON.parse(text))).toMatchObject([
      { tool: RING, tier: 'write', principal: { id: ALICE.id }, input },
    ])
  })

  it.each<[string, Loose, JsonObject]>([
    ['a member that the tool does not have', ({ input }) => input.amount > 100, { path: '/' }],
    ['a member that the caller left out', ({ input }) => (input.amount ?? 0) > 100, {}],
    ['a misspelt member', ({ input }) => input.amout > 100, { amount: 1_000_000 }],
    ['a nested member', ({ input }) => input.to.amount > 100, { to: {} }],
    ['an item of a list', ({ input }) => input.amounts[3] > 100, { amounts: [1] }],
    ['the input under another name', ({ body }) => body.amount > 100, { amount: 1_000 }],
    ['the input itself', ({ amount }) => amount > 100, { amount: 1_000 }],
    ['a whole object', ({ input }) => input.to > 100, { to: { amount: 1_000 } }],
    ['a member named like a secret', ({ input }) => input.tokens > 100, { tokens: 1_000_000 }],
  ])('rule 21: needs approval if its predicate reads %s', async (_what, when, input) => {
    const { ring, got } = stage({ rules: { when } })
    expect([await ring({ input }), got]).toEqual(['approval_required', []])
  })

  it.each<[string, Loose, JsonObject]>([
    ['in', ({ input }) => 'amount' in input, {}],
    ['Object.hasOwn', ({ input }) => Object.hasOwn(input, 'amount'), {}],
    ['a missing user', ({ userId }) => userId !== undefined, {}],
    ['lists', ({ input }) => input.to.some((name: string) => name.startsWith('x')), { to: ['a'] }],
    ['entries', ({ input }) => Object.entries(input).length > 1, { a: 1 }],
  ])('runs without approval if its predicate checks for the member first: %s', async (_what, when, input) => {
    const { ring } = stage({ rules: { when } })
    expect(await ring({ input })).toBe('ok 1')
  })

  it('is judged by the predicate for its version or name, before the common predicate', async () => {
    const [yes, no] = [() => true, () => false]
    const of = (name: string, when: () => boolean) => ({ when: yes, whenPerTool: new Map([[name, when]]) })
    expect(await stage({ rules: of(RING, no) }).ring()).toBe('ok 1')
    expect(await stage({ rules: of('Bell.Ring', no) }).ring()).toBe('ok 1')
    expect(await stage({ rules: of('Bell.Other', no) }).ring()).toBe('approval_required')
    const both = new Map([
      ['Bell.Ring', no],
      [RING, yes],
    ])
    expect(await stage({ rules: { when: no, whenPerTool: both } }).ring()).toBe('approval_required')
  })

  it.each([
    ['behind meaningless members', { ...padding(100), amount: 500 }],
    ['at the end of a long list', { parts: [...Array(99).fill(0), 500] }],
    ['at the end of a long text', { text: `${'x'.repeat(500)}500` }],
    ['below many levels', { a: { b: { c: { d: { e: { f: 500 } } } } } }],
    ['in a value that is also sent as a credential', { text: '500 euros' }],
  ])('rule 21: a caller cannot hide anything from the predicate: %s', async (_where, input) => {
    const when = ({ input: seen }: { input: object }) => JSON.stringify(seen).includes('500')
    const { ring } = stage({ rules: { when } })
    const secrets = new Map([['any', new Secret('500 euros')]])
    expect(await ring({ input, secrets })).toBe('approval_required')
  })

  it('rule 21: the predicate judges the parsed input, and cannot change it', async () => {
    const at = new Date(0)
    const parseInput = () => ({ ok: true, input: Object.freeze({ amount: 500n, at, to: ['bob'] }) }) as const
    const when: Loose = ({ input }) => {
      input.at.setFullYear(2030)
      expect(() => input.to.push('eve')).toThrow(TypeError)
      expect(() => Object.assign(input, { amount: 1n })).toThrow(TypeError)
      return input.amount !== 500n || input.at.getFullYear() !== 2030
    }
    const { ring, got } = stage({ rules: { when }, parseInput })
    expect(await ring({ input: { note: 'n' } })).toBe('ok 1')
    expect(got).toEqual([{ amount: 500n, at: new Date(0), to: ['bob'] }])
  })
})

describe('a guarded value', () => {
  it('equals the original value, and throws for every member that it does not have', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (value, name) => {
        const shown = guarded(value, 'input')
        expect(JSON.stringify(shown)).toBe(JSON.stringify(value))
        const exists = Object.hasOwn(value, name) || name in Object.prototype
        if (!exists && name !== 'toJSON' && name !== 'then') {
          expect(() => shown[name]).toThrow(MissingMember)
        }
        for (const key of Object.keys(value)) expect(key in shown).toBe(true)
      }),
    )
  })
})
