import { shownBytes, writeShown } from '#core/content-blocks'
import { FAILURE_CODES, type FailureCode, isToolError, type ToolError } from '#core/errors'
import type { CallError, Outcome, Shown } from '#core/outcome'
import { hasEffects } from '#core/tool'
import { hasUntrustedOutput } from '#core/untrusted-output'
import { heldUp, Suspension } from '#core/workflow/suspension'
import { callErrorOf } from './call-error-of.ts'
import type { CallRequest } from './call-request.ts'
import type { CallServices } from './call-services.ts'
import { interruptedError, notStartedError } from './interrupted-error.ts'
import { redactOutput, redactSecrets, redactShown, redactThrown } from './redact-secrets.ts'
import { RunContext } from './run-context.ts'
import { runTool } from './run-tool.ts'
import type { Interruption, RunningCall } from './running-calls.ts'
import { serializeOutput } from './serialize-output.ts'

const INTERRUPTED = Symbol('interrupted')
const FAILURES: ReadonlySet<string> = new Set(FAILURE_CODES)

/** How a run ended and, when it was cut short, what the tool will still say. */
export type Ran = Ended | Suspended

/** A workflow cannot go on now. */
export interface Suspended {
  readonly kind: 'suspended'
  readonly suspension: Suspension
}

export interface Ended {
  readonly kind: 'ended'
  readonly outcome: Outcome
  readonly late?: Promise<Outcome>
}

/** Runs the tool until it answers or somebody ends it. Never throws: from here on every end is a 200 (rule 11). */
export async function execute(services: CallServices, running: RunningCall, input: unknown): Promise<Ran> {
  const { tool, interruption } = running
  if (interruption !== undefined) {
    const error = notStartedError(tool, interruption)
    return { kind: 'ended', outcome: { ok: false, error, durationMs: 0, neverStarted: true } }
  }
  const context = new RunContext(services, running)
  const startedMs = services.clock.monotonicMs()
  const took = () => Math.max(0, Math.round((services.clock.monotonicMs() - startedMs) * 1_000) / 1_000)
  const succeed = (value: unknown): Outcome => outcomeOf(services, running, { value, durationMs: took() })
  const fail = (error: unknown): Outcome => ({
    ok: false,
    error: errorOfRun(services, running, error),
    durationMs: took(),
  })
  try {
    const started = runTool(services, running, { input, context })
    if (!isThenable(started)) return { kind: 'ended', outcome: succeed(started) }
    const answer = Promise.resolve(started)
    const first = await firstOf(answer, running, context)
    if (first !== INTERRUPTED) return { kind: 'ended', outcome: succeed(first) }
    const why = running.interruption ?? 'cancel'
    if (why === 'shutdown' && tool.workflow !== undefined) {
      return { kind: 'suspended', suspension: new Suspension(heldUp(tool.name, 'the server shut down.')) }
    }
    const error = interruptedError(tool, why)
    return {
      kind: 'ended',
      outcome: { ok: false, error, durationMs: took() },
      late: answer.then(succeed).catch(fail),
    }
  } catch (error) {
    if (error instanceof Suspension) return { kind: 'suspended', suspension: error }
    return { kind: 'ended', outcome: fail(error) }
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

/** A caller whose leaving cancels (MCP-84): looked at only by runs that take time, and not heeded once somebody joined. */
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
  services: CallServices,
  running: RunningCall,
  ran: { readonly value: unknown; readonly durationMs: number },
): Outcome {
  const { tool, call } = running
  const value = hasUntrustedOutput(tool.catalogId) ? redactOutput(ran.value, call.request) : ran.value
  const output = serializeOutput(tool, value, services.maxResultBytes)
  if (output.ok) {
    const { valueJson, shown } = output
    if (shown === undefined) return { ok: true, valueJson, durationMs: ran.durationMs }
    return { ok: true, valueJson, shown, durationMs: ran.durationMs }
  }
  const error: CallError = hasEffects(tool.policy) ? { ...output.error, effect: 'unknown' } : output.error
  return { ok: false, error, durationMs: ran.durationMs }
}

/** T-20: text a tool set on purpose goes out, with credentials cut out; anything else stays in the log. */
function errorOfRun(services: CallServices, running: RunningCall, error: unknown): CallError {
  const { call, tool } = running
  if (isToolError(error)) {
    const { details: _ours, ...said } = redactSecrets(callErrorOf(error), call.request)
    const shown = shownFailure(services, error, call.request)
    return {
      ...said,
      code: isFailure(said.code) ? said.code : 'tool_failed',
      ...(shown === undefined ? {} : { shown }),
    }
  }
  services.log.error(
    { err: redactThrown(error, call.request), tool: tool.id, record: call.record },
    'a tool threw',
  )
  return { code: 'tool_failed', message: `${tool.name} failed unexpectedly.`, canRetry: false }
}

/** Within the limit of results; beyond it the message has to do. */
function shownFailure(services: CallServices, error: ToolError, request: CallRequest): Shown | undefined {
  if (error.shown === undefined) return undefined
  const shown = writeShown(redactShown(error.shown, request))
  return shownBytes(shown) > services.maxResultBytes ? undefined : shown
}

function isFailure(code: string): code is FailureCode {
  return FAILURES.has(code)
}
