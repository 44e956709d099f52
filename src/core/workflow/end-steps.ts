import type { CallServices } from '#core/call/call-services'
import { noteEnded } from '#core/call/note-ended'
import type { CallAddress } from '#core/ports/store'

/** Cancel cascades: whatever of a workflow's steps runs or waits is ended too (rule 31). */
export async function endSteps(
  services: CallServices,
  parent: CallAddress,
  ended: { readonly by: string; readonly why: 'timeout' | 'cancel' },
): Promise<void> {
  const { store, running, clock } = services
  for (const step of await store.workflows.openSteps(parent)) {
    const here = running.get(step.record)
    if (here !== undefined) {
      // It ends its own steps.
      here.interrupt(ended.why)
      continue
    }
    const nowMs = clock.nowMs()
    const parked = await store.approvals.cancel(step, ended.by, nowMs)
    const putAway = parked.length > 0 ? parked : await store.workflows.cancel(step, ended.by, nowMs)
    noteEnded(services, putAway)
    if (putAway.length === 0) await store.requestCancel(step, ended.by, nowMs)
    await endSteps(services, step, ended)
  }
}
