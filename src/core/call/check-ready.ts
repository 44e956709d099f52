import { fault } from '#core/errors'
import type { CallServices } from './call-services.ts'

/** OTC-68: no new run while draining, or after a store write error (rule 11). */
export function checkReady(services: CallServices): void {
  if (services.readiness.isReady()) return
  throw fault(
    'not_ready',
    'The tool server cannot take new calls right now. Nothing was run; try again shortly.',
    {
      retryAfterMs: 2_000,
    },
  )
}
