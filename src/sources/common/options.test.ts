import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { findingsOf } from '../../../test/samples/definitions.ts'
import { addressWithoutValues, COMMON_OPTIONS, remotePolicyOf } from './options.ts'

describe('a shown address', () => {
  it('hides the values of its query, and still differs for different values', () => {
    const shown = addressWithoutValues('https://a.example/mcp?api_key=top-secret&empty=&api_key=two')
    expect(shown).toMatch(
      /^https:\/\/a\.example\/mcp\?api_key=sha256-[0-9a-f]{8}&empty=&api_key=sha256-[0-9a-f]{8}$/,
    )
    expect(shown).not.toBe(addressWithoutValues('https://a.example/mcp?api_key=other&empty=&api_key=two'))
  })

  it.each(['https://a.example/mcp', 'https://a.example/', 'openapi.json'])('%s is not changed', (address) => {
    expect(addressWithoutValues(address)).toBe(address)
  })
})

describe('the policy that an operator writes', () => {
  const options = z.strictObject(COMMON_OPTIONS)

  it.each([
    { timeoutMs: 2 ** 31 - 1 },
    { timeoutMs: 2 ** 31 },
    { timeoutMs: 0 },
    { rerunWindowMs: 0 },
    { rerunWindowMs: 2 ** 31 },
    { cost: 0 },
    { cost: 1e9 },
    { cost: 1e9 + 1 },
    { scopes: ['mail:read'] },
    { scopes: ['mail:read mail:send'] },
    { tenants: [] },
    { tenants: ['acme'] },
    { costHint: 'none' },
  ])('has the bounds of a definition: %j', (policy) => {
    expect(options.safeParse({ policy }).success).toBe(findingsOf({ policy }).length === 0)
  })

  it('may give a tool the tier exec, which then needs approval, but may not set its egress', () => {
    expect(options.safeParse({ policy: { safetyTier: 'exec' } }).success).toBe(true)
    const exec = { policy: undefined, tools: { run: { safetyTier: 'exec' } } } as const
    expect(remotePolicyOf('run', exec)).toMatchObject({ approval: 'always', egress: 'host-owned' })
    const relaxed = { ...exec, policy: { approval: 'conditional' } } as const
    expect(remotePolicyOf('run', relaxed)).toMatchObject({ approval: 'conditional', egress: 'host-owned' })
    expect(remotePolicyOf('read', exec)).toEqual({ safetyTier: 'write', egress: 'safe-fetch' })
    expect(options.safeParse({ policy: { egress: 'none' } }).success).toBe(false)
  })
})
