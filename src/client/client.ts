import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { RemoteTool } from '#protocols/otc/codec-client'
import { type CallOptions, type CallResult, type CallSession, runCall } from './call.ts'
import { CallFailure } from './failure.ts'
import { exchange, joinSignals, NoAnswer } from './http.ts'
import { OpenToolSession } from './opentool.ts'
import { endpointsOf } from './opentool-exchange.ts'
import type { ClientSettings } from './options.ts'
import { noAnswerFailure } from './retries.ts'
import {
  Calls,
  Catalog,
  openSession,
  type ReadResult,
  type ReadResultOptions,
  Runs,
  ServerResources,
  type SessionOptions,
  ToolSession,
} from './server-resources.ts'
import { type FoundTools, ToolDirectory } from './tool-directory.ts'

/**
 * The client of one server: detects OTC or OpenTool and offers `list`, `get`, `call`, `openSession` and `health` for
 * both. Applications get the client from `connect`. Invariant: nothing is sent before the first method is called, and every
 * failure is a `CallFailure`.
 */

export interface Health {
  readonly healthy: boolean
  /** Absent if there was no answer at all. */
  readonly status?: number
}

export type TriedCall<Value = JsonValue> =
  | ({ readonly ok: true } & CallResult<Value>)
  | { readonly ok: false; readonly error: CallFailure }

/** One server, with any supported protocol and dialect. Create it with `connect`. */
export class ColletClient {
  /** Tools as the openwop catalog describes them. Like `runs` and `calls`, it needs a Collet server. */
  readonly catalog: Catalog
  readonly runs: Runs
  /** State of earlier calls, and cancellation. */
  readonly calls: Calls
  readonly #resources: ServerResources
  readonly #session: CallSession
  #opentool: OpenToolSession | undefined

  constructor(settings: ClientSettings) {
    this.#session = { settings, directory: new ToolDirectory(settings), route: { path: undefined } }
    if (settings.protocol === 'opentool') this.#opentool = new OpenToolSession(settings)
    this.#resources = new ServerResources(settings)
    this.catalog = new Catalog(this.#resources)
    this.runs = new Runs(this.#resources)
    this.calls = new Calls(this.#resources)
  }

  /** Every tool and version the server offers; always asks the server. */
  async list({ signal }: { readonly signal?: AbortSignal } = {}): Promise<readonly RemoteTool[]> {
    return await this.#withProtocol(signal, {
      otc: async () => (await this.#session.directory.refresh(signal)).tools,
      opentool: (session) => session.list(signal),
    })
  }

  /** The tools of a Collet server that fit a task in plain words, best first; at most 10, or `limit` (up to 50). */
  async search(
    text: string,
    { limit, signal }: { readonly limit?: number; readonly signal?: AbortSignal } = {},
  ): Promise<FoundTools> {
    return await this.#withProtocol(signal, {
      otc: () => this.#session.directory.search(text, { limit, signal }),
      opentool: () => {
        const message = 'OpenTool has no search. Use the address of the server without /opentool.'
        throw new CallFailure('config', message)
      },
    })
  }

  /**
   * One tool by any of its names: full id, id without version (the latest listed one), name for models, catalog id.
   */
  async get(
    toolId: string,
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<RemoteTool | undefined> {
    return await this.#withProtocol(signal, {
      otc: () => this.#session.directory.find(toolId, signal),
      opentool: (session) => session.get(toolId, signal),
    })
  }

  /** Calls a tool; throws `CallFailure` if it returns no value. */
  async call(
    tool: string | RemoteTool,
    input: JsonObject = {},
    options: CallOptions = {},
  ): Promise<CallResult> {
    return await this.#withProtocol(options.signal, {
      otc: () => runCall(this.#session, tool, input, options),
      opentool: (session) => session.call(tool, input, options),
    })
  }

  /** Like `call`, but returns the failure as a value. */
  async tryCall(
    tool: string | RemoteTool,
    input: JsonObject = {},
    options: CallOptions = {},
  ): Promise<TriedCall> {
    try {
      return { ok: true, ...(await this.call(tool, input, options)) }
    } catch (error) {
      if (error instanceof CallFailure) return { ok: false, error }
      throw error
    }
  }

  /** Reads a part of the recorded result of a call, on Collet servers: by path, range, filter and members. */
  async readResult(callId: string, options: ReadResultOptions = {}): Promise<ReadResult> {
    return await this.calls.result(callId, options)
  }

  /** Opens a session of a tool that keeps state between calls, on Collet servers. */
  async openSession(tool: string | RemoteTool, options: SessionOptions = {}): Promise<ToolSession> {
    const listed = typeof tool === 'string' ? await this.get(tool, options) : tool
    const named = listed ?? tool
    const toolId = listed?.facts?.catalogId ?? (typeof named === 'string' ? named : named.id)
    const opened = await openSession(this.#resources, toolId, options)
    return new ToolSession(opened, this.#resources, (input, each) => this.call(named, input, each))
  }

  /** Reports whether the server accepts calls. A server that cannot be reached is not healthy; only an abort throws. */
  async health(options: { readonly signal?: AbortSignal } = {}): Promise<Health> {
    const { settings } = this.#session
    const signal = joinSignals(settings.signal, options.signal)
    // OTC's health check needs no credentials, so none are sent (OTC-04); OpenTool's version endpoint does (OTS-48).
    const isOpenTool = this.#opentool !== undefined
    const request = {
      method: 'GET' as const,
      url: isOpenTool ? `${endpointsOf(settings)}/version` : `${settings.server.base}/health`,
      headers: isOpenTool ? settings.credentials.bearer : async () => ({}),
      ignoreBody: true as const,
    }
    try {
      const { status } = await exchange(request, { ...settings, signal })
      return { healthy: status >= 200 && status < 300, status }
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error
      if (error.reason === 'aborted') throw noAnswerFailure(error, 'The health check')
      return { healthy: false }
    }
  }

  /** Tries OTC first; a server without a tool list may be an OpenTool server. */
  async #withProtocol<T>(
    signal: AbortSignal | undefined,
    methods: { otc(): Promise<T>; opentool(session: OpenToolSession): Promise<T> },
  ): Promise<T> {
    if (this.#opentool !== undefined) return await methods.opentool(this.#opentool)
    try {
      return await methods.otc()
    } catch (error) {
      const { settings, directory } = this.#session
      if (settings.protocol !== undefined || !directory.isRefused) throw error
      const session = new OpenToolSession(settings)
      // If OpenTool does not answer either, the first error is the one to report.
      if (!(await session.answers(signal).catch(() => false))) throw error
      this.#opentool = session
      return await methods.opentool(session)
    }
  }
}
