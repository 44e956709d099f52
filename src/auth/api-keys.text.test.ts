import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { digestOfKey, makeKey, readKeyId } from './api-keys.ts'

const store = openMemoryStore()
const digest = (text: string) => store.digest(text)

describe('makeKey', () => {
  it('OTC-103, OWP-63: makes a key of 32 random bytes with a prefix and its public id', () => {
    const { keyId, key, digest: stored } = makeKey(digest)
    expect(key.reveal()).toMatch(new RegExp(`^clt_${keyId}_[\\w-]{43}$`))
    expect(keyId).toMatch(/^[0-9a-f]{24}$/)
    expect(stored).toBe(digestOfKey(key.reveal()))
    expect(stored).toMatch(/^[0-9a-f]{64}$/)
    expect(key.reveal()).not.toContain(stored)
    expect(readKeyId(key.reveal(), digest)).toBe(keyId)
  })

  it('never makes the same key twice', () => {
    const made = Array.from({ length: 100 }, () => makeKey(digest))
    expect(new Set(made.map(({ keyId }) => keyId)).size).toBe(100)
    expect(new Set(made.map(({ key }) => key.reveal().slice(-43))).size).toBe(100)
  })
})

describe('readKeyId', () => {
  it('finds no id that this store did not make', () => {
    const other = openMemoryStore()
    expect(readKeyId(makeKey((text) => other.digest(text)).key.reveal(), digest)).toBeUndefined()
    fc.assert(
      fc.property(fc.stringMatching(/^clt_[0-9a-f]{24}_[A-Za-z0-9_-]{43}$/), (text) => {
        expect(readKeyId(text, digest)).toBeUndefined()
      }),
    )
  })

  it('finds no id in any other text', () => {
    const good = makeKey(digest).key.reveal()
    for (const text of [
      '',
      'clt_',
      good.slice(0, -1),
      `${good}x`,
      ` ${good}`,
      good.toUpperCase(),
      `${good}\n`,
    ]) {
      expect(readKeyId(text, digest)).toBeUndefined()
    }
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(readKeyId(text, digest)).toBeUndefined()
      }),
    )
  })
})
