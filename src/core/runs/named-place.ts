import type { RunPlace } from '#core/ports/run-store'
import type { Store } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { placeOf } from './own-runs.ts'
import { runEnded } from './run-ended.ts'
import { recordOfRunId } from './run-id.ts'

/** Where something goes that a caller wants in a run. The run of a single call cannot be joined: it is over when its call is. */
export async function namedPlace(store: Store, principal: Principal, runId: string): Promise<RunPlace> {
  const record = recordOfRunId(runId)
  const { tenant, id } = principal
  if (record !== undefined && (await store.find({ tenant, record }))?.principal === id) throw runEnded(runId)
  return placeOf(store, principal, runId)
}
