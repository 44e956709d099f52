import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import {
  type AskedCall,
  conditionProblem,
  conditionsFor,
  covers,
  coversInput,
  type RuleCondition,
  ruleObstacle,
} from './rule.ts'

const ASKED: AskedCall = {
  ...{ tenant: 'acme', principal: 'key:bot', tool: 'Bank.Pay@1.0.0', definitionHash: 'd1', tier: 'write' },
  ...{ userId: undefined, isUserProven: false, credentials: undefined, quorum: 1, isShownWhole: true },
  input: { amount: 5, to: { name: 'Ann', iban: 'DE1' }, tags: ['a', 'b'] },
}
const NARROW = { ...ASKED, conditions: conditionsFor(ASKED.input) }

/** Inputs with few names and values, so that equal and nearly equal inputs are common. */
const value = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<JsonValue>(null, true, 0, 1, 5, -3, 1e300, '', 'a', 'Ann', '5'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'amount', 'a/b', '~', ''), tie('value'), { maxKeys: 3 }),
  ),
})).value

/** Every part of a value that has no parts of its own, with its path. */
function leavesOf(part: JsonValue, path = ''): readonly (readonly [string, JsonValue])[] {
  if (typeof part !== 'object' || part === null) return [[path, part]]
  const entries = isJsonObject(part) ? Object.entries(part) : part.map((one, index) => [index, one] as const)
  if (entries.length === 0) return [[path, part]]
  return entries.flatMap(([name, inner]) =>
    leavesOf(inner, `${path}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`),
  )
}

const isWithin = (path: string, outer: string): boolean => path === outer || path.startsWith(`${outer}/`)

function allows(condition: RuleCondition, leaf: JsonValue): boolean {
  if ('any' in condition) return true
  if ('min' in condition && !(typeof leaf === 'number' && leaf >= condition.min)) return false
  if ('max' in condition && !(typeof leaf === 'number' && leaf <= condition.max)) return false
  return true
}

describe('a standing rule', () => {
  it('covers the call that it was made from', () => {
    expect(covers(NARROW, ASKED)).toBe(true)
    fc.assert(fc.property(value, (input) => coversInput(conditionsFor(input), input)))
  })

  it.each([
    ['tenant', { tenant: 'rival' }],
    ['caller', { principal: 'key:other' }],
    ['tool', { tool: 'Bank.Pay@1.0.1' }],
    ['definition', { definitionHash: 'd2' }],
    ['tier', { tier: 'pure' }],
    ['user', { userId: 'ann' }],
    ['proof of the user', { isUserProven: true }],
    ['credential', { credentials: 'tag' }],
  ] as const)('covers no call with another %s', (_what, changed) => {
    expect(covers(NARROW, { ...ASKED, ...changed })).toBe(false)
  })

  it('covers neither commands, nor calls that need two approvers, nor hidden inputs, whatever its conditions', () => {
    const wide = { ...ASKED, conditions: [{ path: '', any: true as const }] }
    const cases = [
      ['exec', { tier: 'exec' }],
      ['quorum', { quorum: 2 }],
      ['hidden', { isShownWhole: false }],
    ] as const
    for (const [obstacle, changed] of cases) {
      expect(ruleObstacle({ ...ASKED, ...changed })).toBe(obstacle)
      expect(covers({ ...wide, ...changed }, { ...ASKED, ...changed })).toBe(false)
    }
    expect(covers(wide, ASKED)).toBe(true)
  })

  it('covers no other input unless a condition allows the difference', () => {
    fc.assert(
      fc.property(value, value, (made, asked) => {
        expect(coversInput(conditionsFor(made), asked)).toBe(
          JSON.stringify(sorted(made)) === JSON.stringify(sorted(asked)),
        )
      }),
      { numRuns: 50_000 },
    )
  })

  it('covers only inputs whose every part is within the conditions that were widened', () => {
    const widening = fc.oneof(
      fc.record({ any: fc.constant(true as const) }),
      fc.record({ min: fc.integer({ min: -5, max: 5 }) }),
      fc.record({ max: fc.integer({ min: -5, max: 5 }) }),
    )
    const property = fc.property(value, value, fc.nat(), widening, (made, asked, pick, change) => {
      const leaves = leavesOf(made)
      const [path = ''] = leaves[pick % leaves.length] ?? []
      const narrow = conditionsFor(made).filter(
        (condition) => !isWithin(condition.path, path) && !isWithin(path, condition.path),
      )
      const conditions: readonly RuleCondition[] = [...narrow, { path, ...change }]
      if (!coversInput(conditions, asked)) return
      for (const [leaf, part] of leavesOf(asked)) {
        const condition = conditions.find((each) => isWithin(leaf, each.path))
        expect(condition, `${leaf} of ${JSON.stringify(asked)}`).toBeDefined()
        if (condition !== undefined && !('equals' in condition)) expect(allows(condition, part)).toBe(true)
      }
      for (const condition of narrow)
        if ('equals' in condition) expect(partAt(asked, condition.path)).toEqual(condition.equals)
    })
    fc.assert(property, { numRuns: 50_000 })
  })

  it('requires a number where a limit is set, and lists of values where they are named', () => {
    const conditions: readonly RuleCondition[] = [
      { path: '/amount', max: 100, min: 0 },
      { path: '/currency', oneOf: ['EUR', 'USD'] },
    ]
    const isCovered = (amount: JsonValue, currency: JsonValue) =>
      coversInput(conditions, { amount, currency })
    expect([isCovered(100, 'EUR'), isCovered(0, 'USD')]).toEqual([true, true])
    for (const amount of [100.01, -1, '5', null, [5], { amount: 5 }])
      expect(isCovered(amount, 'EUR')).toBe(false)
    expect(isCovered(5, 'GBP')).toBe(false)
    expect(coversInput(conditions, { amount: 5 })).toBe(false)
    expect(coversInput(conditions, { amount: 5, currency: 'EUR', note: 'x' })).toBe(false)
  })

  it('names the problems of conditions', () => {
    expect(conditionProblem([{ path: '/a', any: true }])).toBeUndefined()
    expect(conditionProblem([{ path: 'a', any: true }])).toContain('JSON Pointer')
    expect(conditionProblem([{ path: '/a', min: 2, max: 1 }])).toContain('exclude every number')
    expect(
      conditionProblem([
        { path: '/a', any: true },
        { path: '/a', max: 1 },
      ]),
    ).toContain('two conditions')
    expect(
      conditionProblem([
        { path: '/a', any: true },
        { path: '/a/b', max: 1 },
      ]),
    ).toContain('covers it already')
    expect(
      conditionProblem([
        { path: '', any: true },
        { path: '/a', max: 1 },
      ]),
    ).toContain('covers it already')
  })
})

function partAt(whole: JsonValue, path: string): JsonValue | undefined {
  return leavesWithParents(whole).find(([at]) => at === path)?.[1]
}

function leavesWithParents(part: JsonValue, path = ''): readonly (readonly [string, JsonValue])[] {
  if (typeof part !== 'object' || part === null) return [[path, part]]
  const entries = isJsonObject(part) ? Object.entries(part) : part.map((one, index) => [index, one] as const)
  return [
    [path, part],
    ...entries.flatMap(([name, inner]) =>
      leavesWithParents(inner, `${path}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`),
    ),
  ]
}

function sorted(part: JsonValue): JsonValue {
  if (typeof part !== 'object' || part === null) return part
  if (!isJsonObject(part)) return part.map(sorted)
  return Object.fromEntries(
    Object.entries(part)
      .map(([name, inner]) => [name, sorted(inner)] as const)
      .sort(([left], [right]) => (left < right ? -1 : 1)),
  )
}
