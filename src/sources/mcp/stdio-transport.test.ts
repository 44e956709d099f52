import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JSON_BOUNDS } from '#core/json-bounds'
import { LineReader } from './stdio-transport.ts'

describe('LineReader', () => {
  it('gives the same lines however the bytes are cut', () => {
    const text = fc.array(fc.string({ unit: 'grapheme' }).map((line) => line.replaceAll('\n', '')))
    fc.assert(
      fc.property(text, fc.array(fc.nat(50)), (lines, cuts) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''))
        const reader = new LineReader(() => ({ mostBytes: 100_000, json: JSON_BOUNDS }))
        const read: string[] = []
        let from = 0
        for (const cut of cuts) {
          read.push(...reader.read(bytes.subarray(from, from + cut)))
          from += cut
        }
        read.push(...reader.read(bytes.subarray(from)))
        expect(read).toEqual(lines)
      }),
    )
  })

  it('refuses a line that is too long, also one without an end', () => {
    const reader = new LineReader(() => ({ mostBytes: 10, json: JSON_BOUNDS }))
    expect(reader.read(Buffer.from('0123456789\n'))).toEqual(['0123456789'])
    expect(() => reader.read(Buffer.from('0123456789x'))).toThrow(RangeError)
  })
})
