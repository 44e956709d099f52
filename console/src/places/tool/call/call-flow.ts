import { ApiError, sessionEnded } from '../../../api/client.ts'
import {
  type Answer,
  type Challenge,
  codeOf,
  messageFor,
  type Progress,
  pause,
  postCall,
  readCall,
  readProgress,
  runMsIn,
  type SentCall,
  type WireAnswer,
  waitForChallenges,
  waitsFor,
} from './call-wire.ts'

/**
 * The state of a call. Its id is made before it is sent and kept until its answer is shown, so that a retry after a broken
 * connection returns the recorded answer instead of running the tool twice.
 */
export type CallPhase =
  | { readonly at: 'idle' }
  | {
      readonly at: 'running'
      readonly callId: string
      readonly since: Date
      readonly progress?: Progress
      readonly isStopping?: boolean
    }
  /** Waiting for approval. The call continues after it. */
  | { readonly at: 'parked'; readonly callId: string; readonly approvalId: string; readonly since: Date }
  /** A waiting call that was sent before the page was loaded: it continues when its input is sent again under its id. */
  | {
      readonly at: 'resumable'
      readonly callId: string
      readonly since: Date
      readonly record: string | undefined
      /** The input differs from the one that the call was made with. */
      readonly isOtherInput?: boolean
    }
  | { readonly at: 'connecting'; readonly callId: string; readonly challenges: readonly Challenge[] }
  /** `isOld`: sent before the page was loaded, so its input is not known. `message`: why its state could not be found. */
  | {
      readonly at: 'lost'
      readonly callId: string
      readonly since: Date
      readonly isOld: boolean
      readonly message?: string
    }
  /** The state of a call without an answer. */
  | { readonly at: 'unresolved'; readonly message: string }
  | { readonly at: 'answered'; readonly answer: Answer; readonly sent: SentCall | undefined }

export interface FlowOptions {
  readonly callId: string
  readonly signal: AbortSignal
  setPhase(phase: CallPhase | ((before: CallPhase) => CallPhase)): void
}

export const NO_RECORD =
  'This server has no record of that call under your name. It never arrived, or its record is no longer kept.'

/** Looks up a call that was sent before this page was loaded. */
export async function lookUp({ callId, signal, setPhase }: FlowOptions): Promise<void> {
  const since = new Date()
  const lost = (message: string): void => setPhase({ at: 'lost', callId, since, isOld: true, message })
  try {
    for (;;) {
      const startedAt = performance.now()
      const look = await readCall(callId, signal)
      if (look.kind === 'none') return setPhase({ at: 'unresolved', message: NO_RECORD })
      if (look.kind === 'unread') return lost(look.message)
      const { result, state } = look.view
      if (state === 'parked') return setPhase(resumableOf(callId, look.view))
      if (result !== undefined) {
        const answer = {
          ...{ status: 200, headers: [], text: '', body: { result }, callId, isReplayed: true },
          tookMs: performance.now() - startedAt,
          record: recordIn(look.view),
        }
        return setPhase({ at: 'answered', answer, sent: undefined })
      }
      const progress = readProgress(look.view)
      setPhase({ at: 'running', callId, since, ...(progress === undefined ? {} : { progress }) })
      await pause(POLL_MS, signal)
    }
  } catch (error) {
    if (!signal.aborted) lost(reasonOf(error))
  }
}

/** How long one request waits for a decision before the next request is sent. */
const WAIT_SECONDS = 25

/**
 * Sends the call, and repeats it with its id after each approval or grant of access, until there is an answer. `isAgain`: it was
 * sent before, so the server may have recorded it.
 */
export async function carryOut(call: SentCall, options: FlowOptions, isAgain: boolean): Promise<void> {
  const { callId, signal, setPhase } = options
  const since = new Date()
  const lost = (message?: string): void =>
    setPhase({
      at: 'lost',
      callId,
      since: new Date(),
      isOld: false,
      ...(message === undefined ? {} : { message }),
    })
  setPhase({ at: 'running', callId, since })
  let watch = watchProgress(options)
  try {
    const look = isAgain ? await readCall(callId, signal) : NOT_SENT
    if (look.kind === 'unread') return lost(look.message)
    const before = look.kind === 'found' ? look.view : undefined
    const isReplayed = before !== undefined && before.state !== 'parked' && before.state !== 'released'
    let isAccepted = before !== undefined
    let approvalRequest: ApprovalRequest | undefined
    let headers = {}
    for (;;) {
      const answer = await postCall(call, callId, { headers, signal })
      const waits = waitsFor(answer)
      if (waits === undefined) {
        if (answer.status === 401) sessionEnded.set(true)
        if (isUndecided(answer, isAccepted)) return lost(messageFor(answer.status, answer.body))
        if (before?.state === 'parked' && codeOf(answer) === 'key_conflict')
          return setPhase({ ...resumableOf(callId, before), isOtherInput: true })
        // A rejected call has no record to look up.
        const isRecorded = isAccepted || runMsIn(answer.body) !== undefined
        const record = isRecorded ? await recordOf(callId, signal) : undefined
        const timed = approvalRequest === undefined ? answer : withoutWaiting(answer, approvalRequest)
        return setPhase({ at: 'answered', answer: { ...timed, isReplayed, record }, sent: call })
      }
      watch.end()
      if (waits.approvalId !== undefined) {
        setPhase({ at: 'parked', callId, approvalId: waits.approvalId, since })
        isAccepted = true
        approvalRequest ??= { atMs: performance.now(), tookMs: answer.tookMs }
        headers = { prefer: `wait=${WAIT_SECONDS}` }
      } else {
        setPhase({ at: 'connecting', callId, challenges: waits.challenges })
        await waitForChallenges(waits.challenges, signal)
        setPhase({ at: 'running', callId, since })
        watch = watchProgress(options)
      }
    }
  } catch (error) {
    if (!signal.aborted) lost(error instanceof ApiError && error.status === 0 ? undefined : reasonOf(error))
  } finally {
    watch.end()
  }
}

/** When the server asked for approval, and how long that request took. */
interface ApprovalRequest {
  readonly atMs: number
  readonly tookMs: number
}

/** Subtracts the wait for the decision from the call's time, because the last request includes it. */
function withoutWaiting(
  answer: WireAnswer,
  { atMs, tookMs }: ApprovalRequest,
): WireAnswer & Pick<Answer, 'waitedMs'> {
  const runMs = runMsIn(answer.body) ?? 0
  return { ...answer, tookMs: tookMs + runMs, waitedMs: Math.max(0, performance.now() - atMs - runMs) }
}

const NOT_SENT = { kind: 'none' } as const

/** Error codes of a refused request that do not reveal the state of a call accepted earlier. */
const REQUEST_ERRORS: ReadonlySet<string | undefined> = new Set([
  'unauthenticated',
  'rate_limited',
  'budget_exceeded',
  'overloaded',
  'not_ready',
  'internal',
  // The answer came from a proxy, not from the server.
  undefined,
])

/** Whether the call may have run, or may wait, despite this answer. */
function isUndecided(answer: WireAnswer, isAccepted: boolean): boolean {
  if (answer.status < 300) return false
  return answer.status >= 500 || (isAccepted && REQUEST_ERRORS.has(codeOf(answer)))
}

/** The record id for the link to the call. */
async function recordOf(callId: string, signal: AbortSignal): Promise<string | undefined> {
  const look = await readCall(callId, signal).catch(() => undefined)
  return look?.kind === 'found' ? recordIn(look.view) : undefined
}

function recordIn({ record }: Readonly<Record<string, unknown>>): string | undefined {
  return typeof record === 'string' ? record : undefined
}

function resumableOf(
  callId: string,
  view: Readonly<Record<string, unknown>>,
): CallPhase & { readonly at: 'resumable' } {
  const since = new Date(typeof view.created_at === 'string' ? view.created_at : Date.now())
  return { at: 'resumable', callId, since, record: recordIn(view) }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

const FIRST_POLL_MS = 700
const POLL_MS = 1000

/** Polls the progress of a call that runs longer than `FIRST_POLL_MS`. */
function watchProgress({ callId, signal, setPhase }: FlowOptions): { end(): void } {
  const over = new AbortController()
  const either = AbortSignal.any([signal, over.signal])
  const look = async (): Promise<void> => {
    await pause(FIRST_POLL_MS, either)
    while (!either.aborted) {
      const found = await readCall(callId, either)
      const progress = found.kind === 'found' ? readProgress(found.view) : undefined
      if (progress !== undefined)
        setPhase((before) => (before.at === 'running' ? { ...before, progress } : before))
      await pause(POLL_MS, either)
    }
  }
  // Progress is optional; the call itself reports its outcome.
  look().catch(() => undefined)
  return { end: () => over.abort() }
}
