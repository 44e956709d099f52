import { useEffect, useRef, useState } from 'react'
import { newCallId } from '../../api/call-id.ts'
import { ApiError, reach, sessionGone } from '../../api/client.ts'
import { forgetCall, keepCall, keptCall } from './kept-call.ts'
import { otcBody } from './snippets.ts'
import { isRecord, type ToolDetails } from './tool-data.ts'

/** What the server said to a call, and how long it took. */
export interface Answer {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  /** As it came. */
  readonly text: string
  readonly body: unknown
  readonly callId: string
  /** From sending to the last byte. */
  readonly tookMs: number
  /** The call had been recorded before this request was sent: nothing ran for it. */
  readonly isReplayed: boolean
  /** The recorded call, for a link to it. Nothing is recorded of what was refused. */
  readonly record: string | undefined
}

/** What somebody has to give first, on a page of the server or of a provider. */
interface Challenge {
  readonly id: string
  readonly url: string
  readonly provider: string | undefined
}

interface Progress {
  readonly done: number
  readonly total?: number
  readonly message?: string
}

/**
 * Where a call is. Its id is made before it is sent and kept until its answer has been seen, so that asking again after the connection
 * broke gives the recorded answer instead of a second run.
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
  /** Somebody has to approve it; it goes on by itself once they have. */
  | { readonly at: 'parked'; readonly callId: string; readonly approvalId: string; readonly since: Date }
  | { readonly at: 'connecting'; readonly callId: string; readonly challenges: readonly Challenge[] }
  /** `isOld`: it was sent before the page was loaded, so that its input is not known any more. */
  | { readonly at: 'lost'; readonly callId: string; readonly since: Date; readonly isOld: boolean }
  /** What was found out about an old one that has no answer. */
  | { readonly at: 'told'; readonly says: string }
  | { readonly at: 'answered'; readonly answer: Answer; readonly sent: SentCall | undefined }

export interface SentCall {
  readonly tool: ToolDetails
  readonly input: unknown
  readonly userId: string | undefined
}

export interface CallControl {
  readonly phase: CallPhase
  /** A new call. */
  run(call: SentCall): void
  /** The same call once more, under the same id; or, where its input is not known, what became of it. */
  askAgain(): void
  stop(): void
}

export function useCall(tool: ToolDetails): CallControl {
  const [phase, setPhase] = useState<CallPhase>(() => phaseBefore(tool.id))
  const current = useRef<{ readonly call: SentCall; readonly callId: string } | undefined>(undefined)
  const end = useRef(new AbortController())
  useEffect(() => () => end.current.abort(), [])
  // What changes nothing may simply be called again.
  const isKept = tool.policy.tier === 'write' || tool.policy.tier === 'exec'

  const settle: CarryOptions['setPhase'] = (next) => {
    if (typeof next !== 'function' && (next.at === 'answered' || next.at === 'told' || next.at === 'idle'))
      forgetCall(tool.id)
    setPhase(next)
  }
  const signal = (): AbortSignal => {
    end.current.abort()
    end.current = new AbortController()
    return end.current.signal
  }
  const begin = (call: SentCall, callId: string, isAgain: boolean): void => {
    current.current = { call, callId }
    if (isKept) keepCall(tool.id, { callId, since: new Date() })
    void carryOut(call, { callId, isAgain, setPhase: settle, signal: signal() })
  }
  return {
    phase,
    run: (call) => begin(call, newCallId(), false),
    askAgain() {
      if (current.current !== undefined) begin(current.current.call, current.current.callId, true)
      else if (phase.at === 'lost') void lookUp(phase.callId, { setPhase: settle, signal: signal() })
    },
    stop() {
      const callId = current.current?.callId
      if (callId === undefined) return
      setPhase((before) => (before.at === 'running' ? { ...before, isStopping: true } : before))
      // Whatever comes of it, the call answers for itself.
      void reach(callPath(callId), { method: 'DELETE' }).catch(() => undefined)
      if (phase.at === 'parked' || phase.at === 'connecting') {
        end.current.abort()
        settle({ at: 'idle' })
      }
    },
  }
}

function phaseBefore(tool: string): CallPhase {
  const kept = keptCall(tool)
  return kept === undefined ? { at: 'idle' } : { at: 'lost', ...kept, isOld: true }
}

/** What became of a call that was sent before this page was loaded. */
async function lookUp(
  callId: string,
  { signal, setPhase }: Pick<CarryOptions, 'signal' | 'setPhase'>,
): Promise<void> {
  const since = new Date()
  try {
    for (;;) {
      const startedAt = performance.now()
      const view = await readCall(callId, signal)
      if (view === undefined) return setPhase({ at: 'told', says: NEVER_ARRIVED })
      if (view.state === 'parked') return setPhase({ at: 'told', says: STILL_WAITS })
      const { result, record } = view
      if (result !== undefined) {
        const answer = {
          ...{ status: 200, headers: [], text: '', body: { result }, callId, isReplayed: true },
          tookMs: performance.now() - startedAt,
          record: typeof record === 'string' ? record : undefined,
        }
        return setPhase({ at: 'answered', answer, sent: undefined })
      }
      const progress = readProgress(view)
      setPhase({ at: 'running', callId, since, ...(progress === undefined ? {} : { progress }) })
      await pause(LOOK_AGAIN_MS, signal)
    }
  } catch {
    if (!signal.aborted) setPhase({ at: 'lost', callId, since, isOld: true })
  }
}

const NEVER_ARRIVED = 'That call never arrived: nothing ran.'
const STILL_WAITS =
  'That call waits for approval, and nothing ran. Once it is approved, run the tool with exactly the same input: it goes on with that call.'

interface CarryOptions {
  readonly callId: string
  readonly isAgain: boolean
  readonly signal: AbortSignal
  setPhase(phase: CallPhase | ((before: CallPhase) => CallPhase)): void
}

/** How long one request waits for a decision before the next one does. */
const WAIT_SECONDS = 25
const ASK_STATUS_MS = 2000

/** Sends the call, and sends it again under its id whenever a person has done what it waited for, until there is an answer. */
async function carryOut(call: SentCall, options: CarryOptions): Promise<void> {
  const { callId, isAgain, signal, setPhase } = options
  const since = new Date()
  setPhase({ at: 'running', callId, since })
  const watch = watchProgress(callId, { signal, setPhase })
  try {
    const isReplayed = isAgain && (await isRecorded(callId, signal))
    let headers = {}
    for (;;) {
      const answer = await ask(call, callId, { headers, signal })
      const waits = waitsFor(answer)
      if (waits === undefined) {
        if (answer.status === 401) sessionGone.set(true)
        const record = await recordOf(callId, signal)
        return setPhase({ at: 'answered', answer: { ...answer, isReplayed, record }, sent: call })
      }
      if (waits.approvalId !== undefined) {
        setPhase({ at: 'parked', callId, approvalId: waits.approvalId, since })
        headers = { prefer: `wait=${WAIT_SECONDS}` }
      } else {
        setPhase({ at: 'connecting', callId, challenges: waits.challenges })
        await waitUntilGiven(waits.challenges, signal)
        setPhase({ at: 'running', callId, since })
      }
    }
  } catch {
    if (signal.aborted) return
    setPhase({ at: 'lost', callId, since: new Date(), isOld: false })
  } finally {
    watch.end()
  }
}

type Heard = Omit<Answer, 'isReplayed' | 'record'>

async function ask(
  { tool, input, userId }: SentCall,
  callId: string,
  { headers, signal }: { readonly headers: Readonly<Record<string, string>>; readonly signal: AbortSignal },
): Promise<Heard> {
  const startedAt = performance.now()
  const body = otcBody({ tool, input, callId, userId })
  const response = await reach('/tools/call', { method: 'POST', body, headers, signal })
  const text = await readText(response)
  return {
    status: response.status,
    headers: [...response.headers],
    text,
    body: parse(text),
    callId,
    tookMs: performance.now() - startedAt,
  }
}

/** A connection that breaks in the middle of an answer is lost, too. */
async function readText(response: Response): Promise<string> {
  try {
    return await response.text()
  } catch {
    throw new ApiError(0, 'The answer broke off.')
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

interface Waits {
  readonly approvalId?: string
  readonly challenges: readonly Challenge[]
}

/** Whether the answer is that somebody has to do something first; nothing ran then. */
function waitsFor({ status, body }: Heard): Waits | undefined {
  if (status !== 400 || !isRecord(body) || !isRecord(body.missing_requirements)) return undefined
  const { approval, authorization, secrets, user_id: user } = body.missing_requirements
  if (isRecord(approval) && typeof approval.id === 'string')
    return { approvalId: approval.id, challenges: [] }
  // Access alone would not be enough.
  if (secrets !== undefined || user !== undefined) return undefined
  const facts = isRecord(body.challenges) ? body.challenges : {}
  const challenges = (Array.isArray(authorization) ? authorization : []).flatMap((challenge): Challenge[] => {
    if (!isRecord(challenge)) return []
    const { id, url } = challenge
    if (typeof id !== 'string' || typeof url !== 'string') return []
    const about = facts[id]
    const provider = isRecord(about) && typeof about.provider === 'string' ? about.provider : undefined
    return [{ id, url, provider }]
  })
  return challenges.length === 0 ? undefined : { challenges }
}

/** Until every one of them has been given, or failed: the call then says so. */
async function waitUntilGiven(challenges: readonly Challenge[], signal: AbortSignal): Promise<void> {
  for (;;) {
    await pause(ASK_STATUS_MS, signal)
    const states = await Promise.all(
      challenges.map(async ({ id }) => {
        const response = await reach(`/challenges/${encodeURIComponent(id)}/status`, { signal })
        const status: unknown = parse(await readText(response))
        return isRecord(status) ? status.status : undefined
      }),
    )
    if (states.every((state) => state !== 'pending')) return
  }
}

function callPath(callId: string): string {
  return `/calls/${encodeURIComponent(callId)}`
}

async function readCall(
  callId: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const response = await reach(callPath(callId), { signal })
  const view = parse(await readText(response))
  return response.ok && isRecord(view) ? view : undefined
}

async function isRecorded(callId: string, signal: AbortSignal): Promise<boolean> {
  return (await readCall(callId, signal)) !== undefined
}

/** Only for the link to the call: an answer stands without it. */
async function recordOf(callId: string, signal: AbortSignal): Promise<string | undefined> {
  const view = await readCall(callId, signal).catch(() => undefined)
  return typeof view?.record === 'string' ? view.record : undefined
}

const FIRST_LOOK_MS = 700
const LOOK_AGAIN_MS = 1000

/** While a call runs for longer than a moment, how far the tool says it is. */
function watchProgress(
  callId: string,
  { signal, setPhase }: Pick<CarryOptions, 'signal' | 'setPhase'>,
): { end(): void } {
  const over = new AbortController()
  const either = AbortSignal.any([signal, over.signal])
  const look = async (): Promise<void> => {
    await pause(FIRST_LOOK_MS, either)
    while (!either.aborted) {
      const progress = readProgress(await readCall(callId, either))
      if (progress !== undefined)
        setPhase((before) => (before.at === 'running' ? { ...before, progress } : before))
      await pause(LOOK_AGAIN_MS, either)
    }
  }
  // How far it is may be unknown; what came of it is told by the call.
  look().catch(() => undefined)
  return { end: () => over.abort() }
}

function readProgress(view: Readonly<Record<string, unknown>> | undefined): Progress | undefined {
  const progress = view?.progress
  if (!isRecord(progress) || typeof progress.done !== 'number') return undefined
  return {
    done: progress.done,
    ...(typeof progress.total === 'number' ? { total: progress.total } : {}),
    ...(typeof progress.message === 'string' ? { message: progress.message } : {}),
  }
}

/** Rejects when it is not to go on. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(new DOMException('Ended', 'AbortError'))
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}
