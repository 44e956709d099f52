import { describe, expect, it } from 'vitest'
import { ADD, prepared } from '../../../test/samples/definitions.ts'
import { isSameSecret } from './hash.ts'

describe('definitionHash', () => {
  it('is the same for any order of members, and differs for any change', () => {
    const { definitionHash } = prepared(ADD)
    expect(definitionHash).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect(prepared(Object.fromEntries(Object.entries(ADD).reverse())).definitionHash).toBe(definitionHash)
    const changed = [
      { id: 'Calculator.Add@1.0.1' },
      { name: 'x' },
      { title: 'x' },
      { catalogId: 'openwop:x' },
      { description: 'x' },
      { input: {} },
      { output: null },
      { requirements: { userId: true } },
      { requirements: { region: 'eu' } },
      { policy: { timeoutMs: 1 } },
      { policy: { scopes: ['x'] } },
    ]
    const hashes = changed.map((change) => prepared({ ...ADD, ...change }).definitionHash)
    expect(new Set([definitionHash, ...hashes]).size).toBe(changed.length + 1)
  })
})

describe('isSameSecret', () => {
  it.each([
    ['', ''],
    ['k-alice', 'k-alice'],
    ['é', 'é'],
  ])('accepts %j for %j', (given, kept) => {
    expect(isSameSecret(given, kept)).toBe(true)
  })

  it.each([
    ['', 'k'],
    ['k-alic', 'k-alice'],
    ['K-ALICE', 'k-alice'],
    ['é', 'e\u0301'],
    ['ab', 'é'],
  ])('refuses %j for %j', (given, kept) => {
    expect(isSameSecret(given, kept)).toBe(false)
  })
})
