import { fault } from '#core/errors'
import type { Outcome } from '#core/outcome'
import type { CallRecord } from '#core/ports/store'
import { answerRecorded } from './answer-recorded.ts'
import type { CallServices } from './call-services.ts'
import type { IdentifiedCall } from './identified-call.ts'
import { mayRunAgain } from './may-run-again.ts'
import { LOST } from './running-calls.ts'

/** A running call of another process is looked at this often. */
const JOIN_POLL_MS = 50

export type Found =
  | { readonly kind: 'answer'; readonly outcome: Outcome }
  /** A recorded call whose next attempt this request may make. */
  | { readonly kind: 'again'; readonly seen: CallRecord }

/** Rule 1: answers or joins what is already under the key. Nothing is validated again, and nothing runs here. */
export async function lookUp(services: CallServices, call: IdentifiedCall): Promise<Found | undefined> {
  for (;;) {
    const outcome = await join(services, call)
    if (outcome === LOST) continue
    if (outcome !== undefined) return { kind: 'answer', outcome }
    const read = services.store.find(call)
    const record = read instanceof Promise ? await read : read
    if (record === undefined) return undefined
    checkSameRequest(services, call, record)
    const found = await judge(services, call, record)
    if (found !== 'look again') return found
  }
}

/** The outcome of the same call running in this process, if it does. */
export function join(
  services: CallServices,
  call: IdentifiedCall,
): Promise<Outcome | typeof LOST> | undefined {
  const running = services.running.get(call.record)
  if (running === undefined) return undefined
  checkSameRequest(services, call, { tool: running.tool.id, fingerprint: running.call.fingerprint })
  return running.done
}

function checkSameRequest(
  services: CallServices,
  call: IdentifiedCall,
  recorded: { readonly tool: string; readonly fingerprint: string },
): void {
  const { registry } = services
  if (registry.has(recorded.tool) && registry.catalogFor(call.principal).get(recorded.tool) === undefined) {
    throw fault(
      'tool_not_found',
      `Tool '${call.request.tool.base}' was not found. List the tools to see what is served.`,
    )
  }
  if (recorded.fingerprint !== call.fingerprint) {
    throw fault(
      'key_conflict',
      'This call id was already used for a different request. Use a new call id for a new call.',
    )
  }
}

async function judge(
  services: CallServices,
  call: IdentifiedCall,
  record: CallRecord,
): Promise<Found | 'look again'> {
  if (record.state === 'released') return { kind: 'again', seen: record }
  if (record.state !== 'running') return { kind: 'answer', outcome: answerRecorded(record) }
  if (record.writer === services.store.writer) {
    // Ours, yet not in our map: its claim's commit was reported as failed, so it never started (rule 11).
    return services.running.get(call.record) === undefined ? { kind: 'again', seen: record } : 'look again'
  }
  if (await services.store.isWriterAlive(record.writer)) {
    await new Promise((resolve) => setTimeout(resolve, JOIN_POLL_MS))
    return 'look again'
  }
  const nowMs = services.clock.nowMs()
  if (mayRunAgain(record, nowMs)) return { kind: 'again', seen: record }
  await services.store.recover(nowMs)
  return 'look again'
}
