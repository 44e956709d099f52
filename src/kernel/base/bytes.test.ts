import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BadLine, checkLength, LineReader, readStart } from './bytes.ts'

describe('LineReader', () => {
  it('returns the same lines for any split of the bytes', () => {
    const text = fc.array(fc.string({ unit: 'grapheme' }).map((line) => line.replaceAll('\n', '')))
    fc.assert(
      fc.property(text, fc.array(fc.nat(50)), (lines, cuts) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''))
        const reader = new LineReader(() => checkLength(100_000))
        const read: string[] = []
        let from = 0
        for (const cut of cuts) {
          read.push(...[...reader.read(bytes.subarray(from, from + cut))].map(String))
          from += cut
        }
        read.push(...[...reader.read(bytes.subarray(from))].map(String))
        expect(read).toEqual(lines)
      }),
    )
  })

  it('refuses a line that is too long, even without a newline, after returning earlier lines', () => {
    const reader = new LineReader(() => checkLength(10))
    expect([...reader.read(Buffer.from('0123456789\n'))].map(String)).toEqual(['0123456789'])
    const lines = reader.read(Buffer.from('a\n0123456789x'))
    expect(String(lines.next().value)).toBe('a')
    expect(() => lines.next()).toThrow(BadLine)
  })

  it('returns the unfinished last line', () => {
    const reader = new LineReader(() => checkLength(10))
    expect([...reader.read(Buffer.from('a\nbc'))].map(String)).toEqual(['a'])
    expect([String(reader.end()), String(reader.end())]).toEqual(['bc', ''])
  })
})

describe('readStart', () => {
  async function* stream(log: string[]) {
    try {
      for (const part of ['abc', Buffer.from('def'), 'ghi']) yield part
    } finally {
      log.push('ended')
    }
  }

  it('reads a short stream completely, and cancels a long one', async () => {
    const log: string[] = []
    const whole = await readStart(stream(log), 9)
    expect([String(whole.bytes), whole.isWhole]).toEqual(['abcdefghi', true])
    const start = await readStart(stream(log), 4)
    expect([String(start.bytes), start.isWhole]).toEqual(['abcd', false])
    expect(log).toEqual(['ended', 'ended'])
    expect(await readStart(null, 1)).toEqual({ bytes: Buffer.alloc(0), isWhole: true })
  })
})
