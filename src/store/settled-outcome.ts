import type { Outcome } from '#core/call'
import type { Settlement } from '#core/ports/store'

/** What a settled call answers from now on; `undefined` when it took effect but nobody knows the value (rule 12). */
export function settledOutcome(settlement: Settlement): Outcome | undefined {
  const { as, valueJson, error } = settlement
  if (as === 'succeeded') return valueJson === undefined ? undefined : { ok: true, valueJson }
  return error === undefined ? undefined : { ok: false, error }
}
