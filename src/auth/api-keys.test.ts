import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { ApiKeys } from './api-keys.ts'

const entry = (id: string, key: string) => ({ id, key: new Secret(key), tenant: 'acme', scopes: ['mail:*'] })

describe('ApiKeys', () => {
  it('OTC-100: finds a key by its exact text, repeatedly', () => {
    const keys = new ApiKeys([entry('alice', 'k-alice'), entry('bob', 'k-bob')])
    const principal = { id: 'key:alice', tenant: 'acme', scopes: ['mail:*'] }
    expect(keys.find('k-alice')).toEqual(principal)
    expect(keys.find('k-alice')).toEqual(principal)
    expect(keys.find('k-bob')?.id).toBe('key:bob')
  })

  it.each(['', 'k-alic', 'k-alice ', 'K-ALICE', 'nope'])('OTC-102: does not find %j', (presented) => {
    const keys = new ApiKeys([entry('alice', 'k-alice')])
    keys.find('k-alice')
    expect(keys.find(presented)).toBeUndefined()
  })

  it('rule 3: two keys with one id are credentials of one principal', () => {
    const keys = new ApiKeys([entry('alice', 'old'), entry('alice', 'new')])
    expect(keys.find('old')).toEqual(keys.find('new'))
  })

  it('does not find an expired key, even after it was used', () => {
    let nowMs = 0
    const keys = new ApiKeys([{ ...entry('alice', 'k-alice'), expiresAtMs: 1_000 }], { nowMs: () => nowMs })
    expect(keys.find('k-alice')?.id).toBe('key:alice')
    nowMs = 999
    expect(keys.find('k-alice')?.id).toBe('key:alice')
    nowMs = 1_000
    expect(keys.find('k-alice')).toBeUndefined()
  })

  it('refuses one key in two entries, without printing it', () => {
    const make = () => new ApiKeys([entry('alice', 'same-key'), entry('bob', 'same-key')])
    expect(make).toThrow(/"bob" is used twice/)
    expect(make).not.toThrow(/same-key/)
  })
})
