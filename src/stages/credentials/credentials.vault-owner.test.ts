import { describe, expect, it } from 'vitest'
import { ANONYMOUS, type Principal } from '#kernel/base/principal'
import { vaultOwner } from './credentials.ts'

const store = { digest: (text: string) => `digest of ${text}` }
const of = (id: string, scopes: readonly string[] = []): Principal => ({ id, tenant: 't', scopes })

describe('the vault entries that a call may use', () => {
  it('rule 3: the anonymous principal has none, in any tenant', () => {
    for (const userId of [undefined, 'u']) {
      expect(vaultOwner(store, ANONYMOUS, userId)).toBeUndefined()
      expect(
        vaultOwner(store, { ...ANONYMOUS, tenant: 't', scopes: ['users:assert'] }, userId),
      ).toBeUndefined()
    }
  })

  it("rule 24: without a user they are the principal's own", () => {
    for (const userId of [undefined, ''])
      expect(vaultOwner(store, of('key:a'), userId)).toEqual({ tenant: 't', principal: 'key:a', user: '' })
  })

  it('rule 24: a user id is accepted from its own subject, or with users:assert', () => {
    const user = 'digest of user:u'
    expect(vaultOwner(store, of('key:a'), 'u')).toBeUndefined()
    expect(vaultOwner(store, of('key:u'), 'u')).toBeUndefined()
    expect(vaultOwner(store, of('key:a', ['users:assert']), 'u')?.user).toBe(user)
    expect(vaultOwner(store, of('key:a', ['users:*']), 'u')?.user).toBe(user)
    expect(vaultOwner(store, of('jwt:https://i.example#u'), 'u')?.user).toBe(user)
    expect(vaultOwner(store, of('jwt:https://i.example#u#v'), 'u#v')).toBeDefined()
    for (const other of ['v', 'https://i.example#u', '#u', 'U'])
      expect(vaultOwner(store, of('jwt:https://i.example#u'), other)).toBeUndefined()
  })
})
