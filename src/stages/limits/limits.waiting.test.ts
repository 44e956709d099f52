import { array, assert, constantFrom, nat, property, record } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { isToolError } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import { CallLimits } from './limits.ts'
import { type LimitName, NO_LIMITS, type WaitLimit } from './settings.ts'

const ALICE: Principal = { id: 'alice', tenant: 'default', scopes: [] }
const WHO: readonly Principal[] = [ALICE, { ...ALICE, id: 'bob' }, { ...ALICE, tenant: 'other' }]

function limitsOf(waiting: WaitLimit, onRefused: (name: LimitName) => void): CallLimits {
  return new CallLimits({
    settings: { ...NO_LIMITS, waiting },
    clock: SYSTEM_CLOCK,
    running: { slots: 0 },
    store: { pendingWrites: 0 },
    delayMs: () => 0,
    budgets: { rules: [], reserve: () => undefined, close: async () => undefined },
    refusals: { add: async () => undefined },
    onRefused,
  })
}

describe('requests that are held open', () => {
  it('are limited per principal and in total, and leaving frees a slot', () => {
    const step = record({ who: constantFrom(...WHO), leaves: nat(3) })
    assert(
      property(array(step, { maxLength: 60 }), nat(4), nat(8), (steps, perPrincipal, total) => {
        const refused: string[] = []
        const limits = limitsOf({ perPrincipal, total, maxMs: undefined }, (name) => refused.push(name))
        const held: { readonly who: Principal; readonly leave: () => void }[] = []
        for (const { who, leaves } of steps) {
          const own = held.filter((each) => each.who === who).length
          const isFree = own < perPrincipal && held.length < total
          try {
            held.push({ who, leave: limits.enterWaiting(who) })
            expect(isFree).toBe(true)
          } catch (error) {
            if (!isToolError(error)) throw error
            expect(isFree).toBe(false)
            expect(error.retryAfterMs).toBe(5_000)
            expect(refused.at(-1)).toBe(own >= perPrincipal ? 'principal_waiting' : 'total_waiting')
          }
          // Leaving twice frees only one slot.
          for (const { leave } of held.splice(0, leaves)) for (const _ of [1, 2]) leave()
        }
      }),
    )
  })

  it('are not refused if waiting is optional, and waits that are too long are shortened', () => {
    const refused: string[] = []
    const limit = { perPrincipal: 1, total: undefined, maxMs: 1_000 }
    const limits = limitsOf(limit, (name) => refused.push(name))
    expect(limits.tryEnterWaiting(ALICE)).toBeTypeOf('function')
    expect(limits.tryEnterWaiting(ALICE)).toBeUndefined()
    expect(refused).toEqual([])
    expect([limits.shortenWait(999), limits.shortenWait(60_000)]).toEqual([999, 1_000])
  })
})
