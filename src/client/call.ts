import { checkCallKey, LATEST, parseToolId, parseToolName } from '#kernel/base/ids'
import { defined, type JsonObject, type JsonValue } from '#kernel/base/json'
import { callScopeHeaders, ERROR_CODE_HEADER, isReplay, runOf } from '#protocols/call-wire'
import {
  type ApiKeyHeader,
  buildCallBody,
  type CallPath,
  PINNED_WIRES,
  type RemoteTool,
  type ServerWire,
  versionHeaders,
  type WireContext,
} from '#protocols/otc/codec-client'
import { isRouteMiss, readCallReply, type WireFailure } from '#protocols/otc/codec-client-reply'
import { CallFailure, configFailure } from './failure.ts'
import { type HttpAnswer, joinSignals, NoAnswer, untilAborted } from './http.ts'
import { type ClientSettings, readTimeoutMs } from './options.ts'
import { awaitChallenges, resolveContext } from './requirements.ts'
import {
  backoffMs,
  MAX_TOOL_RETRIES,
  MAX_WAIT_MS,
  noAnswerFailure,
  pause,
  retryAdvice,
  sendOrFail,
} from './retries.ts'
import type { ToolDirectory } from './tool-directory.ts'

/**
 * One call of a tool over OTC: finds the tool, resolves its requirements, sends the call, reads the answer, and retries if that is
 * safe. `client.ts` runs it for `call` and `tryCall`. Invariant: a request without an answer is repeated under its
 * call id, so it never runs a tool twice (OTC/T-07); a new id is used only after the tool reported a failure that may
 * be retried.
 */

/** Runs a call from look-up to result, with its retries. */
export async function runCall(
  session: CallSession,
  tool: string | RemoteTool,
  input: JsonObject,
  options: CallOptions,
): Promise<CallResult> {
  const { settings } = session
  const callId = checkCallId(options.callId ?? settings.randomId())
  if (options.timeoutMs !== undefined) readTimeoutMs(options.timeoutMs)
  const copy = copyJson(input)
  const signal = joinSignals(settings.signal, options.signal)
  const target = await findTarget(session, tool, { callId: options.callId, signal })
  const { userId } = options
  const userInfo = options.userInfo === undefined ? undefined : copyJson(options.userInfo, 'userInfo')
  const context = await resolveContext({ ...target, userId, userInfo, signal }, settings)
  if (signal?.aborted) {
    const message = 'The call was aborted by its caller before it was sent.'
    throw new CallFailure('transport', message, { toolId: target.toolId, cause: signal.reason })
  }
  const constant = { session, target, options, signal, progress: { resent: 0 } }
  const run: CallRun = { ...constant, input: copy, context, callId, toolRetries: 0, hasAskedUser: false }
  for (;;) {
    const outcome = readOutcome(await sendCall(run), run)
    if (!(outcome instanceof CallFailure)) return outcome
    if (!(await prepareRetry(outcome, run))) throw outcome
  }
}

/** Waits until the call may be repeated and updates `run` for it; false if the failure is final. */
async function prepareRetry(failure: CallFailure, run: CallRun): Promise<boolean> {
  try {
    if (mayResend(failure, run) && (await prepareInput(failure, run))) {
      await pause(failure.retryAfterMs ?? backoffMs(run.toolRetries), run.session.settings, run.signal)
      run.toolRetries += 1
      // A caller's own id is kept, because under a new id repeating the call later would run the tool again.
      run.callId = run.options.callId ?? checkCallId(run.session.settings.randomId())
      return true
    }
    return await awaitUser(failure, run)
  } catch (error) {
    if (error instanceof NoAnswer) throw noAnswerFailure(error, 'Waiting to repeat the call', factsOf(run))
    throw error
  }
}

/**
 * Prompt content means that the input must change (OTC/T-06): if `onRetry` returns no new input, the caller gets the
 * failure.
 */
async function prepareInput(failure: CallFailure, run: CallRun): Promise<boolean> {
  if (failure.additionalPromptContent === undefined) return true
  const { onRetry } = run.options
  if (onRetry === undefined) return false
  const corrected = await untilAborted(run.signal, async () => onRetry(failure))
  if (corrected === undefined) return false
  run.input = copyJson(corrected)
  return true
}

function mayResend(failure: CallFailure, { session, toolRetries }: CallRun): boolean {
  return (
    failure.class === 'tool' &&
    failure.canRetry &&
    toolRetries < Math.min(MAX_TOOL_RETRIES, session.settings.maxRetries) &&
    (failure.retryAfterMs ?? 0) <= MAX_WAIT_MS
  )
}

/** Shows each challenge. After all are completed, the call is repeated once with the same call id (OTC-78). */
async function awaitUser(failure: CallFailure, run: CallRun): Promise<boolean> {
  const { session, signal, target } = run
  const { settings } = session
  if (run.hasAskedUser || failure.challenges.length === 0) return false
  run.hasAskedUser = true
  await showChallenges(failure, run)
  if (!settings.pollChallenges) return false
  const rules = { settings, signal, ownHeaders: target.headers }
  if (!(await awaitChallenges(failure.challenges, rules))) return false
  const { userId, userInfo } = run.context ?? {}
  run.context = await resolveContext({ ...target, userId, userInfo, signal }, settings)
  return true
}

async function showChallenges(failure: CallFailure, run: CallRun): Promise<void> {
  const { onChallenge } = run.session.settings
  try {
    for (const challenge of failure.challenges) {
      await untilAborted(run.signal, async () => onChallenge(challenge))
    }
  } catch (cause) {
    const { missing = {} } = failure
    const end = run.signal?.aborted ? 'aborted while onChallenge ran' : 'stopped because onChallenge failed'
    const message = `The call was ${end}: ${failure.message}`
    throw new CallFailure(failure.class, message, { ...factsOf(run), missing, cause })
  }
}

/** Tries the call paths in order, until the server has one of them (OTC/C-01). */
export async function sendCall(run: CallRun): Promise<HttpAnswer> {
  const { session, target } = run
  const { paths } = target.wire
  const known = session.route.path
  const order = known === undefined ? paths : [known, ...paths.filter((path) => path !== known)]
  for (const path of order) {
    const answer = await post(path, run)
    if (!isRouteMiss(answer.status, answer.body, target.toolId)) {
      session.route.path = path
      return answer
    }
  }
  const { base } = session.settings.server
  const message = `${base} has none of the call paths ${order.join(', ')}; check the server URL.`
  throw new CallFailure('server', message, { ...factsOf(run), status: 404 })
}

async function post(path: CallPath, run: CallRun): Promise<HttpAnswer> {
  const { target, signal, progress, callId, input, context } = run
  const { settings } = run.session
  const { traceId, timeoutMs } = run.options
  const call = defined({ toolId: target.toolId, callId, input, traceId, context })
  const body = buildCallBody(target.wire, path, call)
  const request = {
    method: 'POST' as const,
    url: settings.server.base + path,
    headers: async () => ({ ...(await target.headers()), ...callScopeHeaders(run.options) }),
    body: JSON.stringify(body),
  }
  const rules = { settings, signal, timeoutMs, progress, dedupes: isDeduplicated(run) }
  return await sendOrFail(request, rules, `The call to ${request.url}`, () => ({
    ...factsOf(run),
    advice: unknownOutcomeAdvice(run),
  }))
}

export interface CallResult<Value = JsonValue> {
  /** `null` for tools without output. */
  readonly value: Value
  readonly callId: string
  /** The run that records the call; only Collet servers send it. */
  readonly runId?: string
  /** The full id that was called. */
  readonly toolId: string
  /** Run time as the server measured it. */
  readonly durationMs?: number
  /** How often the call was sent again. */
  readonly retries: number
  /** The outcome was recorded by an earlier request with this call id; only Collet servers send it. */
  readonly replayed?: boolean
}

export function readOutcome(answer: HttpAnswer, run: CallRun): CallResult | CallFailure {
  const reading = readCallReply(answer.status, answer.body, {
    dialect: run.target.wire.dialect,
    errorCode: answer.headers.get(ERROR_CODE_HEADER),
  })
  switch (reading.kind) {
    case 'value': {
      const { value, callId = run.callId, durationMs } = reading
      const replayed = isReplay(answer.headers)
      return {
        ...factsOf(run),
        ...defined({ callId, value, durationMs }),
        ...runOf(answer.headers),
        replayed,
      }
    }
    case 'failure':
      return failureOf(reading.failure, answer, run)
    case 'unreadable': {
      const { status } = answer
      const message = `The server answered ${status} with something that is not a call response. ${unknownOutcomeAdvice(run)}`
      return new CallFailure('transport', message, { ...factsOf(run), status })
    }
  }
}

function failureOf(wire: WireFailure, answer: HttpAnswer, run: CallRun): CallFailure {
  const { refused, afterMs } = retryAdvice(answer, true, run.session.settings.now())
  const retryAfterMs = wire.retryAfterMs ?? afterMs
  const message = wire.class === 'transport' ? `${wire.message} ${unknownOutcomeAdvice(run)}` : wire.message
  const code = answer.headers.get(ERROR_CODE_HEADER) ?? undefined
  return new CallFailure(wire.class, message, {
    ...factsOf(run),
    ...wire,
    ...runOf(answer.headers),
    ...defined({ code, retryAfterMs }),
    callId: wire.callId ?? run.callId,
    replayed: isReplay(answer.headers),
    canRetry: wire.canRetry || (wire.class === 'server' && refused),
    status: answer.status,
  })
}

export interface CallOptions {
  /**
   * Your own idempotency key. Repeating a call with the same key and input returns the recorded outcome
   * instead of running the tool again, even from another process. Default: a new UUID for each call.
   */
  readonly callId?: string | undefined
  /** Groups several calls in the server's logs and traces. */
  readonly traceId?: string | undefined
  /** The run that the call belongs to, on Collet servers; its events include all its calls. */
  readonly runId?: string | undefined
  /** The session whose state to use, as `POST /v1/sessions` returned it. */
  readonly sessionId?: string | undefined
  /** The user the call is made for. */
  readonly userId?: string | undefined
  /** Facts about that user for the tool (`context.user_info`). OTC only, because OpenTool has no field for it. */
  readonly userInfo?: JsonValue | undefined
  /**
   * Called for corrected input if the tool failed with `canRetry` and `additionalPromptContent`: give that text to your model and return
   * its new input, or `undefined` to get the failure. The call is sent again after `retryAfterMs`, at most `maxRetries` times. OTC only.
   */
  readonly onRetry?:
    | ((failure: CallFailure) => JsonValue | undefined | Promise<JsonValue | undefined>)
    | undefined
  /** Stops waiting. The server may still finish the call. */
  readonly signal?: AbortSignal | undefined
  /** Time limit for each HTTP exchange of this call. */
  readonly timeoutMs?: number | undefined
}

/** The state of one call: constant parts, and parts that change between attempts. */
export interface CallRun {
  readonly session: CallSession
  readonly target: CallTarget
  input: JsonValue
  readonly options: CallOptions
  readonly signal: AbortSignal | undefined
  /** Requests resent after transport failures. */
  readonly progress: { resent: number }
  context: WireContext | undefined
  callId: string
  /** Calls resent because the tool's error has `can_retry`. */
  toolRetries: number
  hasAskedUser: boolean
}

/** The facts that every failure of a call includes. */
function factsOf({ target, callId, progress, toolRetries }: CallRun) {
  return { toolId: target.toolId, callId, retries: progress.resent + toolRetries }
}

/** False for universal tool servers, which ignore call ids: sending a request twice runs the tool twice (OTC/C-04). */
function isDeduplicated({ target }: CallRun): boolean {
  return target.wire.dialect !== 'uts'
}

/** Advice for a failure after which it is not known if the tool ran. */
function unknownOutcomeAdvice(run: CallRun): string {
  return isDeduplicated(run)
    ? `It is not known whether the call ran; repeat it with call id ${run.callId} to get its outcome.`
    : 'It is not known whether the call ran; check before you repeat it.'
}

/** State shared by all calls of one client. */
export interface CallSession {
  readonly settings: ClientSettings
  readonly directory: ToolDirectory
  /** The call path that worked last (OTC/C-01). */
  readonly route: { path: CallPath | undefined }
}

/** The tool to call, and how to reach it. */
interface CallTarget {
  readonly toolId: string
  /** `undefined` if the tool is not listed; the server then decides. */
  readonly tool: RemoteTool | undefined
  readonly wire: ServerWire
  headers(): Promise<Readonly<Record<string, string>>>
}

/** Finds the tool. With a pinned dialect the list is read only to resolve requirements (OTC §3.2 item 5). */
async function findTarget(
  session: CallSession,
  tool: string | RemoteTool,
  { callId, signal }: Pick<CallOptions, 'callId' | 'signal'>,
): Promise<CallTarget> {
  const { dialect } = session.settings
  const named = typeof tool === 'string' ? tool : tool.id
  if (typeof named !== 'string' || named === '') throw configFailure('Name the tool to call by its id.')
  const listed = typeof tool === 'string' ? undefined : tool
  if (dialect !== undefined && (listed !== undefined || !hasResolvers(session.settings))) {
    return targetOf(session, named, listed, PINNED_WIRES[dialect])
  }
  const found = listed ?? (await session.directory.find(named, signal))
  const { wire, keyHeader } = await session.directory.current(signal)
  const isRepeatable = callId !== undefined && found?.facts !== undefined
  const toolId = isRepeatable ? anyVersionOf(found.id, named) : (found?.id ?? named)
  return targetOf(session, toolId, found, wire, keyHeader)
}

/**
 * A call under its caller's own id may be recorded for an older version than the newest one listed. Collet servers
 * find it if no version is named (rule 5); all others get full ids (OTC/C-15).
 */
function anyVersionOf(id: string, named: string): string {
  return parseToolName(named)?.version === LATEST ? (parseToolId(id)?.base ?? id) : id
}

function targetOf(
  { settings }: CallSession,
  toolId: string,
  tool: RemoteTool | undefined,
  wire: ServerWire,
  keyHeader?: ApiKeyHeader,
): CallTarget {
  const headers = async () => ({
    ...versionHeaders(wire.dialect),
    ...(await settings.credentials.headers(wire.dialect, keyHeader)),
  })
  return { toolId, tool, wire, headers }
}

function hasResolvers({ requirements }: ClientSettings): boolean {
  return (requirements.authorization ?? requirements.secrets ?? requirements.userId) !== undefined
}

export function checkCallId(callId: string): string {
  if (typeof callId !== 'string') throw configFailure('A call id must be a string.')
  try {
    return checkCallKey(callId)
  } catch (error) {
    throw configFailure(error instanceof Error ? error.message : 'The call id cannot be used.')
  }
}

/** The input is copied once, so that a change made during the call cannot turn a retry into another request. */
export function copyJson(value: JsonValue, name = 'The input'): JsonValue {
  try {
    return JSON.parse(JSON.stringify(value))
  } catch (cause) {
    const message = `${name} cannot be written as JSON: it must not contain cycles, functions or BigInts.`
    throw configFailure(message, { cause })
  }
}
