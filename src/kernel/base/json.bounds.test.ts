import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { tooMuchJson } from './json.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

function valuesOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1
  return 1 + Object.values(value).reduce((sum: number, each) => sum + valuesOf(each), 0)
}

describe('tooMuchJson', () => {
  it('measures the exact depth, and never counts more values than the text has', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.integer({ min: 0, max: 6 }), (value, maxDepth) => {
        const bytes = bytesOf(JSON.stringify(value))
        const isTooDeep = tooMuchJson(bytes, { maxDepth, maxValues: 1_000_000 }) !== undefined
        expect(isTooDeep).toBe(depthOf(value) > maxDepth)
        // A list of n elements has n - 1 commas and one bracket, so the count is never above the number of values.
        expect(tooMuchJson(bytes, { maxDepth: 1_000, maxValues: valuesOf(value) })).toBeUndefined()
      }),
    )
  })

  it('counts brackets, lists and members, and ignores the content of strings', () => {
    const bounds = { maxDepth: 3, maxValues: 10 }
    expect(tooMuchJson(bytesOf('[[[[1]]]]'), bounds)).toBe('is nested deeper than 3 levels')
    expect(tooMuchJson(bytesOf('['.repeat(8_000_000)))).toBe('is nested deeper than 256 levels')
    expect(tooMuchJson(bytesOf(`[${'1,'.repeat(10)}1]`), bounds)).toBe('contains more than 10 values')
    expect(tooMuchJson(bytesOf(`[${'{},'.repeat(6)}1]`), bounds)).toBe('contains more than 10 values')
    expect(tooMuchJson(bytesOf(JSON.stringify(`\\"${'[,{'.repeat(50)}"`)), bounds)).toBeUndefined()
  })
})
