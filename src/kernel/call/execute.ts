import {
  CALL_ID_ADVICE,
  type ErrorDetails,
  FAILURE_CODES,
  fault,
  isToolError,
  StoreError,
  type ToolError,
} from '#kernel/base/errors'
import { defined, type JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { MaybePromise } from '#kernel/base/waiting'
import { closeState } from '#kernel/run/session-ends'
import { hasEffects, hasUntrustedOutput, ShownValue, type Tool, writeShown } from '#kernel/tool/tool'
import type { CallError, CallRequest, Failure, Outcome, Shown } from './call.ts'
import type { KernelOptions, StoreHealth } from './gateway.ts'
import { redactOutput, redactSecrets, redactShown, redactText, redactThrown } from './redact.ts'
import { type ContextNeeds, type Interruption, RunContext, type RunningCall } from './running.ts'
import type { CallStages } from './stages.ts'
import { blockedBy, Suspension } from './suspend.ts'

/**
 * Runs a tool and turns the result into an outcome: value, error, timeout or cancellation. `run.ts` uses this module for a
 * claimed call. `execute` never throws: once a tool may have started, however it ends, an outcome is recorded (rule 11).
 */

const INTERRUPTED = Symbol('interrupted')
const FAILURES: ReadonlySet<string> = new Set(FAILURE_CODES)

export type ExecuteNeeds = ContextNeeds &
  Pick<CallStages, 'workflows' | 'resumptions'> &
  Pick<KernelOptions, 'log' | 'clock' | 'maxResultBytes' | 'explainThrown'>

/** A run either ended or, for a workflow, was suspended. `late` is the result of a tool that was interrupted. */
type ExecuteResult =
  | { readonly kind: 'ended'; readonly outcome: Outcome; readonly late?: Promise<Outcome> }
  | { readonly kind: 'suspended'; readonly suspension: Suspension }

/** Runs the tool until it returns or is interrupted; a synchronous result is not awaited. */
export function execute(
  needs: ExecuteNeeds,
  running: RunningCall,
  input: unknown,
): MaybePromise<ExecuteResult> {
  const { tool, interruption } = running
  if (interruption !== undefined) {
    const error = notStartedError(tool, interruption)
    return { kind: 'ended', outcome: { ok: false, error, durationMs: 0, neverStarted: true } }
  }
  const started = new StartedRun(needs, running)
  const context = new RunContext(needs, running)
  try {
    const answer = runTool(needs, running, { input, context })
    if (isThenable(answer)) return untilEnd(started, running, { answer: Promise.resolve(answer), context })
    return { kind: 'ended', outcome: started.succeed(answer) }
  } catch (error) {
    return started.endAfter(error)
  }
}

async function untilEnd(
  started: StartedRun,
  running: RunningCall,
  { answer, context }: { readonly answer: Promise<unknown>; readonly context: RunContext },
): Promise<ExecuteResult> {
  try {
    const first = await firstOf(answer, running, context)
    if (first !== INTERRUPTED) return { kind: 'ended', outcome: started.succeed(first) }
  } catch (error) {
    return started.endAfter(error)
  }
  const { tool, interruption: why = 'cancel' } = running
  if (why === 'shutdown' && tool.workflow !== undefined) {
    return { kind: 'suspended', suspension: new Suspension(blockedBy(tool.name, 'the server shut down.')) }
  }
  return {
    kind: 'ended',
    outcome: { ok: false, error: interruptedError(tool, why), durationMs: started.elapsedMs() },
    late: answer.then((value) => started.succeed(value)).catch((error: unknown) => started.fail(error)),
  }
}

class StartedRun {
  readonly #needs: ExecuteNeeds
  readonly #running: RunningCall
  readonly #startedMs: number

  constructor(needs: ExecuteNeeds, running: RunningCall) {
    this.#needs = needs
    this.#running = running
    this.#startedMs = needs.clock.monotonicMs()
  }

  elapsedMs(): number {
    return Math.max(0, Math.round((this.#needs.clock.monotonicMs() - this.#startedMs) * 1_000) / 1_000)
  }

  succeed(answer: unknown): Outcome {
    const durationMs = this.elapsedMs()
    const { tool, call } = this.#running
    const value = hasUntrustedOutput(tool.catalogId) ? redactOutput(answer, call.request) : answer
    const output = serializeOutput(tool, value, this.#needs.maxResultBytes)
    if (!output.ok) return { ok: false, error: output.error, durationMs }
    const { valueJson, shown } = output
    return shown === undefined
      ? { ok: true, valueJson, durationMs }
      : { ok: true, valueJson, shown, durationMs }
  }

  fail(error: unknown): Outcome {
    return { ok: false, error: errorOfRun(this.#needs, this.#running, error), durationMs: this.elapsedMs() }
  }

  /** The result after the tool threw: a failure, or a suspended workflow. */
  endAfter(error: unknown): ExecuteResult {
    if (error instanceof Suspension) return { kind: 'suspended', suspension: error }
    return { kind: 'ended', outcome: this.fail(error) }
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

/** The tool's result or the interruption, whichever comes first. The timer and the listener never outlive the race. */
function firstOf(answer: Promise<unknown>, running: RunningCall, context: RunContext): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const endTimer = startTimer(running)
    running.onInterrupt((why: Interruption) => {
      endTimer()
      resolve(INTERRUPTED)
      context.abort(why)
    })
    watchCaller(running)
    answer.then(
      (value) => {
        endTimer()
        resolve(value)
      },
      (error: unknown) => {
        endTimer()
        reject(error)
      },
    )
  })
}

/** Cancels an asynchronous run when its caller disconnects (MCP-84), unless another request has joined the run. */
function watchCaller(running: RunningCall): void {
  const left = running.call.request.leaving?.left
  if (left === undefined) return
  const leave = (): void => {
    if (!running.isJoined) running.interrupt('cancel')
  }
  if (left.aborted) leave()
  else left.addEventListener('abort', leave, { once: true })
}

/** Interrupts a run that takes too long; the time that its caller takes to answer a question does not count. */
function startTimer(running: RunningCall): () => void {
  let remainingMs = running.tool.policy.timeoutMs
  let startedMs = performance.now()
  const start = () => setTimeout(() => running.interrupt('timeout'), remainingMs)
  // The tool may have asked a question before this listener was set.
  let timer = running.isAsking ? undefined : start()
  running.onAsking((isAsking) => {
    clearTimeout(timer)
    if (isAsking) remainingMs = Math.max(1, remainingMs - (performance.now() - startedMs))
    else {
      startedMs = performance.now()
      timer = start()
    }
  })
  return () => {
    running.onAsking(() => undefined)
    clearTimeout(timer)
  }
}

/**
 * OTC/T-20: the text of a `ToolError` is sent without credentials; any other error is only logged, unless the tool's author
 * is the caller.
 */
function errorOfRun(needs: ExecuteNeeds, running: RunningCall, error: unknown): CallError {
  const { call, tool } = running
  if (isToolError(error)) {
    const { details: _ours, code: own, ...ownError } = redactSecrets(callErrorOf(error), call.request)
    const shown = shownFailure(needs, error, call.request)
    const code = FAILURES.has(own) ? own : 'tool_failed'
    return { ...ownError, code, ...(shown === undefined ? {} : { shown }) }
  }
  if (!isOwnAbort(running, error))
    needs.log.error(
      { err: redactThrown(error, call.request), tool: tool.id, record: call.record },
      'a tool threw',
    )
  const { base } = tool.parts
  const message =
    needs.explainThrown === undefined
      ? `${base} failed unexpectedly. The server's log says why.`
      : `${base} failed unexpectedly. For developers: ${redactText(needs.explainThrown(error), call.request)}`
  return { code: 'tool_failed', message, canRetry: false }
}

/** An interrupted run throws the reason of its signal, or an error that its runtime made of it. */
function isOwnAbort({ interruption }: RunningCall, error: unknown): boolean {
  return interruption !== undefined && error instanceof Error && ABORTS.has(error.name)
}

const ABORTS: ReadonlySet<string> = new Set(['AbortError', 'TimeoutError'])

/** Content that exceeds the limit for results is dropped; the message remains. */
function shownFailure(needs: ExecuteNeeds, error: ToolError, request: CallRequest): Shown | undefined {
  if (error.shown === undefined) return undefined
  const shown = writeShown(redactShown(error.shown, request))
  return shownBytes(shown) > needs.maxResultBytes ? undefined : shown
}

/** UTF-8 needs at most this many bytes per UTF-16 unit, so most results need no exact count. */
const MAX_BYTES_PER_UNIT = 3

type SerializedOutput =
  | { readonly ok: true; readonly valueJson: string; readonly shown?: Shown }
  | { readonly ok: false; readonly error: CallError }

/**
 * OTC-90, OTC/T-14: the value that is checked is exactly the value that is sent. A value from the author's own tool without an
 * output schema is dropped; one from an imported tool is kept, because `null` would misreport what the tool returned.
 */
function serializeOutput(tool: Tool, value: unknown, maxBytes: number): SerializedOutput {
  const isImported = tool.workflow === undefined && hasUntrustedOutput(tool.catalogId)
  if (tool.outputSchema === null && !isImported) return { ok: true, valueJson: 'null' }
  if (value instanceof ShownValue) return serializeShown(tool, value, maxBytes)
  const serialized = toJson(value)
  if (serialized === undefined) return invalid(tool, 'the value cannot be written as JSON')
  const { valueJson, sent } = serialized
  const problems = tool.checkOutput(sent)
  if (problems.length > 0) return invalid(tool, problems.join('; '))
  const bytes = valueJson.length * MAX_BYTES_PER_UNIT > maxBytes ? Buffer.byteLength(valueJson) : 0
  return bytes > maxBytes ? tooLarge(tool, bytes, maxBytes) : { ok: true, valueJson }
}

/** The value and the shown content together must be within the limit. */
function serializeShown(tool: Tool, { value, shown }: ShownValue, maxBytes: number): SerializedOutput {
  const output = serializeOutput(tool, value, maxBytes)
  if (!output.ok) return output
  const written = writeShown(shown)
  const bytes = Buffer.byteLength(output.valueJson) + shownBytes(written)
  return bytes > maxBytes ? tooLarge(tool, bytes, maxBytes) : { ...output, shown: written }
}

function toJson(value: unknown): { readonly valueJson: string; readonly sent: JsonValue } | undefined {
  if (typeof value === 'number') {
    return Number.isFinite(value)
      ? { valueJson: String(Object.is(value, -0) ? 0 : value), sent: value }
      : undefined
  }
  if (value === undefined || value === null) return { valueJson: 'null', sent: null }
  try {
    const valueJson: string | undefined = JSON.stringify(value)
    if (valueJson === undefined) return undefined
    return { valueJson, sent: typeof value === 'object' ? JSON.parse(valueJson) : value }
  } catch {
    return undefined
  }
}

function invalid(tool: Tool, why: string): SerializedOutput {
  return {
    ok: false,
    error: {
      code: 'output_invalid',
      message: `${tool.name} ran, but returned a result that does not match its output schema.`,
      developerMessage: `Output of ${tool.id}: ${why}.`,
      canRetry: false,
      ...(hasEffects(tool.policy) ? { effect: 'unknown' } : {}),
    },
  }
}

/** The tool finished, so its effect is known; repeating the call would return no more than this error. */
function tooLarge(tool: Tool, bytes: number, maxBytes: number): SerializedOutput {
  const advice = hasEffects(tool.policy) ? 'Do not repeat it to get the result.' : 'Ask for less.'
  return {
    ok: false,
    error: {
      code: 'result_too_large',
      message: `${tool.name} ran to its end. Its result has ${bytes} bytes and this server keeps at most ${maxBytes}, so it is not shown. ${advice} An operator can raise \`calls.maxResultBytes\`.`,
      developerMessage: 'Raise `calls.maxResultBytes` in the configuration, or let the tool return less.',
      canRetry: false,
    },
  }
}

/** Runs the tool with its session's state, if it has any; a workflow is run by the workflow stage. */
function runTool(
  needs: ExecuteNeeds,
  running: RunningCall,
  { input, context }: { readonly input: unknown; readonly context: RunContext },
): unknown {
  const { tool, scope } = running
  if (tool.workflow !== undefined) return needs.workflows.run(running, context, input)
  if (scope.session?.isOwn === true && tool.session?.isOptional !== true)
    return runInOwnSession(tool, input, context)
  context.session = scope.live?.state
  return tool.run(input, context)
}

/** Runs the tool with state for this attempt alone. The state is closed however the run ends, even if no request waits for it. */
async function runInOwnSession(tool: Tool, input: unknown, context: RunContext): Promise<unknown> {
  const state = await tool.session?.open(context)
  context.session = state
  try {
    // Opening took too long: the caller already has the reply that the call ended, so the tool must not start.
    if (context.isAborted) throw fault('cancelled', `${tool.name} was not started.`)
    return await tool.run(input, context)
  } finally {
    await closeState(tool, state, context)
  }
}

/** Rule 10: an interrupted write has an unknown effect and is not retryable; the message asks the caller to check first. */
function interruptedError(tool: Tool, why: Interruption): CallError {
  const what = {
    timeout: `${tool.name} did not finish within ${tool.policy.timeoutMs} ms.`,
    cancel: `The call of ${tool.name} was cancelled.`,
    shutdown: `The server shut down while ${tool.name} was running.`,
  }[why]
  const code = why === 'timeout' ? 'tool_timeout' : 'cancelled'
  if (!hasEffects(tool.policy)) return { code, message: what, canRetry: false }
  const message = `${what} It may have taken effect: check before repeating it.`
  return { code, message, canRetry: false, effect: 'unknown' }
}

/** A call that ended between its claim and its start took no effect, so a call that a shutdown interrupted may run again. */
function notStartedError(tool: Tool, why: Interruption): CallError {
  const canRetry = why === 'shutdown'
  const next = canRetry ? ` Call again with exactly the same arguments${CALL_ID_ADVICE.repeat}.` : ''
  const code = why === 'timeout' ? 'tool_timeout' : 'cancelled'
  const message = `The call of ${tool.name} was ended before it started. Nothing was run.${next}`
  return { code, message, canRetry }
}

function shownBytes({ contentJson = '', structuredJson = '', metaJson = '' }: Shown): number {
  return Buffer.byteLength(contentJson) + Buffer.byteLength(structuredJson) + Buffer.byteLength(metaJson)
}

export interface RefusalNeeds {
  readonly log: Logger
  readonly health: StoreHealth
}

/** The outcome for an error before the tool started. Only `ToolError`s have text that is meant for callers. */
export function refusalOutcome(needs: RefusalNeeds, error: unknown): Failure {
  return { ok: false, error: refusalOf(needs, error), durationMs: 0 }
}

function refusalOf(needs: RefusalNeeds, error: unknown): CallError {
  if (isToolError(error)) return callErrorOf(error)
  needs.log.error({ err: error }, 'a call failed before its tool was run')
  if (!(error instanceof StoreError)) return INTERNAL
  needs.health.noteFailure(error)
  return error.code === 'unreadable' ? UNREADABLE : NOT_RECORDED
}

const UNREADABLE: CallError = {
  code: 'internal',
  message:
    'A stored record that this call needs cannot be read, so nothing was run. An operator has to check the server log.',
  canRetry: false,
}

const NOT_RECORDED: CallError = {
  code: 'not_ready',
  message: 'The tool server could not record the call, so nothing was run. Try again shortly.',
  canRetry: false,
  retryAfterMs: 2_000,
}

const INTERNAL: CallError = {
  code: 'internal',
  message: 'The tool server failed before the tool was called. Nothing was run.',
  canRetry: false,
}

/** Limit for error texts; long dumps belong in a log. */
const MAX_TEXT_LENGTH = 16_384
const NO_MESSAGE = 'The tool failed without an error message.'

/**
 * An error as it is recorded and sent. A JavaScript tool may have set any member; only valid members are kept (OTC-84).
 */
export function callErrorOf(error: ToolError): CallError {
  const { retryAfterMs, errorNumber, details } = error
  return defined({
    code: error.code,
    message: textOf(error.message) ?? NO_MESSAGE,
    canRetry: error.canRetry === true,
    developerMessage: textOf(error.developerMessage),
    retryAfterMs: isDuration(retryAfterMs) ? retryAfterMs : undefined,
    additionalPromptContent: textOf(error.additionalPromptContent),
    errorNumber: Number.isSafeInteger(errorNumber) ? errorNumber : undefined,
    details: hasDetails(details) ? details : undefined,
  })
}

function hasDetails({ issues, missing, scope, nextStep }: ErrorDetails): boolean {
  return [issues, missing, scope, nextStep].some((fact) => fact !== undefined)
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, MAX_TEXT_LENGTH) : undefined
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}
