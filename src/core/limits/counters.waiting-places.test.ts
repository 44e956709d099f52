import { array, assert, constantFrom, nat, property, record } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isToolError } from '#core/errors'
import type { Principal } from '#core/principal'
import { WaitingPlaces } from './counters.ts'

const ALICE: Principal = { id: 'alice', tenant: 'default', scopes: [] }
const WHO: readonly Principal[] = [ALICE, { ...ALICE, id: 'bob' }, { ...ALICE, tenant: 'other' }]

describe('places to wait', () => {
  it('are never more than there are, for anybody or in all, and what is left is free again', () => {
    const step = record({ who: constantFrom(...WHO), leaves: nat(3) })
    assert(
      property(array(step, { maxLength: 60 }), nat(4), nat(8), (steps, perPrincipal, total) => {
        const refused: string[] = []
        const places = new WaitingPlaces({
          limit: { perPrincipal, total, longestMs: undefined },
          onRefused: (name) => refused.push(name),
        })
        const held: { readonly who: Principal; readonly leave: () => void }[] = []
        for (const { who, leaves } of steps) {
          const own = held.filter((each) => each.who === who).length
          const isFree = own < perPrincipal && held.length < total
          try {
            held.push({ who, leave: places.enter(who) })
            expect(isFree).toBe(true)
          } catch (error) {
            if (!isToolError(error)) throw error
            expect(isFree).toBe(false)
            expect(error.retryAfterMs).toBe(5_000)
            expect(refused.at(-1)).toBe(own >= perPrincipal ? 'principal_waiting' : 'total_waiting')
          }
          // Leaving twice gives back one place.
          for (const { leave } of held.splice(0, leaves)) for (const _ of [1, 2]) leave()
        }
      }),
    )
  })

  it('refuse nobody who can do without, and shorten what is too long', () => {
    const refused: string[] = []
    const limit = { perPrincipal: 1, total: undefined, longestMs: 1_000 }
    const places = new WaitingPlaces({ limit, onRefused: (name) => refused.push(name) })
    expect(places.enterIfFree(ALICE)).toBeTypeOf('function')
    expect(places.enterIfFree(ALICE)).toBeUndefined()
    expect(refused).toEqual([])
    expect([places.shorten(999), places.shorten(60_000)]).toEqual([999, 1_000])
  })
})
