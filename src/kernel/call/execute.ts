import type { Clock } from '#kernel/base/clock'
import {
  BY_CALL_ID,
  type ErrorDetails,
  FAILURE_CODES,
  type FailureCode,
  fault,
  isToolError,
  StoreError,
  type ToolError,
} from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { MaybePromise } from '#kernel/base/waiting'
import { closeState } from '#kernel/run/session-ends'
import { hasEffects, hasUntrustedOutput, ShownValue, type Tool, writeShown } from '#kernel/tool/tool'
import type { CallError, CallRequest, Failure, Outcome, Shown } from './call.ts'
import { redactOutput, redactSecrets, redactShown, redactText, redactThrown } from './redact.ts'
import { type ContextNeeds, type Interruption, RunContext, type RunningCall } from './running.ts'
import type { CallStages } from './stages.ts'
import type { StoreHealth } from './store-health.ts'
import { blockedBy, Suspension } from './suspend.ts'

const INTERRUPTED = Symbol('interrupted')
const FAILURES: ReadonlySet<string> = new Set(FAILURE_CODES)

/** What running a tool takes. */
export type ExecuteNeeds = ContextNeeds &
  Pick<CallStages, 'workflows'> & {
    readonly log: Logger
    readonly clock: Clock
    readonly maxResultBytes: number
    readonly explainThrown?: ExplainThrown | undefined
  }

/** What callers hear of an exception, besides that there was one. */
export type ExplainThrown = (thrown: unknown) => string

/** How a run ended and, when it was cut short, what the tool will still say. */
type Ran = Ended | Suspended

/** A workflow cannot go on now. */
interface Suspended {
  readonly kind: 'suspended'
  readonly suspension: Suspension
}

interface Ended {
  readonly kind: 'ended'
  readonly outcome: Outcome
  readonly late?: Promise<Outcome>
}

/**
 * Runs the tool until it answers or is interrupted; one that answers at once is not waited for. Never throws: from here on every
 * end is a 200 (rule 11).
 */
export function execute(needs: ExecuteNeeds, running: RunningCall, input: unknown): MaybePromise<Ran> {
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
): Promise<Ran> {
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
    outcome: { ok: false, error: interruptedError(tool, why), durationMs: started.took() },
    late: answer.then((value) => started.succeed(value)).catch((error: unknown) => started.fail(error)),
  }
}

/** A run from its start, and how it may end. */
class StartedRun {
  readonly #needs: ExecuteNeeds
  readonly #running: RunningCall
  readonly #startedMs: number

  constructor(needs: ExecuteNeeds, running: RunningCall) {
    this.#needs = needs
    this.#running = running
    this.#startedMs = needs.clock.monotonicMs()
  }

  took(): number {
    return Math.max(0, Math.round((this.#needs.clock.monotonicMs() - this.#startedMs) * 1_000) / 1_000)
  }

  succeed(value: unknown): Outcome {
    return outcomeOf(this.#needs, this.#running, { value, durationMs: this.took() })
  }

  fail(error: unknown): Outcome {
    return { ok: false, error: errorOfRun(this.#needs, this.#running, error), durationMs: this.took() }
  }

  /** After what was thrown: a failure, or a workflow that cannot go on now. */
  endAfter(error: unknown): Ran {
    if (error instanceof Suspension) return { kind: 'suspended', suspension: error }
    return { kind: 'ended', outcome: this.fail(error) }
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

/** The answer, or the interruption: whichever is first. The timer and the listener never outlive the race. */
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

/** A caller whose leaving cancels (MCP-84): looked at only by runs that take time, and not heeded once another request joined. */
function watchCaller(running: RunningCall): void {
  const left = running.call.request.leaving?.left
  if (left === undefined) return
  const leave = (): void => {
    if (!running.isJoined) running.interrupt('cancel')
  }
  if (left.aborted) leave()
  else left.addEventListener('abort', leave, { once: true })
}

/** Interrupts a run that takes too long; the clock stands still while its caller is being asked. */
function startTimer(running: RunningCall): () => void {
  let leftMs = running.tool.policy.timeoutMs
  let startedMs = performance.now()
  const start = () => setTimeout(() => running.interrupt('timeout'), leftMs)
  // A tool may have asked before anybody could listen.
  let timer = running.isAsking ? undefined : start()
  running.onAsking((isAsking) => {
    clearTimeout(timer)
    if (isAsking) leftMs = Math.max(1, leftMs - (performance.now() - startedMs))
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

function outcomeOf(
  needs: ExecuteNeeds,
  running: RunningCall,
  ran: { readonly value: unknown; readonly durationMs: number },
): Outcome {
  const { tool, call } = running
  const value = hasUntrustedOutput(tool.catalogId) ? redactOutput(ran.value, call.request) : ran.value
  const output = serializeOutput(tool, value, needs.maxResultBytes)
  if (output.ok) {
    const { valueJson, shown } = output
    if (shown === undefined) return { ok: true, valueJson, durationMs: ran.durationMs }
    return { ok: true, valueJson, shown, durationMs: ran.durationMs }
  }
  return { ok: false, error: output.error, durationMs: ran.durationMs }
}

/** OTC/T-20: text a tool set on purpose goes out, with credentials cut out; anything else stays in the log, unless the author is the caller. */
function errorOfRun(needs: ExecuteNeeds, running: RunningCall, error: unknown): CallError {
  const { call, tool } = running
  if (isToolError(error)) {
    const { details: _ours, ...said } = redactSecrets(callErrorOf(error), call.request)
    const shown = shownFailure(needs, error, call.request)
    return {
      ...said,
      code: isFailure(said.code) ? said.code : 'tool_failed',
      ...(shown === undefined ? {} : { shown }),
    }
  }
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

/** Within the limit of results; beyond it the message has to do. */
function shownFailure(needs: ExecuteNeeds, error: ToolError, request: CallRequest): Shown | undefined {
  if (error.shown === undefined) return undefined
  const shown = writeShown(redactShown(error.shown, request))
  return shownBytes(shown) > needs.maxResultBytes ? undefined : shown
}

function isFailure(code: string): code is FailureCode {
  return FAILURES.has(code)
}

/** UTF-8 needs at most this many bytes per UTF-16 unit, so most results need no exact count. */
const MAX_BYTES_PER_UNIT = 3

type SerializedOutput =
  | { readonly ok: true; readonly valueJson: string; readonly shown?: Shown }
  | { readonly ok: false; readonly error: CallError }

/**
 * OTC-90, OTC/T-14: what is checked is exactly what is sent. Code without output has its value dropped; what another
 * party sends although it promised nothing is kept, because "nothing" would be false.
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
  if (valueJson.length * MAX_BYTES_PER_UNIT > maxBytes && byteLength(valueJson) > maxBytes) {
    return tooLarge(tool, byteLength(valueJson), maxBytes)
  }
  return { ok: true, valueJson }
}

/** Both halves together are within the limit. */
function serializeShown(tool: Tool, { value, shown }: ShownValue, maxBytes: number): SerializedOutput {
  const output = serializeOutput(tool, value, maxBytes)
  if (!output.ok) return output
  const written = writeShown(shown)
  const bytes = byteLength(output.valueJson) + shownBytes(written)
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
    const sent: JsonValue = typeof value === 'object' ? JSON.parse(valueJson) : value
    return { valueJson, sent }
  } catch {
    return undefined
  }
}

function byteLength(text: string): number {
  return Buffer.byteLength(text)
}

function invalid(tool: Tool, why: string): SerializedOutput {
  return {
    ok: false,
    error: {
      code: 'output_invalid',
      message: `${tool.name} ran, but gave a result that does not fit its output schema.`,
      developerMessage: `Output of ${tool.id}: ${why}.`,
      canRetry: false,
      ...(hasEffects(tool.policy) ? { effect: 'unknown' } : {}),
    },
  }
}

/** The tool finished, so what it did is known: a repeat would do it again and give no more. */
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

/** Runs the tool on the state of its session, if it has any; a workflow with a way to call its steps. */
function runTool(
  needs: ExecuteNeeds,
  running: RunningCall,
  { input, context }: { readonly input: unknown; readonly context: RunContext },
): unknown {
  const { tool, scope } = running
  if (tool.workflow !== undefined) return needs.workflows.run(running, context, input)
  const isStateOwn = scope.session?.isOwn === true && tool.session?.isOptional !== true
  if (isStateOwn) return runInOwnSession(tool, input, context)
  context.session = scope.live?.state
  return tool.run(input, context)
}

/** State for this attempt alone; it is let go however the run ends, also when nobody waits for it any more. */
async function runInOwnSession(tool: Tool, input: unknown, context: RunContext): Promise<unknown> {
  const state = await tool.session?.open(context)
  context.session = state
  try {
    // Opening took too long: the caller heard that the call is over, so nothing may begin.
    if (context.isAborted) throw fault('cancelled', `${tool.name} was not started.`)
    return await tool.run(input, context)
  } finally {
    await closeState(tool, state, context)
  }
}

const CODES = {
  timeout: 'tool_timeout',
  cancel: 'cancelled',
  shutdown: 'cancelled',
} as const satisfies Record<Interruption, string>

/** Rule 10: a started write that was cut short has an unknown effect, is not retryable, and says to check first. */
function interruptedError(tool: Tool, why: Interruption): CallError {
  const what = {
    timeout: `${tool.name} did not finish within ${tool.policy.timeoutMs} ms.`,
    cancel: `The call of ${tool.name} was cancelled.`,
    shutdown: `The server shut down while ${tool.name} was running.`,
  }[why]
  if (!hasEffects(tool.policy)) return { code: CODES[why], message: what, canRetry: false }
  return {
    code: CODES[why],
    message: `${what} It may have taken effect: check before repeating it.`,
    canRetry: false,
    effect: 'unknown',
  }
}

/** Ended between its claim and its start: nothing took effect, so a call cut by shutdown may run again. */
function notStartedError(tool: Tool, why: Interruption): CallError {
  const canRetry = why === 'shutdown'
  const next = canRetry ? ` Call again with exactly the same arguments${BY_CALL_ID.repeat}.` : ''
  return {
    code: CODES[why],
    message: `The call of ${tool.name} was ended before it started. Nothing was run.${next}`,
    canRetry,
  }
}

function shownBytes(shown: Shown | undefined): number {
  if (shown === undefined) return 0
  const { contentJson = '', structuredJson = '', metaJson = '' } = shown
  return Buffer.byteLength(contentJson) + Buffer.byteLength(structuredJson) + Buffer.byteLength(metaJson)
}

/** What refusing a call takes. */
export interface RefusalNeeds {
  readonly log: Logger
  readonly health: StoreHealth
}

/** What a caller sees of an error before the tool started. Only `ToolError`s carry text meant for it. */
export function refusalOutcome(needs: RefusalNeeds, error: unknown): Failure {
  if (isToolError(error)) return { ok: false, error: callErrorOf(error), durationMs: 0 }
  needs.log.error({ err: error }, 'a call failed before its tool was run')
  if (error instanceof StoreError) {
    needs.health.noteFailure(error)
    return refusal(error.code === 'unreadable' ? UNREADABLE : NOT_RECORDED)
  }
  return refusal(INTERNAL)
}

const UNREADABLE: CallError = {
  code: 'internal',
  message:
    'Something this call needs is stored but cannot be read, so nothing was run. An operator has to look at it.',
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

function refusal(error: CallError): Failure {
  return { ok: false, error, durationMs: 0 }
}

/** Error texts are for reading; a dump belongs in a log. */
const MAX_TEXT_LENGTH = 16_384
const NO_MESSAGE = 'The tool failed without saying why.'

/** An error as it is recorded and sent. A JavaScript tool may have put anything into it: only what fits stays (OTC-84). */
export function callErrorOf(error: ToolError): CallError {
  const { retryAfterMs, errorNumber, details } = error
  const developerMessage = textOf(error.developerMessage)
  const additionalPromptContent = textOf(error.additionalPromptContent)
  return {
    code: error.code,
    message: textOf(error.message) ?? NO_MESSAGE,
    canRetry: error.canRetry === true,
    ...(developerMessage === undefined ? {} : { developerMessage }),
    ...(isDuration(retryAfterMs) ? { retryAfterMs } : {}),
    ...(additionalPromptContent === undefined ? {} : { additionalPromptContent }),
    ...(isInteger(errorNumber) ? { errorNumber } : {}),
    ...(hasDetails(details) ? { details } : {}),
  }
}

function hasDetails(details: ErrorDetails | undefined): details is ErrorDetails {
  if (details === undefined) return false
  const { issues, missing, scope, nextStep } = details
  return [issues, missing, scope, nextStep].some((fact) => fact !== undefined)
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, MAX_TEXT_LENGTH) : undefined
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

function isInteger(value: unknown): value is number {
  return Number.isSafeInteger(value)
}
