import type { Clock } from '#kernel/base/clock'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import { boundLogger, type Logger, type WriteLine } from '#kernel/base/logger'
import { type Principal, userOf } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { KernelStore } from '#kernel/store/store'
import {
  hasEffects,
  type SessionContext,
  type StatefulContext,
  type Tool,
  type ToolContext,
} from '#kernel/tool/tool'
import type { CallerDeparture, CallRequest, Outcome, Progress } from './call.ts'
import type { Attempt } from './call-record.ts'
import type { IdentifiedCall } from './look-up.ts'
import { redactLogged, redactMessage, redactText } from './redact.ts'
import type { CallScope } from './resolve.ts'
import type { CallStages } from './stages.ts'

/**
 * The runs of this process, and the context that each run passes to its tool. `run.ts` starts and ends them; look-up joins them;
 * cancellation and shutdown interrupt them. A run is in `RunningCalls` from before its claim until its outcome is durable.
 */

export type Interruption = 'timeout' | 'cancel' | 'shutdown'

/** Outcome of a run whose claim another request won: requests that joined the run look up the record again. */
export const LOST = 'lost'

/** Above this number, the oldest abandoned claims are forgotten; their rows, if there are any, are recovered after a restart. */
const MAX_ABANDONED = 10_000

/**
 * Refers to a run until it ends. When V8 rebuilds a map, the old table still refers to its entries and to the next table,
 * so ended runs would otherwise stay in memory until a full garbage collection.
 */
interface RunReference {
  run: RunningCall | undefined
}

/** The runs of this process by record. A late run leaves this map but keeps its slot until it settles (rule 10). */
export class RunningCalls {
  readonly #byRecord = new Map<string, RunReference>()
  readonly #idle = new Set<() => void>()
  readonly #abandoned = new Set<string>()
  #late = 0

  get size(): number {
    return this.#byRecord.size
  }

  /** Number of slots in use: runs, and ended runs whose tools have not returned. */
  get slots(): number {
    return this.#byRecord.size + this.#late
  }

  get(record: string): RunningCall | undefined {
    return this.#byRecord.get(record)?.run
  }

  start(call: IdentifiedCall, tool: Tool, scope: CallScope): RunningCall {
    const running = new RunningCall(call, tool, scope)
    this.#byRecord.set(call.record, { run: running })
    return running
  }

  /** Removes only its own entry: another attempt of the call may have replaced it. */
  end(running: RunningCall): void {
    const { record } = running.call
    const reference = this.#byRecord.get(record)
    if (reference?.run === running) {
      this.#byRecord.delete(record)
      reference.run = undefined
    }
    if (this.#byRecord.size === 0 && this.#idle.size > 0) {
      for (const wake of this.#idle) wake()
      this.#idle.clear()
    }
  }

  /** Notes that a claim's commit was reported as failed: if its row appears after all, its run never started (rule 11). */
  noteAbandoned({ call }: RunningCall): void {
    if (!call.keyed) return
    this.#abandoned.add(call.record)
    if (this.#abandoned.size > MAX_ABANDONED)
      this.#abandoned.delete(this.#abandoned.values().next().value ?? '')
  }

  /** Whether this process abandoned its claim of the record; returns true only once per claim. */
  takeAbandoned(record: string): boolean {
    return this.#abandoned.delete(record)
  }

  holdSlotUntil(settled: Promise<unknown>): void {
    this.#late += 1
    const free = () => {
      this.#late -= 1
    }
    settled.then(free, free)
  }

  interruptAll(why: Interruption): void {
    for (const { run } of this.#byRecord.values()) run?.interrupt(why)
  }

  /** Resolves with true when nothing runs, or with false after `timeoutMs`. */
  async waitUntilIdle(timeoutMs: number): Promise<boolean> {
    if (this.#byRecord.size === 0) return true
    return await new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        resolve(true)
      }
      const timer = setTimeout(() => {
        this.#idle.delete(wake)
        resolve(false)
      }, timeoutMs)
      this.#idle.add(wake)
    })
  }
}

export class RunningCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  readonly scope: CallScope
  interruption: Interruption | undefined
  progress: Progress | undefined
  /** Whether the call was recorded before this attempt. */
  isRepeated = false
  #interrupt: ((why: Interruption) => void) | undefined
  #done: PromiseWithResolvers<Outcome | typeof LOST> | undefined
  #outcome: Outcome | typeof LOST | undefined
  #questions = 0
  #onAsking: ((isAsking: boolean) => void) | undefined

  constructor(call: IdentifiedCall, tool: Tool, scope: CallScope) {
    this.call = call
    this.tool = tool
    this.scope = scope
  }

  /** Resolves when the run ends. A joined request that disconnects does not interrupt the run (rule 10). */
  get done(): Promise<Outcome | typeof LOST> {
    if (this.#outcome !== undefined) return Promise.resolve(this.#outcome)
    this.#done ??= Promise.withResolvers<Outcome | typeof LOST>()
    return this.#done.promise
  }

  get isJoined(): boolean {
    return this.#done !== undefined
  }

  get isAsking(): boolean {
    return this.#questions > 0
  }

  /** Pauses the timeout: the time that a caller takes to answer is not run time. */
  async whileAsking<T>(ask: () => Promise<T>): Promise<T> {
    this.#questions += 1
    if (this.#questions === 1) this.#onAsking?.(true)
    try {
      return await ask()
    } finally {
      this.#questions -= 1
      if (this.#questions === 0) this.#onAsking?.(false)
    }
  }

  /** The listener gets true when the first question opens, and false when the last question is answered. */
  onAsking(listener: (isAsking: boolean) => void): void {
    this.#onAsking = listener
  }

  settle(outcome: Outcome | typeof LOST): void {
    this.#outcome = outcome
    this.#done?.resolve(outcome)
  }

  /** Sets the only listener; it is called immediately if the run is already interrupted. */
  onInterrupt(listener: (why: Interruption) => void): void {
    this.#interrupt = listener
    if (this.interruption !== undefined) listener(this.interruption)
  }

  interrupt(why: Interruption): void {
    if (this.interruption !== undefined) return
    this.interruption = why
    this.#interrupt?.(why)
  }
}

/** Whether a caller whose disconnection cancels its call has disconnected (MCP-84). */
export function hasLeft(leaving: CallerDeparture | undefined): boolean {
  return leaving?.isGone ?? leaving?.left?.aborted ?? false
}

/** Describes one attempt to the store. A first attempt outside of runs and sessions has no `run`. */
export function attemptOf(running: RunningCall, attempt: number): Attempt {
  const { tenant, record, principal } = running.call
  const { run: named, session } = running.scope
  const ownRun = attempt === 1 && session === undefined ? undefined : record
  const run = named?.run ?? ownRun
  return { tenant, record, principal: principal.id, tool: running.tool.id, attempt, run, session }
}

export interface ContextNeeds extends Pick<CallStages, 'resumptions'> {
  readonly clock: Clock
  readonly store: Pick<KernelStore, 'sign'>
  readonly log: Logger
  readonly fetch: typeof fetch
}

/** The context of one run. The abort controller is created only for tools that read the signal. */
export class RunContext implements StatefulContext<unknown>, SessionContext {
  /** The session's state, for stateful tools. */
  session: unknown
  readonly #needs: ContextNeeds
  readonly #running: RunningCall
  #abort: AbortController | undefined
  #aborted: Interruption | undefined

  constructor(needs: ContextNeeds, running: RunningCall) {
    this.#needs = needs
    this.#running = running
  }

  get callId(): string {
    return this.#running.call.callId
  }

  get sessionId(): string {
    return this.#running.scope.session?.sessionId ?? ''
  }

  get traceId(): string {
    return this.#running.call.request.traceId ?? ''
  }

  get traceparent(): string | undefined {
    return this.#running.call.request.traceparent
  }

  get traceHeaders(): Readonly<Record<string, string>> | undefined {
    const { traceparent, traceExtras } = this.#running.call.request
    return traceparent === undefined ? undefined : { traceparent, ...traceExtras }
  }

  get principal(): Principal {
    return this.#running.call.principal
  }

  get userId(): string | undefined {
    return userOf(this.#running.call)
  }

  get claimedUserId(): string | undefined {
    const { call } = this.#running
    return call.request.userId ?? userOf(call)
  }

  get userInfo(): JsonValue | undefined {
    return this.#running.call.request.userInfo
  }

  get log(): Logger {
    const { tool, call } = this.#running
    return cleanLogger(boundLogger(this.#needs.log, { tool: tool.id, record: call.record }), call.request)
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#aborted !== undefined) this.#abort.abort(reasonOf(this.#aborted))
    }
    return this.#abort.signal
  }

  get isAborted(): boolean {
    return this.#aborted !== undefined
  }

  // Each function below is created when it is read, so that it also works when detached from the context, and costs
  // nothing for tools that do not use it.

  get token(): ToolContext['token'] {
    const { tool, call } = this.#running
    return declaredIn(tool, 'authorization', call.request.tokens)
  }

  get secret(): ToolContext['secret'] {
    const { tool, call } = this.#running
    return declaredIn(tool, 'secrets', call.request.secrets)
  }

  get fetch(): typeof fetch {
    return (resource, init) => {
      const own = init?.signal ?? (resource instanceof Request ? resource.signal : undefined)
      const signal = own === undefined ? this.signal : AbortSignal.any([this.signal, own])
      const { traceHeaders } = this
      if (traceHeaders === undefined) return this.#send(resource, { ...init, signal })
      const headers = new Headers(
        init?.headers ?? (resource instanceof Request ? resource.headers : undefined),
      )
      // If a tool sets its own trace, only that trace is sent.
      if (!headers.has('traceparent'))
        for (const [name, value] of Object.entries(traceHeaders)) headers.set(name, value)
      return this.#send(resource, { ...init, signal, headers })
    }
  }

  /** A request that failed without effect does not prove that the run had no effect before it (rule 9). */
  async #send(...request: Parameters<typeof fetch>): Promise<Response> {
    try {
      return await this.#needs.fetch(...request)
    } catch (error) {
      const isRetryable = isToolError(error) && error.canRetry
      throw isRetryable && hasEffects(this.#running.tool.policy) ? withoutRetry(error) : error
    }
  }

  get progress(): ToolContext['progress'] {
    return (done, total, message) => {
      if (this.#aborted !== undefined) return
      this.#running.progress = { done, total, message }
      this.#running.call.request.onProgress?.(this.#running.progress)
    }
  }

  get message(): ToolContext['message'] {
    return (level, data, logger) => {
      const { request } = this.#running.call
      if (this.#aborted === undefined && request.onMessage !== undefined)
        request.onMessage(
          redactMessage({ level, data, ...(logger === undefined ? {} : { logger }) }, request),
        )
    }
  }

  get messageLevel(): ToolContext['messageLevel'] {
    return this.#running.call.request.messageLevel
  }

  get elicit(): ToolContext['elicit'] {
    return async (question) => {
      const ask = this.#running.call.request.onElicit
      if (ask === undefined) return { action: 'decline' }
      return await this.#running.whileAsking(() => ask(question, this.signal))
    }
  }

  get effectKey(): ToolContext['effectKey'] {
    return (ordinal = 0) => {
      const { call } = this.#running
      const parts = [call.principal.tenant, call.principal.id, call.record, ordinal]
      return this.#needs.store.sign('effect', JSON.stringify(parts))
    }
  }

  /** Sessions are lost in a crash, so their calls cannot continue (rule 30). */
  get resumption(): ToolContext['resumption'] {
    const { resumptions, clock } = this.#needs
    const { call, scope, isRepeated } = this.#running
    if (resumptions === undefined || scope.session !== undefined) return undefined
    const { fingerprint } = call
    return {
      isRepeated,
      find: async () => (isRepeated ? await resumptions.find(call, fingerprint) : undefined),
      keep: async (state, forMs) => {
        if (this.#aborted !== undefined) return
        await resumptions.keep(call, { fingerprint, state, untilMs: clock.nowMs() + forMs })
      },
    }
  }

  abort(why: Interruption): void {
    this.#aborted = why
    this.#abort?.abort(reasonOf(why))
  }
}

function withoutRetry({ code, message, developerMessage, cause }: ToolError): ToolError {
  return fault(code, message, { cause, ...(developerMessage === undefined ? {} : { developerMessage }) })
}

function reasonOf(why: Interruption): DOMException {
  return why === 'timeout'
    ? new DOMException('The tool ran out of time.', 'TimeoutError')
    : new DOMException(`The call was ended by ${why}.`, 'AbortError')
}

/** A tool gets only the credentials it declared (OTC/T-21). */
function declaredIn(
  { id: toolId, requirements }: Tool,
  kind: 'authorization' | 'secrets',
  values: ReadonlyMap<string, Secret>,
): (id: string) => Secret {
  return (requested) => {
    const value = requirements?.[kind]?.some(({ id }) => id === requested) ? values.get(requested) : undefined
    if (value !== undefined) return value
    throw fault('tool_failed', 'The tool asked for a credential it did not declare.', {
      developerMessage: `${toolId} must list '${requested}' in requirements.${kind}.`,
    })
  }
}

/** Removes the call's credentials from everything that the tool logs (OWP-75). */
function cleanLogger(log: Logger, request: CallRequest): Logger {
  if (request.tokens.size === 0 && request.secrets.size === 0) return log
  const clean = (text: string | undefined) => (text === undefined ? undefined : redactText(text, request))
  const write =
    (level: keyof Logger): WriteLine =>
    (line: object | string, message?: string) => {
      if (typeof line === 'string') log[level](redactText(line, request))
      else log[level](redactLogged(line, request), clean(message))
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
