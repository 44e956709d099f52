import { describe, expect, it } from 'vitest'
import { groupKeyOf, KeyRing, newDataKey, Sealer, sealOnce, unseal } from './key-ring.ts'

const generation = KeyRing.fresh({ current: newDataKey() }).current

const nonceOf = (sealed: Uint8Array): string => Buffer.from(sealed).subarray(0, 12).toString('hex')

describe('what is sealed', () => {
  it('rule 14: never has a nonce twice under one key', () => {
    const sealer = new Sealer(newDataKey())
    const nonces = Array.from({ length: 10_000 }, () => nonceOf(sealer.seal('the same', 'place', generation)))
    expect(new Set(nonces).size).toBe(nonces.length)
  })

  it('rule 14: has a random nonce where one key seals few things', () => {
    const key = newDataKey()
    const nonces = Array.from({ length: 1_000 }, () => nonceOf(sealOnce(key, Buffer.from('x'), 'place')))
    expect(new Set(nonces).size).toBe(nonces.length)
  })

  it('opens with its own key at its own place only', () => {
    const dataKey = newDataKey()
    const { key } = groupKeyOf(generation, dataKey)
    const sealed = new Sealer(dataKey).seal('text', 'place', generation)
    expect(unseal(key, sealed, 'place').toString()).toBe('text')
    expect(() => unseal(key, sealed, 'elsewhere')).toThrow('cannot be decrypted')
    expect(() => unseal(newDataKey(), sealed, 'place')).toThrow('cannot be decrypted')
  })
})
