import { fault, type ToolError } from '#core/errors'
import type { Outcome } from '#core/outcome'
import type { CallRecord } from '#core/ports/store'
import { ownRunId } from '#core/runs/run-id'
import { workflowDiverged } from '#core/workflow/workflow-diverged'
import { answerRecorded } from './answer-recorded.ts'
import { runIdOf } from './call-place.ts'
import type { CallServices } from './call-services.ts'
import type { IdentifiedCall } from './identified-call.ts'
import { keyConflict } from './key-conflict.ts'
import { mayRunAgain } from './may-run-again.ts'
import { LOST, type RunningCall } from './running-calls.ts'
import { isHidden, isSameRequest, mayCorrect, type RecordedRequest } from './same-request.ts'

/** A running call of another process is looked at this often. */
const JOIN_POLL_MS = 50
const MOST_ROUNDS_ALONE = 100

export type Found =
  | { readonly kind: 'answer'; readonly outcome: Outcome; readonly runId: string; readonly toolId: string }
  /** A recorded call whose next attempt this request may make. */
  | { readonly kind: 'again'; readonly seen: CallRecord }
  /** The key is another request's. */
  | { readonly kind: 'other' }

const OTHER: Found = { kind: 'other' }

/** Rule 1: answers or joins what is already under the key. Nothing is validated again, and nothing runs here. */
export async function lookUp(services: CallServices, call: IdentifiedCall): Promise<Found | undefined> {
  for (let round = 0; ; round += 1) {
    const running = services.running.get(call.record)
    if (running !== undefined) {
      if (isOther(services, call, requestOf(running))) return OTHER
      const outcome = await running.done
      if (outcome === LOST) continue
      return {
        kind: 'answer',
        outcome,
        runId: runIdOf(call, running.place),
        toolId: running.tool.catalogId,
      }
    }
    const read = services.store.find(call)
    const record = read instanceof Promise ? await read : read
    if (record === undefined) return undefined
    if (isOther(services, call, record)) {
      // Rule 9: a released call takes other input as its next attempt.
      const isFree = mayCorrect(call, record) && !isHidden(services, call.principal, record.tool)
      return isFree ? { kind: 'again', seen: record } : OTHER
    }
    const found = await judge(services, call, record)
    if (found !== 'look again') return found
    if (round > MOST_ROUNDS_ALONE && isStray(services, record)) throw strayCall()
  }
}

/** The same call running in this process, if it does. */
export function join(services: CallServices, call: IdentifiedCall): RunningCall | undefined {
  const running = services.running.get(call.record)
  if (running === undefined) return undefined
  if (isOther(services, call, requestOf(running))) throw keyConflict()
  return running
}

function requestOf({ tool, call }: RunningCall): RecordedRequest {
  return { tool: tool.id, toolId: tool.catalogId, fingerprint: call.fingerprint }
}

/** Whether the key is another request's, or one of a tool that its caller may not see (rule 2). A step has its own word for it. */
function isOther(services: CallServices, call: IdentifiedCall, recorded: RecordedRequest): boolean {
  if (isHidden(services, call.principal, recorded.tool)) return true
  if (isSameRequest(services, call, recorded)) return false
  if (call.step !== undefined) throw workflowDiverged(call.step, recorded)
  return true
}

/** Ours and running, yet nobody here runs it: only a fault of ours can leave a call so, and no wait helps. */
function isStray(services: CallServices, record: CallRecord): boolean {
  return record.writer === services.store.writer && services.running.get(record.record) === undefined
}

function strayCall(): ToolError {
  return fault(
    'not_ready',
    'This call is recorded as running, but its run is gone. An operator has to look at it.',
    {
      retryAfterMs: 60_000,
    },
  )
}

async function judge(
  services: CallServices,
  call: IdentifiedCall,
  record: CallRecord,
): Promise<Found | 'look again'> {
  // Rule 13: a tombstone never runs again, whatever its call ended with.
  if (record.state === 'released' && !record.expired) return { kind: 'again', seen: record }
  // Rule 1: what waits for a yes walks the whole ladder again.
  if (record.state === 'parked') return { kind: 'again', seen: record }
  if (record.state !== 'running') {
    const { runId = ownRunId(record.record), toolId } = record
    return { kind: 'answer', outcome: answerRecorded(record), runId, toolId }
  }
  if (record.writer === services.store.writer && services.running.takeAbandoned(call.record)) {
    return { kind: 'again', seen: record }
  }
  if (!(await services.store.isWriterAlive(record.writer))) {
    const nowMs = services.clock.nowMs()
    if (mayRunAgain(record, nowMs)) return { kind: 'again', seen: record }
    await services.store.recover(nowMs)
  }
  await new Promise((resolve) => setTimeout(resolve, JOIN_POLL_MS))
  return 'look again'
}
