import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { groupKeyOf, KeyRing, MacKey, newDataKey, Sealer, sealOnce, unseal } from './key-ring.ts'

const generation = KeyRing.fresh({ current: newDataKey() }).current

const nonceOf = (sealed: Uint8Array): string => Buffer.from(sealed).subarray(0, 12).toString('hex')

describe('sealed data', () => {
  it('rule 14: never has the same nonce twice under one key', () => {
    const sealer = new Sealer(newDataKey())
    const nonces = Array.from({ length: 10_000 }, () => nonceOf(sealer.seal('the same', 'place', generation)))
    expect(new Set(nonces).size).toBe(nonces.length)
  })

  it('rule 14: has its own nonce and opens if its cipher was prepared, even after a change of the key', () => {
    const dataKey = newDataKey()
    const next = { ...KeyRing.fresh({ current: newDataKey() }).current, no: generation.no + 1 }
    const sealer = new Sealer(dataKey)
    const nonces = new Set<string>()
    for (const used of [generation, generation, next, next, next]) {
      sealer.prepare(['place', 'another place'], generation)
      const sealed = sealer.seal('text', 'place', used)
      nonces.add(nonceOf(sealed))
      expect(unseal(groupKeyOf(used, dataKey).key, sealed, 'place').toString()).toBe('text')
    }
    expect(nonces.size).toBe(5)
  })

  it('rule 14: has a random nonce if the key seals few values', () => {
    const key = newDataKey()
    const nonces = Array.from({ length: 1_000 }, () => nonceOf(sealOnce(key, Buffer.from('x'), 'place')))
    expect(new Set(nonces).size).toBe(nonces.length)
  })

  it('opens only with its own key and in its own context', () => {
    const dataKey = newDataKey()
    const { key } = groupKeyOf(generation, dataKey)
    const sealed = new Sealer(dataKey).seal('text', 'place', generation)
    expect(unseal(key, sealed, 'place').toString()).toBe('text')
    expect(() => unseal(key, sealed, 'elsewhere')).toThrow('cannot be decrypted')
    expect(() => unseal(newDataKey(), sealed, 'place')).toThrow('cannot be decrypted')
  })
})

describe('MacKey', () => {
  it('rule 15: signs like HMAC-SHA256, for any parts', () => {
    const key = newDataKey()
    const mac = new MacKey(key)
    for (const parts of [
      [''],
      ['a', 'ü€'],
      ['x'.repeat(1_000), Buffer.from([0, 255])],
      ['head', new Uint8Array(70)],
    ]) {
      const hmac = createHmac('sha256', key)
      for (const part of parts) hmac.update(part)
      expect(mac.sign(...parts)).toBe(hmac.digest('base64url'))
    }
    expect(() => new MacKey(Buffer.alloc(65))).toThrow(RangeError)
  })
})
