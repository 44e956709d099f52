import type { Client, Progress, Transport } from '@modelcontextprotocol/client'
import type { JsonObject } from '#core/json'
import { CALL_SCOPE, type CallScope } from './call-scope.ts'
import { Turns } from './turns.ts'
import { ANY_RESULT } from './wire.ts'

/** The client's own limit is 60 s; ours is the tool's, by its signal. */
const NO_LIMIT_MS = 2_147_483_647

export interface ConnectionOptions {
  readonly client: Client
  readonly transport: Transport
  /** Whether questions arrive on the stream of the call that they belong to. */
  readonly correlates: boolean
  callsAtOnce(): number
  readonly openedMs: number
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
  readonly #turns: Turns
  #isOpen = true

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.client = options.client
    this.openedMs = options.openedMs
    this.#turns = new Turns(options.callsAtOnce)
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
    return this.#turns.taken === 0
  }

  /** The call that a question belongs to; `undefined` when that cannot be told. */
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
    await this.#turns.enter(signal)
    this.#calls.add(scope)
    try {
      return await CALL_SCOPE.run(scope, () =>
        this.client.request({ method: 'tools/call', params }, ANY_RESULT, {
          signal,
          timeout: NO_LIMIT_MS,
          allowInputRequired: true,
          onprogress: (progress) => report(scope, progress),
          ...(headers === undefined ? {} : { headers }),
        }),
      )
    } finally {
      this.#calls.delete(scope)
      this.#turns.leave()
    }
  }

  /** Any other request, within a time. */
  request(method: string, params: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    return this.client.request({ method, params }, ANY_RESULT, { signal, timeout: NO_LIMIT_MS })
  }

  /** The other side is gone. */
  lost(): void {
    this.#isOpen = false
  }

  async close(): Promise<void> {
    this.#isOpen = false
    await this.#options.close()
  }
}

function report({ context }: CallScope, { progress, total, message }: Progress): void {
  context.progress(progress, total, message)
}
