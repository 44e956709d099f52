import type { JsonObject } from '#core/json'
import type { RemoteTool } from '#protocols/otc/codec-client-list'
import { CallFailure } from './call-failure.ts'
import type { CallOptions } from './call-run.ts'
import type { CallSession } from './call-target.ts'
import type { ClientSettings } from './client-options.ts'
import { exchange, NoAnswer } from './http-exchange.ts'
import type { CallResult } from './read-outcome.ts'
import { runCall } from './run-call.ts'
import { noAnswerFailure } from './send-with-retries.ts'
import { ToolDirectory } from './tool-directory.ts'
import { joinSignals } from './wait.ts'

export interface Health {
  readonly healthy: boolean
  /** Absent when there was no answer at all. */
  readonly status?: number
}

export type TriedCall =
  | ({ readonly ok: true } & CallResult)
  | { readonly ok: false; readonly error: CallFailure }

/** One server, in whatever dialect it speaks. Make it with `connect`. */
export class ColletClient {
  readonly #session: CallSession

  constructor(settings: ClientSettings) {
    this.#session = { settings, directory: new ToolDirectory(settings), route: { path: undefined } }
  }

  /** Every tool and version the server offers; always asks the server. */
  async list(options: { readonly signal?: AbortSignal } = {}): Promise<readonly RemoteTool[]> {
    return (await this.#session.directory.refresh(options.signal)).tools
  }

  /** One tool by full id, or by its name without version (= the latest listed one). */
  async get(
    toolId: string,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<RemoteTool | undefined> {
    return await this.#session.directory.find(toolId, options.signal)
  }

  /** Calls a tool; throws `CallFailure` when it gives no value. */
  async call(
    tool: string | RemoteTool,
    input: JsonObject = {},
    options: CallOptions = {},
  ): Promise<CallResult> {
    return await runCall(this.#session, tool, input, options)
  }

  /** Like `call`, with the failure as a value. */
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

  /** Whether the server takes calls. A server that cannot be reached is not healthy; nothing is thrown (OTC-03). */
  async health(options: { readonly signal?: AbortSignal } = {}): Promise<Health> {
    const { settings } = this.#session
    const signal = joinSignals(settings.signal, options.signal)
    // Health needs no credentials, so none are sent (OTC-04).
    const sending = {
      method: 'GET' as const,
      url: `${settings.server.base}/health`,
      headers: async () => ({}),
      ignoreBody: true as const,
    }
    try {
      const { status } = await exchange(sending, { ...settings, signal })
      return { healthy: status >= 200 && status < 300, status }
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error
      if (error.reason === 'aborted') throw noAnswerFailure(error, 'The health check')
      return { healthy: false }
    }
  }
}
