import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  compareVersions,
  inTimeOrder,
  isToolVersion,
  LATEST,
  newCallId,
  parseToolId,
  parseToolRef,
} from './ids.ts'

const word = fc.stringMatching(/^[A-Za-z0-9_]{1,20}$/)
const integer = fc.stringMatching(/^[0-9]{1,30}$/)
const version = fc.tuple(integer, integer, integer).map((parts) => parts.join('.'))

describe('parseToolId', () => {
  it('OTC-23: splits every Toolkit.Name@x.y.z without losing anything', () => {
    fc.assert(
      fc.property(word, word, version, (toolkit, name, number) => {
        const id = `${toolkit}.${name}@${number}`
        expect(parseToolId(id)).toEqual({ base: `${toolkit}.${name}`, toolkit, name, version: number })
      }),
    )
  })

  it('OTC-23: agrees with the published pattern for any text, and requires the full version', () => {
    const published = /^[A-Za-z0-9_]+\.[A-Za-z0-9_]+(@([0-9]+|[0-9]+\.[0-9]+\.[0-9]+))?$/
    const near = fc.stringMatching(/^[A-Za-z0-9_.@\- \n]{0,24}$/)
    fc.assert(
      fc.property(fc.oneof(fc.string(), near), (text) => {
        expect(parseToolRef(text) !== undefined).toBe(published.test(text))
        expect(parseToolId(text) !== undefined).toBe(published.test(text) && /@.*\..*\./.test(text))
      }),
    )
  })

  it('T-09: refuses prerelease, build and shortened versions', () => {
    const refused = [
      'A.B',
      'A.B@1',
      'A.B@1.0',
      'A.B@v1.0.0',
      'A.B@1.0.0-rc.1',
      'A.B@1.0.0+b',
      'A@1.0.0',
      'A.B.C@1.0.0',
    ]
    for (const id of [...refused, '', ' A.B@1.0.0', 'A.B@1.0.0\n', 'Ä.B@1.0.0']) {
      expect(parseToolId(id), id).toBeUndefined()
    }
  })

  it('OTC-28: a version is exactly three integers', () => {
    expect(['1.0.0', '0.0.0', '01.2.3', '10.20.30'].every(isToolVersion)).toBe(true)
    expect(['1.0', '1', 'v1.0.0', '1.0.0-rc.1', '1.0.0+b', '1.0.0\n', '', '1.0.-1'].some(isToolVersion)).toBe(
      false,
    )
  })
})

describe('parseToolRef', () => {
  it('OTC-60: @x is exactly x.0.0', () => {
    expect(parseToolRef('A.B@1')).toEqual({ base: 'A.B', version: '1.0.0' })
    expect(parseToolRef('A.B@0')).toEqual({ base: 'A.B', version: '0.0.0' })
  })

  it('OTC-59, OTC-61: a full version is kept, and no version means the latest', () => {
    expect(parseToolRef('A.B@1.2.3')).toEqual({ base: 'A.B', version: '1.2.3' })
    expect(parseToolRef('A.B')).toEqual({ base: 'A.B', version: LATEST })
    expect(parseToolRef('A.B@latest')).toBeUndefined()
  })
})

describe('compareVersions', () => {
  it('OTC-62: compares numbers, not text', () => {
    expect(compareVersions('1.10.0', '1.9.0')).toBe(1)
    expect(compareVersions('2.0.0', '10.0.0')).toBe(-1)
    expect(compareVersions('1.0.0', '1.0.0')).toBe(0)
  })

  it('T-10: leading zeros and integers of any size count by value', () => {
    expect(compareVersions('01.0.0', '1.0.0')).toBe(0)
    expect(compareVersions('9007199254740993.0.0', '9007199254740992.0.0')).toBe(1)
  })

  it('T-11: is a total order', () => {
    fc.assert(
      fc.property(version, version, version, (a, b, c) => {
        expect(compareVersions(a, a)).toBe(0)
        expect(compareVersions(a, b) + compareVersions(b, a)).toBe(0)
        if (compareVersions(a, b) <= 0 && compareVersions(b, c) <= 0)
          expect(compareVersions(a, c)).toBeLessThanOrEqual(0)
      }),
    )
  })
})

describe('call ids', () => {
  const DIGEST = 'abcdefghijklmnopqrstuvwx'
  const timed = fc.record({ ms: fc.integer({ min: 0, max: 2 ** 42 - 1 }), uuid: fc.uuid() })
  const idAt = ({ ms, uuid }: { readonly ms: number; readonly uuid: string }): string => {
    const hex = ms.toString(16).padStart(12, '0')
    return `${hex.slice(0, 8)}-${hex.slice(8)}-4${uuid.slice(15, 19)}a${uuid.slice(20)}`
  }

  it('T-24: an id made here is a version 4 UUID that begins with the time', () => {
    const before = Date.now()
    const id = newCallId()
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    const ms = Number.parseInt(id.slice(0, 13).replace('-', ''), 16)
    expect(ms).toBeGreaterThanOrEqual(before)
    expect(ms).toBeLessThanOrEqual(Date.now())
    expect(newCallId()).not.toBe(id)
  })

  it('digests of ids with a time sort by time, and keep their length, their alphabet and most characters', () => {
    fc.assert(
      fc.property(timed, timed, (one, other) => {
        const [left, right] = [inTimeOrder(DIGEST, idAt(one)), inTimeOrder(DIGEST, idAt(other))]
        expect(left).toMatch(/^[A-Za-z0-9_-]{24}$/)
        expect(left.slice(7)).toBe(DIGEST.slice(7))
        expect(Buffer.compare(Buffer.from(left), Buffer.from(right))).toBe(Math.sign(one.ms - other.ms))
      }),
    )
  })

  it('digests of all other ids are unchanged', () => {
    const others = [
      '',
      'order-1',
      `ffff${crypto.randomUUID().slice(4)}`,
      newCallId().toUpperCase(),
      `${newCallId()}\n`,
    ]
    for (const id of others) expect(inTimeOrder(DIGEST, id)).toBe(DIGEST)
  })
})
