import type { EndedParked } from '#core/ports/approval-store'
import type { CallServices } from './call-services.ts'

/** Tells whoever waits for parked calls, or reads their runs, that they are over. */
export function noteEnded(
  { feed, waits }: Pick<CallServices, 'feed' | 'waits'>,
  ended: readonly EndedParked[],
): void {
  for (const { record, run } of ended) {
    feed.notify(run)
    waits.notify(record)
  }
}
