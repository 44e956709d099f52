import { isJsonObject } from '#core/json'
import { responseNull } from '#protocols/opentool/codec-client-answer'
import type { FunctionCall } from '#protocols/opentool/codec-convert-to-json'
import { type OpenToolDocument, OpenToolDocumentError } from '#protocols/opentool/codec-document'
import { load } from '#protocols/opentool/codec-document-read'
import { dereference } from '#protocols/opentool/codec-document-references'
import { CallFailure, configFailure } from './call-failure.ts'
import { type ClientOptions, type ClientSettings, readOptions } from './client-options.ts'
import { bodyOf, getEndpoint, type OpenToolCallOptions, postCall } from './opentool-exchange.ts'
import { failureOf } from './opentool-failure.ts'
import type { ToolReturn } from './opentool-models.ts'
import { type StreamedResult, streamCall } from './opentool-stream.ts'

/** Host, port and whether to use TLS, as OpenTool's own clients take them (OTS-60). */
export interface OpenToolAddress {
  /** A name or address; a whole base URL is taken too. */
  readonly host?: string
  /** Default 9627. */
  readonly port?: number
  readonly ssl?: boolean
}

type Waiting = { readonly signal?: AbortSignal }

/** One OpenTool server, in the words of its protocol. Failures are `CallFailure`s; `exceptionOf` gives their OpenTool name. */
export class OpenToolClient {
  readonly #settings: ClientSettings

  constructor(settings: ClientSettings) {
    this.#settings = settings
  }

  /** The server's own version (OTS-61). */
  async version({ signal }: Waiting = {}): Promise<{ readonly version: string }> {
    const answer = await getEndpoint(this.#settings, '/version', signal)
    const body = bodyOf(answer)
    // One SDK's server calls it `versionNumber` (OTS-32).
    const version = isJsonObject(body) ? (body.version ?? body.versionNumber) : undefined
    if (typeof version === 'string') return { version }
    throw failureOf(responseNull(answer.status), { status: answer.status })
  }

  /** What the server offers, references resolved; `null` when it does not say (OTS-63). */
  async load({ signal }: Waiting = {}): Promise<OpenToolDocument | null> {
    const answer = await getEndpoint(this.#settings, '/load', signal)
    if (answer.status === 404) return null
    const body = bodyOf(answer)
    if (!isJsonObject(body) || body.opentool === undefined) return null
    try {
      return dereference(load(body, { mode: 'lenient' }))
    } catch (cause) {
      if (!(cause instanceof OpenToolDocumentError)) throw cause
      throw new CallFailure('server', `The server's document cannot be used. ${cause.message}`, {
        status: answer.status,
        cause,
      })
    }
  }

  /** Calls a function; never sends it twice (OTS-62, OTS-66). */
  async call(call: FunctionCall, options: OpenToolCallOptions = {}): Promise<ToolReturn> {
    const { result } = await postCall(this.#settings, call, options)
    return { id: call.id, result }
  }

  /** Calls a function of a server that streams; each result as it comes (OTS-50). */
  stream(call: FunctionCall, options: OpenToolCallOptions = {}): AsyncGenerator<StreamedResult> {
    return streamCall(this.#settings, call, options)
  }
}

const DEFAULT_PORT = 9_627

/** A client of one OpenTool server. Sends nothing yet; throws `CallFailure` of class `config` on bad options. */
export function connectOpenTool(
  address: string | URL | OpenToolAddress,
  options: Omit<ClientOptions, 'dialect' | 'protocol'> = {},
): OpenToolClient {
  return new OpenToolClient(readOptions(addressUrl(address), options))
}

function addressUrl(address: string | URL | OpenToolAddress): string | URL {
  if (typeof address === 'string' || address instanceof URL) return address
  const { host = '127.0.0.1', port, ssl = false } = address
  if (host.includes('://')) return host
  if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_536)) {
    throw configFailure('port must be a whole number from 1 to 65535.')
  }
  const name = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
  return `${ssl ? 'https' : 'http'}://${name}:${port ?? DEFAULT_PORT}`
}
