import type { Failure, Outcome } from '#core/call'
import { fault, type ToolError } from '#core/errors'
import { ownRunId, runIdOf } from '#core/ids'
import type { CallRecord, Store } from '#core/ports/store'
import type { Clock } from '#core/runtime'
import { workflowDiverged } from '#core/workflow/step'
import {
  type IdentifiedCall,
  type Identities,
  isHidden,
  isSameRequest,
  keyConflict,
  mayCorrect,
  type RecordedRequest,
} from './identity.ts'
import { LOST, type RunningCall, type RunningCalls } from './running.ts'

/** A running call of another process is looked at this often. */
const JOIN_POLL_MS = 50
const MOST_ROUNDS_ALONE = 100

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

/** What looking under a key takes: the runs of this process, and what is recorded. */
export interface LookUpNeeds extends Identities {
  readonly store: Store
  readonly clock: Clock
  readonly running: RunningCalls
}

/** Rule 1: answers or joins what is already under the key. Nothing is validated again, and nothing runs here. */
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
    if (round > MOST_ROUNDS_ALONE && isStray(needs, record)) throw strayCall()
  }
}

/** The same call running in this process, if it does. */
export function join(needs: LookUpNeeds, call: IdentifiedCall): RunningCall | undefined {
  const running = needs.running.get(call.record)
  if (running === undefined) return undefined
  if (isOther(needs, call, requestOf(running))) throw keyConflict()
  return running
}

function requestOf({ tool, call }: RunningCall): RecordedRequest {
  return { tool: tool.id, toolId: tool.catalogId, fingerprint: call.fingerprint }
}

/** Whether the key is another request's, or one of a tool that its caller may not see (rule 2). A step has its own word for it. */
function isOther(needs: LookUpNeeds, call: IdentifiedCall, recorded: RecordedRequest): boolean {
  if (isHidden(needs.registry, call.principal, recorded.tool)) return true
  if (isSameRequest(needs, call, recorded)) return false
  if (call.step !== undefined) throw workflowDiverged(call.step, recorded)
  return true
}

/** Ours and running, yet nobody here runs it: only a fault of ours can leave a call so, and no wait helps. */
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
  // Rule 1: what waits for a yes walks the whole ladder again.
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
    await needs.store.recover(nowMs)
  }
  await new Promise((resolve) => setTimeout(resolve, JOIN_POLL_MS))
  return 'look again'
}

/** A request that is on its way from the look-up to its answer. */
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

/** The first of several requests with one key, from before it runs: the others may wait for it instead of being refused. */
export class StartingCalls {
  readonly #byRecord = new Map<string, StartingCall>()

  /** `undefined` when there is a first one already. */
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

/** What a recorded call answers to a request that comes again. */
export function answerRecorded(record: CallRecord): Outcome {
  const { outcome } = record
  // Records of before: a last failure that still says so.
  if (outcome?.ok === false && outcome.error.canRetry && record.state === 'failed')
    return lastFailure(outcome)
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
  // One that failed may never have begun: an approver said no.
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
export const MOST_ATTEMPTS = 3

/** Whether a run cut by a crash may simply run again (rule 8); a workflow repeats nothing, however often (rule 31). */
function mayRunAgain(
  cut: Pick<CallRecord, 'rerunUntilMs' | 'attempt' | 'resumable'>,
  nowMs: number,
): boolean {
  return nowMs < cut.rerunUntilMs && (cut.resumable || cut.attempt < MOST_ATTEMPTS)
}

const NO_MORE = 'It cannot be tried again under this call id; use a new call id to try again.'

/** The failure of a last attempt: nothing took effect, but no repeat can run under this id any more (rule 9). */
export function lastFailure(failure: Failure): Failure {
  const { retryAfterMs: _no, message, ...error } = failure.error
  const said = /[.!?]$/.test(message) ? message : `${message}.`
  return { ...failure, error: { ...error, message: `${said} ${NO_MORE}`, canRetry: false } }
}
