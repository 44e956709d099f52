import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { openState, type RequestState, type StateOwner, sealState } from './request-state.ts'

const sign = (text: string): string => createHmac('sha256', 'key').update(text).digest('base64url')
const owner: StateOwner = {
  principal: { id: 'key:alice', tenant: 'acme', scopes: [] },
  name: 'Mail_Send',
  input: { to: 'bob', cc: [] },
}
const state: RequestState = {
  callId: 'c-1',
  waitsFor: 'asked',
  challenges: ['x'],
  round: 2,
  expiresAtMs: 1_000,
  nonce: 'n',
}

describe('the state of a continued request', () => {
  it('MCP-72: opens unchanged, independent of the order of the arguments', () => {
    const sealed = sealState(state, owner, sign)
    const input = { cc: [], to: 'bob' }
    expect(openState(sealed, { ...owner, input }, { sign, nowMs: 999 })).toEqual(state)
  })

  it.each<[string, Partial<StateOwner>]>([
    ['another principal', { principal: { ...owner.principal, id: 'key:bob' } }],
    ['another tenant', { principal: { ...owner.principal, tenant: 'globex' } }],
    ['another tool', { name: 'Mail_Read' }],
    ['other arguments', { input: { to: 'eve', cc: [] } satisfies JsonObject }],
  ])('MCP-72: does not open for %s', (_who, changes) => {
    const sealed = sealState(state, owner, sign)
    expect(openState(sealed, { ...owner, ...changes }, { sign, nowMs: 0 })).toBeUndefined()
  })

  it('MCP-72: expires', () => {
    expect(openState(sealState(state, owner, sign), owner, { sign, nowMs: 1_000 })).toBeUndefined()
  })

  it('MCP-72: does not open a forged or changed state', () => {
    const sealed = sealState(state, owner, sign)
    fc.assert(
      fc.property(fc.nat(sealed.length - 1), fc.string({ minLength: 1, maxLength: 3 }), (index, text) => {
        const changed = sealed.slice(0, index) + text + sealed.slice(index + 1)
        fc.pre(changed !== sealed)
        expect(openState(changed, owner, { sign, nowMs: 0 })).toBeUndefined()
      }),
    )
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(openState(text, owner, { sign, nowMs: 0 })).toBeUndefined()
      }),
    )
  })
})
