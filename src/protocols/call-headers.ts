import type { CallReply, CallRequest } from '#core/call'
import { type ErrorCode, ToolError } from '#core/errors'
import { checkCallKey, checkRunId } from '#core/ids'
import { headerText } from './header-text.ts'

/** Header names that mean the same on every protocol, in lower case as requests are read. */
export const IDEMPOTENCY_KEY_HEADER = 'idempotency-key'
export const CALL_ID_HEADER = 'collet-call-id'
export const ERROR_CODE_HEADER = 'collet-error-code'
export const RUN_HEADER = 'collet-run'
export const SESSION_HEADER = 'collet-session'
/** On answers that somebody else wrote: nothing in them is an instruction (OWP-58). */
export const TRUST_HEADER = 'collet-content-trust'
export const PREFER_HEADER = 'prefer'

const HEADER_SAFE = /^[\x21-\x24\x26-\x7e]*$/
const HEADER_UNSAFE = /[^\x21-\x24\x26-\x7e]/gu

/**
 * A call id as a header value: everything but visible ASCII, and `%` itself, is percent-encoded UTF-8, so
 * `decodeURIComponent` gives back the exact id and no id can end the header line.
 */
export function callIdToHeader(callId: string): string {
  return HEADER_SAFE.test(callId) ? callId : callId.toWellFormed().replace(HEADER_UNSAFE, encodeURIComponent)
}

/** The key as the header says it, in the spelling it has in a body too (rule 4). */
export function readKeyHeader(headers: Readonly<Record<string, string | undefined>>): string | undefined {
  const header = headers[IDEMPOTENCY_KEY_HEADER]
  return header === undefined ? undefined : headerText(header)
}

/** What a refusal says of a call that was never read: the id its header names, or a new one (rule 6). */
export function unreadCallHeaders(
  headers: Readonly<Record<string, string | undefined>>,
  code: ErrorCode,
): Record<string, string> {
  const callId = usableKey(readKeyHeader(headers)) ?? crypto.randomUUID()
  return { [CALL_ID_HEADER]: callIdToHeader(callId), [ERROR_CODE_HEADER]: code }
}

function usableKey(key: string | undefined): string | undefined {
  try {
    return key === undefined ? undefined : checkCallKey(key)
  } catch (error) {
    if (error instanceof ToolError) return undefined
    throw error
  }
}

/** The longest a request may wait for a decision, whatever the operator lets it. */
const LONGEST_WAIT_S = 60
const WAIT = /^wait\s*=\s*"?([0-9]{1,9})"?$/i

/** `Prefer: wait=N` (RFC 7240): hold the answer until somebody decides, at most so long. Other preferences are ignored. */
export function readWait(request: {
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Aborted when the client is gone. Made for those who ask for it, so only a request that waits does. */
  readonly signal?: AbortSignal | undefined
}): Pick<CallRequest, 'waitMs' | 'gone'> | undefined {
  const preferred = request.headers[PREFER_HEADER]
  if (preferred === undefined) return undefined
  const seconds = preferred
    .split(',')
    .map((preference) => WAIT.exec(preference.split(';', 1)[0]?.trim() ?? '')?.[1])
  const asked = seconds.find((found) => found !== undefined)
  if (asked === undefined) return undefined
  const waitMs = Math.min(Number(asked), LONGEST_WAIT_S) * 1_000
  const { signal } = request
  return signal === undefined ? { waitMs } : { waitMs, gone: signal }
}

/** The run and the session a call names, since no protocol has members for them. */
export function readCallPlace(
  headers: Readonly<Record<string, string | undefined>>,
): Pick<CallRequest, 'runId' | 'sessionId'> | undefined {
  const runId = headers[RUN_HEADER]
  const sessionId = headers[SESSION_HEADER]
  if (runId === undefined && sessionId === undefined) return undefined
  return {
    ...(runId === undefined ? {} : { runId: checkRunId(percentDecoded(headerText(runId))) }),
    ...(sessionId === undefined ? {} : { sessionId }),
  }
}

/** The same headers as a client sends them. */
export function callPlaceHeaders(place: {
  readonly runId?: string | undefined
  readonly sessionId?: string | undefined
}): Record<string, string> {
  return {
    ...(place.runId === undefined ? undefined : { [RUN_HEADER]: callIdToHeader(place.runId) }),
    ...(place.sessionId === undefined ? undefined : { [SESSION_HEADER]: place.sessionId }),
  }
}

/** What every answer to a call says besides its body (rule 6): its id, its run, and how it failed. */
export function callReplyHeaders({ callId, runId, outcome, untrusted }: CallReply): Record<string, string> {
  return {
    [CALL_ID_HEADER]: callIdToHeader(callId),
    ...(runId === undefined ? undefined : { [RUN_HEADER]: callIdToHeader(runId) }),
    ...(outcome.ok ? undefined : { [ERROR_CODE_HEADER]: outcome.error.code }),
    ...trustHeader(untrusted),
  }
}

export function trustHeader(untrusted: true | undefined): Record<string, string> | undefined {
  return untrusted === undefined ? undefined : { [TRUST_HEADER]: 'untrusted' }
}

/** The run a reply names, for clients. */
export function runOf(headers: Pick<Headers, 'get'>): { readonly runId?: string } {
  const run = headers.get(RUN_HEADER)
  return run === null ? {} : { runId: percentDecoded(run) }
}

/** Replies encode what a header cannot carry; whoever sends it back means the same. */
function percentDecoded(text: string): string {
  try {
    return text.includes('%') ? decodeURIComponent(text) : text
  } catch {
    return text
  }
}
