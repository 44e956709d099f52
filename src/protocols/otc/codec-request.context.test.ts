import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '#kernel/base/json'
import { decodeContext } from './codec-request.ts'

function tokens(authorization: JsonValue): Record<string, string> {
  return Object.fromEntries(
    [...decodeContext({ authorization }).tokens].map(([id, token]) => [id, token.reveal()]),
  )
}

function secrets(given: JsonValue): Record<string, string> {
  return Object.fromEntries(
    [...decodeContext({ secrets: given }).secrets].map(([id, value]) => [id, value.reveal()]),
  )
}

describe('decodeContext', () => {
  it('OTC-49: without a context there are no credentials', () => {
    const { tokens, secrets, userId, loneToken } = decodeContext(undefined)
    expect([tokens.size, secrets.size, userId, loneToken]).toEqual([0, 0, undefined, undefined])
  })

  it('OTC-50, OTC-51: reads the arrays of the standard', () => {
    expect(
      tokens([
        { id: 'google', token: 't' },
        { id: 'github', token: 'u', extra: 1 },
      ]),
    ).toEqual({
      google: 't',
      github: 'u',
    })
    expect(secrets([{ id: 'K', value: 'v' }])).toEqual({ K: 'v' })
  })

  it('OTC/C-26: reads the objects of 4 March 2025', () => {
    const lone = decodeContext({ authorization: { token: 't' } })
    expect([lone.loneToken?.reveal(), lone.tokens.size]).toEqual(['t', 0])
    expect(tokens({ id: 'google', token: 't' })).toEqual({ google: 't' })
    expect(secrets({ K: 'v', L: 'w' })).toEqual({ K: 'v', L: 'w' })
  })

  it('takes __proto__ and constructor as ids like any other', () => {
    const given: JsonValue = JSON.parse('{"secrets":{"__proto__":"p","constructor":"c"}}')
    const { secrets } = decodeContext(given)
    expect([secrets.get('__proto__')?.reveal(), secrets.get('constructor')?.reveal()]).toEqual(['p', 'c'])
  })

  it('OTC-73: an empty token counts as missing', () => {
    expect(tokens([{ id: 'google', token: '' }])).toEqual({})
  })

  it('OTC-79: an empty user id counts as missing', () => {
    expect(decodeContext({ user_id: '' }).userId).toBeUndefined()
    expect(decodeContext({ user_id: 'u' }).userId).toBe('u')
  })

  it('OTC-56: ignores unknown members', () => {
    expect(decodeContext({ user_info: { name: 'n' }, locale: 'de' }).userId).toBeUndefined()
  })

  it.each<[string, JsonValue]>([
    ['a context that is a string', 'x'],
    ['a context that is an array', []],
    ['a user id that is a number', { user_id: 5 }],
    ['OTC-54: an authorization item without a token', { authorization: [{ id: 'google' }] }],
    ['OTC-54: an authorization item without an id', { authorization: [{ token: 't' }] }],
    ['OTC-54: an authorization item that is a string', { authorization: ['t'] }],
    ['OTC-54: authorization that is a string', { authorization: 't' }],
    ['OTC/C-26: an authorization object without a token', { authorization: {} }],
    ['OTC/C-26: an authorization object whose token is a number', { authorization: { token: 5 } }],
    ['OTC-55: a secret without a value', { secrets: [{ id: 'K' }] }],
    ['OTC-55: a secret whose value is a number', { secrets: [{ id: 'K', value: 5 }] }],
    ['OTC/C-26: a secrets object with a number', { secrets: { K: 5 } }],
    [
      'OTC/T-21: one provider with two tokens',
      {
        authorization: [
          { id: 'g', token: 'a' },
          { id: 'g', token: 'b' },
        ],
      },
    ],
    [
      'OTC/T-21: one secret with two values',
      {
        secrets: [
          { id: 'K', value: 'a' },
          { id: 'K', value: 'b' },
        ],
      },
    ],
  ])('refuses %s', (_what, context) => {
    expect(() => decodeContext(context)).toThrow(expect.objectContaining({ code: 'request_invalid' }))
  })

  it('OTC/T-21: the same item twice is harmless', () => {
    expect(
      tokens([
        { id: 'g', token: 'a' },
        { id: 'g', token: 'a' },
      ]),
    ).toEqual({ g: 'a' })
  })

  it('never puts a credential into a message', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.uuid(), (one, other) => {
        const twice = {
          authorization: [
            { id: 'g', token: one },
            { id: 'g', token: other },
          ],
        }
        try {
          decodeContext(twice)
        } catch (error) {
          return !String(error).includes(one) && !String(error).includes(other)
        }
        return one === other
      }),
    )
  })
})
