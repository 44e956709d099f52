import type { Clock } from '#kernel/base/clock'
import { fault, type ToolError } from '#kernel/base/errors'
import { ownRunId, runIdOf } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'
import type { StoreChanges } from '#kernel/run/feed'
import type { KernelStore } from '#kernel/store/store'
import type { ToolSet } from '#kernel/tool/catalog'
import type { Failure, Outcome } from './call.ts'
import type { CallRecord } from './call-record.ts'
import {
  type IdentifiedCall,
  type Identities,
  isSameRequest,
  namesRecorded,
  type RecordedRequest,
} from './identity.ts'
import { LOST, type RunningCall, type RunningCalls } from './running.ts'
import { workflowDiverged } from './step-origin.ts'

/**
 * What is already under a call's key: a run of this process to join, a recorded answer to give again, or a record whose
 * next attempt the request may make (rules 1, 9, 11 to 13). `call-tool.ts` asks first, before it resolves anything.
 * A look-up validates nothing again and runs nothing.
 */

/** Polling of a call that runs in another process; a notice ends the wait sooner. */
const FIRST_JOIN_MS = 50
const SLOWEST_JOIN_MS = 250
const MAX_ROUNDS_ALONE = 20

export type Found =
  | {
      readonly kind: 'answer'
      readonly outcome: Outcome
      readonly runId: string
      /** Id of the tool that ran. */
      readonly tool: string
      readonly toolId: string
    }
  /** A recorded call whose next attempt this request may make. */
  | { readonly kind: 'again'; readonly previous: CallRecord }
  /** The key is another request's. */
  | { readonly kind: 'other' }

const OTHER: Found = { kind: 'other' }

export interface LookUpNeeds extends Identities {
  readonly store: KernelStore
  readonly clock: Clock
  readonly running: RunningCalls
  readonly changes: StoreChanges
  /** Decides what dead servers left running. */
  /** Settles the calls that dead servers left running. */
  recover(): Promise<void>
}

/** Rule 1: answers or joins the call that already has the key. */
export async function lookUp(needs: LookUpNeeds, call: IdentifiedCall): Promise<Found | undefined> {
  for (let round = 0; ; round += 1) {
    const running = needs.running.get(call.record)
    if (running !== undefined) {
      if (isOther(needs, call, requestOf(running))) return OTHER
      const outcome = await running.done
      if (outcome === LOST) continue
      return {
        kind: 'answer',
        outcome,
        runId: runIdOf(call, running.scope),
        tool: running.tool.id,
        toolId: running.tool.catalogId,
      }
    }
    const read = needs.store.find(call)
    const record = read instanceof Promise ? await read : read
    if (record === undefined) return undefined
    if (isOther(needs, call, record)) {
      // Rule 9: a released call takes other input as its next attempt.
      const isFree = mayCorrect(call, record) && !isHidden(needs.registry, call.principal, record.tool)
      return isFree ? { kind: 'again', previous: record } : OTHER
    }
    const found = await judge(needs, call, record)
    if (found !== 'look again') return found
    const waitMs = Math.min(SLOWEST_JOIN_MS, FIRST_JOIN_MS * (round + 1))
    await needs.changes.next(record.run ?? record.record, waitMs)
    if (round > MAX_ROUNDS_ALONE && isStray(needs, record)) throw strayCall()
  }
}

/** The run of the same request in this process. */
export function join(needs: LookUpNeeds, call: IdentifiedCall): RunningCall | undefined {
  const running = needs.running.get(call.record)
  if (running === undefined) return undefined
  if (isOther(needs, call, requestOf(running))) throw keyConflict()
  return running
}

function requestOf({ tool, call }: RunningCall): RecordedRequest {
  return { tool: tool.id, toolId: tool.catalogId, fingerprint: call.fingerprint }
}

/** Whether the key belongs to another request, or to a tool hidden from the caller (rule 2). A workflow step throws instead. */
function isOther(needs: LookUpNeeds, call: IdentifiedCall, recorded: RecordedRequest): boolean {
  if (isHidden(needs.registry, call.principal, recorded.tool)) return true
  if (isSameRequest(needs, call, recorded)) return false
  if (call.step !== undefined) throw workflowDiverged(call.step, recorded)
  return true
}

/** Recorded as running by this process, which does not run it: only a bug causes this, and no wait helps. */
function isStray(needs: LookUpNeeds, record: CallRecord): boolean {
  return record.writer === needs.store.writer && needs.running.get(record.record) === undefined
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
  needs: LookUpNeeds,
  call: IdentifiedCall,
  record: CallRecord,
): Promise<Found | 'look again'> {
  // Rule 13: a tombstone never runs again, whatever its call ended with.
  if (record.state === 'released' && !record.expired) return { kind: 'again', previous: record }
  // Rule 1: a call that waits for approval walks the whole ladder again.
  if (record.state === 'parked') return { kind: 'again', previous: record }
  if (record.state !== 'running') {
    const { runId = ownRunId(record.record), tool, toolId } = record
    return { kind: 'answer', outcome: answerRecorded(record), runId, tool, toolId }
  }
  if (record.writer === needs.store.writer && needs.running.takeAbandoned(call.record)) {
    return { kind: 'again', previous: record }
  }
  if (!(await needs.store.isWriterAlive(record.writer))) {
    const nowMs = needs.clock.nowMs()
    if (mayRunAgain(record, nowMs)) return { kind: 'again', previous: record }
    await needs.recover()
  }
  return 'look again'
}

/** A request between its look-up and its answer. */
class StartingCall {
  readonly #leave: () => void
  #ended: PromiseWithResolvers<void> | undefined

  constructor(leave: () => void) {
    this.#leave = leave
  }

  get ended(): Promise<void> {
    this.#ended ??= Promise.withResolvers<void>()
    return this.#ended.promise
  }

  end(): void {
    this.#leave()
    this.#ended?.resolve()
  }
}

/** The first of several simultaneous requests with one key; the others wait for it instead of being refused. */
export class StartingCalls {
  readonly #byRecord = new Map<string, StartingCall>()

  /** `undefined` when another request with this key is under way. */
  begin(record: string): StartingCall | undefined {
    if (this.#byRecord.has(record)) return undefined
    const starting = new StartingCall(() => this.#byRecord.delete(record))
    this.#byRecord.set(record, starting)
    return starting
  }

  get(record: string): StartingCall | undefined {
    return this.#byRecord.get(record)
  }
}

/** The answer of a recorded call to a repeated request. */
export function answerRecorded(record: CallRecord): Outcome {
  const { outcome } = record
  if (outcome !== undefined) return outcome
  if (record.state === 'ambiguous') return ambiguous(record)
  if (record.expired) return expired(record)
  return tookEffect(record)
}

/** Rule 11: never `can_retry`; the text says what to check. */
function ambiguous(record: CallRecord): Failure {
  return failure('ambiguous', {
    message: `The server stopped while ${record.tool} was running, so it may or may not have taken effect. Check for its effect before repeating it; an operator can settle this call.`,
    developerMessage: `Record ${record.record}. Settle it with: collet calls settle ${record.record} --as succeeded|failed|not-run --why TEXT`,
  })
}

/** Rule 13: the key outlives its result. */
function expired(record: CallRecord): Failure {
  const at = new Date(record.finishedAtMs ?? record.createdAtMs).toISOString()
  // A failed call may never have run: an approver may have rejected it.
  const how = record.state === 'succeeded' ? 'ran and succeeded' : 'failed'
  return failure('result_expired', {
    message: `This call already ${how} at ${at}; its result has expired. It was not run again.`,
  })
}

/** Rule 12: settled as succeeded by an operator who did not know the value. */
function tookEffect(record: CallRecord): Failure {
  return failure('outcome_unknown', {
    message: `${record.tool} took effect, but its result is unknown. Do not repeat it.`,
  })
}

function failure(
  code: 'ambiguous' | 'result_expired' | 'outcome_unknown',
  texts: { readonly message: string; readonly developerMessage?: string },
): Failure {
  return { ok: false, error: { code, ...texts, canRetry: false } }
}

/** At most this many attempts per call (rule 9); a crash loop must not repeat even an idempotent write for ever. */
export const MAX_ATTEMPTS = 3

/** Whether a run cut by a crash may simply run again (rule 8); a workflow repeats nothing, however often (rule 31). */
function mayRunAgain(
  cut: Pick<CallRecord, 'rerunUntilMs' | 'attempt' | 'resumable'>,
  nowMs: number,
): boolean {
  return nowMs < cut.rerunUntilMs && (cut.resumable || cut.attempt < MAX_ATTEMPTS)
}

const NO_MORE = 'It cannot be tried again under this call id; use a new call id to try again.'

/** The failure of a last attempt: nothing took effect, but no repeat can run under this id any more (rule 9). */
export function lastFailure(failure: Failure): Failure {
  const { retryAfterMs: _no, message, ...error } = failure.error
  const said = /[.!?]$/.test(message) ? message : `${message}.`
  return { ...failure, error: { ...error, message: `${said} ${NO_MORE}`, canRetry: false } }
}

/** True if the tool exists but is hidden from this principal; its calls are then hidden too (rules 1 and 2). */
export function isHidden(registry: ToolSet, principal: Principal, tool: string): boolean {
  return registry.has(tool) && registry.catalogFor(principal).get(tool) === undefined
}

/** Rule 9: a call that failed without effect may be tried again with other input by the same user, in the same session if one is named. */
function mayCorrect(call: IdentifiedCall, record: CallRecord): boolean {
  const { userId, sessionId } = call.request
  const isSameSession = sessionId === undefined || sessionId === record.sessionId
  return record.state === 'released' && !record.expired && isSameSession && userId === record.userId
    ? namesRecorded(call, record)
    : false
}

export function keyConflict(): ToolError {
  return fault(
    'key_conflict',
    'This call id was already used for a different request. Use a new call id for a new call.',
  )
}
