import type { Waits } from '#core/workflow/still-waits'
import { heldUp, type Suspension } from '#core/workflow/suspension'
import type { CallServices } from './call-services.ts'
import { refusalOutcome } from './refusal-outcome.ts'
import { attemptOf, LOST, type RunningCall } from './running-calls.ts'

/** Puts a workflow away until one of its steps may go on (rule 31); whoever joined it looks at the record. */
export async function putAway(
  services: CallServices,
  {
    running,
    attempt,
    suspension,
  }: { readonly running: RunningCall; readonly attempt: number; readonly suspension: Suspension },
): Promise<Waits> {
  const { store, clock } = services
  const { error, waitsFor } = suspension
  const write = () => store.workflows.suspend(attemptOf(running, attempt), { waitsFor, atMs: clock.nowMs() })
  try {
    await write()
    services.running.end(running)
    running.settle(LOST)
    return { error, ...decidesOf(running, suspension) }
  } catch (failure) {
    services.readiness.noteStoreFailure(failure)
    services.log.error(
      { err: failure, record: running.call.record },
      'a workflow could not be put away; keeping it',
    )
    services.keeper.keep(async () => {
      await write()
      services.running.end(running)
    })
    const unknown = heldUp(running.tool.name, 'the server could not record that it waits.')
    running.settle(refusalOutcome(services, unknown))
    return { error: unknown }
  }
}

function decidesOf({ call }: RunningCall, { error, waitsFor }: Suspension): Pick<Waits, 'decides'> {
  const approvalId = error.details.missing?.approval?.id
  if (approvalId === undefined || waitsFor === '') return {}
  return { decides: { tenant: call.tenant, record: waitsFor, approvalId } }
}
