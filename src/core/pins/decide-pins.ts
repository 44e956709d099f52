import type { PinChanged } from '#core/journal/journal-event'
import type { PinnedSource, PinRecord, PinWrite } from '#core/ports/pin-store'
import type { PinDecision } from './decide-pin.ts'
import { hashOfWaiting, toolNameOf } from './pin-view.ts'
import { servedHash } from './served-hash.ts'

export interface PinRuling {
  readonly decision: PinDecision
  readonly apply: (pin: PinRecord, decision: PinDecision) => PinRecord
  readonly type: 'pin.accepted' | 'pin.rejected'
}

/** One write for the decisions about some tools of a source; `undefined` when there is nothing to decide. */
export function decidePins(
  known: PinnedSource,
  pins: readonly PinRecord[],
  { decision, apply, type }: PinRuling,
): PinWrite | undefined {
  const decided = pins
    .map((pin) => ({ pin, next: apply(pin, decision) }))
    .filter(({ pin, next }) => pin !== next)
  if (decided.length === 0) return undefined
  const events = decided.map(({ pin, next }): PinChanged => {
    const version = type === 'pin.accepted' && next.isServed ? next.accepted?.version : undefined
    return {
      type,
      at: decision.atMs,
      source: known.source,
      tool: toolNameOf(known.source, pin),
      ...(pin.waiting === undefined ? {} : { hash: hashOfWaiting(pin.waiting), class: pin.waiting.class }),
      ...(version === undefined ? {} : { version }),
      by: decision.by,
    }
  })
  return {
    source: known.source,
    seen: known.revision,
    pins: decided.map(({ next }) => next),
    changesServed: decided.some(({ pin, next }) => servedHash(pin) !== servedHash(next)),
    events,
  }
}
