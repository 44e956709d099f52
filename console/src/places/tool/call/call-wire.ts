import { ApiError, fetchResponse, sessionEnded } from '../../../api/client.ts'
import { runAsHeaders } from '../../../app/person/run-as.tsx'
import { otcBody } from '../snippets.ts'
import { isRecord, type ToolDetails } from '../tool-data.ts'

/*
 * Sends a call over OTC, looks it up and waits for challenges. Several pages use it. A connection that breaks while an answer
 * is read counts as no answer.
 */

export interface SentCall {
  readonly tool: Pick<ToolDetails, 'id' | 'base' | 'names' | 'source' | 'requirements'> & {
    readonly policy: Pick<ToolDetails['policy'], 'tier'>
  }
  readonly input: unknown
  readonly userId: string | undefined
}

/** The server's answer to a call. */
export interface Answer {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  /** The body, unparsed. */
  readonly text: string
  readonly body: unknown
  readonly callId: string
  /** The time from sending to the last byte, without the time spent waiting for a person. */
  readonly tookMs: number
  /** How long it waited for approval; `undefined` if it did not. */
  readonly waitedMs?: number
  /** The call was recorded before this request, so nothing ran for it. */
  readonly isReplayed: boolean
  /** The person at this page stopped the call, and it ended cancelled. */
  readonly isStopped?: boolean
  /** The recorded call, for a link. Rejected calls have none. */
  readonly record: string | undefined
}

/** How long the tool ran, as the server measured it; `undefined` without a result. */
export function runMsIn(body: unknown): number | undefined {
  const result = isRecord(body) && isRecord(body.result) ? body.result : undefined
  return typeof result?.duration === 'number' ? result.duration : undefined
}

/** Whether a cancelled call ended before it ran: a call that ran has a duration. */
export function hasNotRun(view: unknown): boolean {
  return isRecord(view) && view.state === 'failed' && runMsIn(view) === 0
}

/** Something that a person must provide first, on a page of the server or of a provider. */
export interface Challenge {
  readonly id: string
  readonly url: string
  readonly provider: string | undefined
}

export interface Progress {
  readonly done: number
  readonly total?: number
  readonly message?: string
}

/** An answer before the call was looked up. */
export type WireAnswer = Omit<Answer, 'isReplayed' | 'record' | 'waitedMs'>

export async function postCall(
  { tool, input, userId }: SentCall,
  callId: string,
  { headers, signal }: { readonly headers: Readonly<Record<string, string>>; readonly signal: AbortSignal },
): Promise<WireAnswer> {
  const startedAt = performance.now()
  const body = otcBody({ tool, input, callId, userId })
  const response = await fetchResponse('/tools/call', {
    ...{ method: 'POST', body, signal },
    headers: { ...headers, ...runAsHeaders() },
  })
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

/** Reads the body. A connection that breaks while it is read counts as no answer. */
async function readText(response: Response): Promise<string> {
  try {
    return await response.text()
  } catch {
    throw new ApiError(0, 'The answer was incomplete.')
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

/** Whether a person must do something first; nothing ran then. */
export function waitsFor({ status, body }: WireAnswer): Waits | undefined {
  if (status !== 400 || !isRecord(body) || !isRecord(body.missing_requirements)) return undefined
  const { approval, authorization, secrets, user_id: user } = body.missing_requirements
  if (isRecord(approval) && typeof approval.id === 'string')
    return { approvalId: approval.id, challenges: [] }
  // Granting access alone would not be enough.
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

const POLL_MS = 2000

/** Waits until every challenge is completed or has failed. */
export async function waitForChallenges(
  challenges: readonly Challenge[],
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await pause(POLL_MS, signal)
    const states = await Promise.all(
      challenges.map(async ({ id }) => {
        const response = await fetchResponse(`/challenges/${encodeURIComponent(id)}/status`, { signal })
        const status: unknown = parse(await readText(response))
        return isRecord(status) ? status.status : undefined
      }),
    )
    if (states.every((state) => state !== 'pending')) return
  }
}

/** The server's record of a call. `unread`: it could not be read. */
type Look =
  | { readonly kind: 'found'; readonly view: Readonly<Record<string, unknown>> }
  | { readonly kind: 'none' }
  | { readonly kind: 'unread'; readonly message: string }

/** Looks a call up. Only the server's own error code proves that there is no such call; other errors do not. */
export async function readCall(callId: string, signal: AbortSignal): Promise<Look> {
  const response = await fetchResponse(callPath(callId), { headers: runAsHeaders(), signal })
  const view = parse(await readText(response))
  if (response.ok && isRecord(view)) return { kind: 'found', view }
  const { status } = response
  if (status === 404 && response.headers.get(ERROR_CODE) === 'call_not_found') return { kind: 'none' }
  if (status === 401) sessionEnded.set(true)
  return { kind: 'unread', message: messageFor(status, view) }
}

export function callPath(callId: string): string {
  return `/calls/${encodeURIComponent(callId)}`
}

/** The server's error code, in a header. */
const ERROR_CODE = 'collet-error-code'

export function codeOf({ headers }: Pick<Answer, 'headers'>): string | undefined {
  return headers.find(([name]) => name === ERROR_CODE)?.[1]
}

export function messageFor(status: number, body: unknown): string {
  if (status === 401) return 'Your session has ended.'
  return isRecord(body) && typeof body.message === 'string' && body.message !== ''
    ? body.message
    : `The server answered ${status}.`
}

export function readProgress(view: Readonly<Record<string, unknown>>): Progress | undefined {
  const { progress } = view
  if (!isRecord(progress) || typeof progress.done !== 'number') return undefined
  return {
    done: progress.done,
    ...(typeof progress.total === 'number' ? { total: progress.total } : {}),
    ...(typeof progress.message === 'string' ? { message: progress.message } : {}),
  }
}

/** Waits, and rejects if `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
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
