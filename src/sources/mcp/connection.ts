import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client, Progress, Transport } from '@modelcontextprotocol/client'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { MAX_TIMER_MS, type ToolContext } from '#kernel/tool/tool'
import { Semaphore } from '#stages/limits/limits'

/** Who we say we are, and what we can be asked. */
export const CLIENT = {
  info: { name: 'collet', version: '1' },
  capabilities: { elicitation: { form: { applyDefaults: true }, url: {} } },
} as const

/** Code of the error that a request gets whose stream ended without an answer. */
export const STREAM_ENDED = -31_999

/** A call as a connection may carry it without the official client. */
export interface PlainCall {
  readonly scope: CallScope
  readonly params: JsonObject
  readonly headers: Readonly<Record<string, string>> | undefined
  /** `undefined` with an upstream of the earlier era. */
  readonly revision: string | undefined
  /** Takes the parameters of a notice of progress. */
  report(progress: JsonValue | undefined): void
}

interface ConnectionOptions {
  readonly client: Client
  readonly transport: Transport
  /** Whether questions arrive on the stream of the call that they belong to. */
  readonly correlates: boolean
  callsAtOnce(): number
  readonly openedMs: number
  /** A shorter way for calls, where there is one; `undefined` = it did not take this one. */
  callPlainly?(call: PlainCall): Promise<JsonObject | undefined>
  /** What the other side sent that was too much to be read, if that ended it. */
  unread?(): string | undefined
  /** Ends it, with its process or session. */
  close(): Promise<void>
}

/** A live connection to an upstream, initialised once. */
export class Connection {
  readonly client: Client
  readonly openedMs: number
  /** Whether tools were listed on it. */
  hasListed = false
  /** How often it said that its tools have changed. */
  news = 0
  readonly #options: ConnectionOptions
  readonly #calls = new Set<CallScope>()
  readonly #running: Semaphore
  #isOpen = true
  #hadOneCall = false

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.client = options.client
    this.openedMs = options.openedMs
    this.#running = new Semaphore(options.callsAtOnce)
  }

  get isModern(): boolean {
    return this.client.getProtocolEra() === 'modern'
  }

  get hasSession(): boolean {
    return this.#options.transport.sessionId !== undefined
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  get isIdle(): boolean {
    return this.#running.taken === 0
  }

  /** What ended the connection because it was too much to be read, and whether only one call can have caused it. */
  get unread(): { readonly message: string; readonly isOfOneCall: boolean } | undefined {
    const message = this.#options.unread?.()
    return message === undefined ? undefined : { message, isOfOneCall: this.#hadOneCall }
  }

  /** The call that a question belongs to; `undefined` when that is unknown. */
  get asking(): CallScope | undefined {
    const scope = this.#options.correlates ? CALL_SCOPE.getStore() : undefined
    if (scope !== undefined && this.#calls.has(scope)) return scope
    const [only, ...others] = this.#calls
    return others.length === 0 ? only : undefined
  }

  /** One `tools/call`; an `input_required` result is handed back as it is. */
  async call(
    scope: CallScope,
    params: JsonObject,
    headers: Readonly<Record<string, string>> | undefined,
  ): Promise<JsonObject> {
    const { signal } = scope.context
    await this.#running.enter(signal)
    this.#calls.add(scope)
    try {
      const result = await this.#options.callPlainly?.({
        ...{ scope, params, headers, revision: this.#modernRevision },
        report: (progress) => reportPlain(scope, progress),
      })
      if (result !== undefined) return result
      return await CALL_SCOPE.run(scope, () =>
        this.client.request({ method: 'tools/call', params }, ANY_RESULT, {
          signal,
          // The client's own limit is 60 s; ours is the tool's, by its signal.
          timeout: MAX_TIMER_MS,
          allowInputRequired: true,
          onprogress: (progress) => report(scope, progress),
          ...(headers === undefined ? {} : { headers }),
        }),
      )
    } finally {
      this.#calls.delete(scope)
      this.#running.leave()
    }
  }

  get #modernRevision(): string | undefined {
    return this.isModern ? this.client.getNegotiatedProtocolVersion() : undefined
  }

  /** Any other request, within a time. */
  request(method: string, params: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    return this.client.request({ method, params }, ANY_RESULT, { signal, timeout: MAX_TIMER_MS })
  }

  /** The other side is gone. */
  lost(): void {
    this.#isOpen = false
    this.#hadOneCall = this.#calls.size === 1
  }

  async close(): Promise<void> {
    this.#isOpen = false
    await this.#options.close()
  }
}

function report({ context }: CallScope, { progress, total, message }: Progress): void {
  context.progress(progress, total, message)
}

function reportPlain(scope: CallScope, params: JsonValue | undefined): void {
  if (!isWireObject(params) || typeof params.progress !== 'number') return
  const { progress, total, message } = params
  report(scope, {
    progress,
    ...(typeof total === 'number' ? { total } : {}),
    ...(typeof message === 'string' ? { message } : {}),
  })
}

/** Whether a value that came off the wire, and so is JSON, is an object. */
export function isWireObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isWireArray(value: unknown): value is readonly JsonValue[] {
  return Array.isArray(value)
}

export function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/**
 * Takes any object for a result: what it means is read by us, once, and one odd member of one tool or block
 * does not cost the whole answer.
 */
export const ANY_RESULT: StandardSchemaV1<unknown, JsonObject> = {
  '~standard': {
    version: 1,
    vendor: 'collet',
    validate: (value) =>
      isWireObject(value) ? { value } : { issues: [{ message: 'the result is not an object' }] },
  },
}

/** One call on its way, for what happens below the client: credentials, questions, the end of its exchange. */
export interface CallScope {
  readonly context: ToolContext
  /** Headers with the caller's credentials. */
  readonly credentials: Readonly<Record<string, string>>
  /** Aborted when the call is over, so that no exchange outlives it. */
  readonly over: AbortSignal
  /** What the upstream said about when to come back. */
  retryAfterMs: number | undefined
}

/** Follows a call through the client into its exchange, and back from its stream to the questions it carries. */
export const CALL_SCOPE = new AsyncLocalStorage<CallScope>()
