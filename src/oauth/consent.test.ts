import { describe, expect, it } from 'vitest'
import { signedInName } from './consent.ts'

describe('signedInName', () => {
  it.each([
    ['sub', { sub: 'ann' }, 'ann'],
    ['sub', { sub: 'ann', email_verified: false }, 'ann'],
    ['sub', {}, undefined],
    ['sub', { sub: '' }, undefined],
    ['sub', { sub: 7 }, undefined],
    ['email', { email: 'ann@example.com', email_verified: true }, 'ann@example.com'],
    ['email', { email: 'ann@example.com' }, 'ann@example.com'],
    ['email', { email: 'ann@example.com', email_verified: false }, undefined],
    ['email', { email: 'ann@example.com', email_verified: 'false' }, undefined],
  ])('rule 25: by %s, %j is %s', (userClaim, claims, name) => {
    expect(signedInName({ userClaim }, claims)).toBe(name)
  })
})
