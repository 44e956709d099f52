import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { copyJson } from './json.ts'

describe('copyJson', () => {
  it('copies any JSON value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (given) => {
        const value: unknown = JSON.parse(JSON.stringify(given))
        const copied = copyJson(value)
        if (copied.ok) expect(copied.value).toEqual(value)
        else expect(copied.problem).toContain('surrogate')
      }),
    )
  })

  it('treats `__proto__` as an ordinary name and changes no prototype', () => {
    const copied = copyJson(JSON.parse('{"__proto__":{"polluted":true}}'))
    expect(copied.ok && JSON.stringify(copied.value)).toBe('{"__proto__":{"polluted":true}}')
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false)
  })

  it('leaves out members that are undefined', () => {
    expect(copyJson({ a: undefined, b: 1 })).toEqual({ ok: true, value: { b: 1 } })
  })

  it('reports the position of a value that is not JSON', () => {
    const cases: [unknown, string][] = [
      [{ a: [1, new Date()] }, '/a/1'],
      [{ 'x/y': () => 1 }, '/x~1y'],
      [Number.NaN, ''],
      [{ n: 1n }, '/n'],
      [[undefined], '/0'],
      ['\ud800', ''],
    ]
    for (const [value, pointer] of cases) expect(copyJson(value)).toMatchObject({ ok: false, pointer })
  })

  it('ends for cycles, and for shared objects that would expand without end', () => {
    const cycle: Record<string, unknown> = {}
    cycle.self = cycle
    expect(copyJson(cycle)).toMatchObject({ ok: false, problem: expect.stringContaining('contains itself') })
    let shared: unknown = {}
    for (let level = 0; level < 40; level += 1) shared = [shared, shared]
    expect(copyJson(shared)).toMatchObject({ ok: false, problem: expect.stringContaining('more than') })
  })
})
