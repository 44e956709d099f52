import type { Clock } from '#kernel/base/clock'
import { mayRepeat, type ToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { Leaving } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import { ERROR_CODE_HEADER } from '#protocols/call-wire'
import { FrameQueue } from '#protocols/frame-queue'
import type { HttpReply } from '#protocols/http-exchange'
import { JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import type { ProtocolServices } from '#protocols/protocol'
import type { ProtocolSessionStore } from '#store/ports/protocol-store'
import {
  type Answer,
  encodeEvent,
  errorAnswer,
  NO_ANSWER,
  type RequestHeaders,
  readCapabilities,
} from './codec-message.ts'
import type { Accepted } from './routes.ts'
import {
  type ClientCapabilities,
  isLegacyRevision,
  JSON_TYPE,
  LEGACY_REVISIONS,
  type LegacyRevision,
  MCP_CODES,
  MCP_PATH,
  NEW_REVISION,
  NEWEST_LEGACY_REVISION,
  type Revision,
  STREAM_TYPE,
  type WireError,
} from './wire.ts'

type ReadInitialize =
  | { readonly ok: true; readonly revision: LegacyRevision; readonly capabilities: ClientCapabilities }
  | { readonly ok: false; readonly error: WireError }

/** MCP-22: the revision that was asked for if we serve it, else our newest of that era (MCP/T-8, MCP/T-29). */
export function readInitialize(params: JsonValue | undefined): ReadInitialize {
  if (!isJsonObject(params) || typeof params.protocolVersion !== 'string') {
    const message = 'initialize needs params.protocolVersion, params.capabilities and params.clientInfo.'
    return { ok: false, error: { code: JSON_RPC_CODES.badParams, message } }
  }
  const asked = params.protocolVersion
  const revision = isLegacyRevision(asked) ? asked : NEWEST_LEGACY_REVISION
  return { ok: true, revision, capabilities: readCapabilities(params.capabilities, revision) }
}

/** MCP/T-8: only what can be used this way; older ones are named in the text (MCP-34). */
export function unsupportedVersion(requested: string): WireError {
  return {
    code: MCP_CODES.unsupportedVersion,
    message: `Unsupported protocol version. ${LEGACY_REVISIONS.join(' and ')} are served after initialize.`,
    data: { supported: [NEW_REVISION], requested },
  }
}

/** MCP-20: nothing was done, and waiting helps; or it is not known what was done, and nobody is asked to come again. */
export function laterAnswer(id: JsonRpcId, error: ToolError): Answer {
  const { code, message, retryAfterMs = 1_000 } = error
  const status = code === 'rate_limited' ? 429 : 503
  const headers = {
    ...(mayRepeat(error) ? { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) } : {}),
    [ERROR_CODE_HEADER]: code,
  }
  return errorAnswer(id, { code: status, message, data: { code } }, { status, headers })
}

/** What an operator may choose about this protocol. */
export interface McpOptions {
  /** `serverInfo.name` (MCP-08). */
  readonly name: string
  readonly serverVersion: string
  /** Text for models about the server as a whole. */
  readonly instructions?: string | undefined
  /** Tools on one page of a list; many clients read only the first (MCP-44). */
  readonly pageSize?: number | undefined
  /** `resource_metadata` of a challenge; absent without an issuer (MCP-96). */
  readonly metadataUrl?: (() => string) | undefined
}

/** What the protocol needs from outside. */
export interface McpServices {
  readonly gateway: Gateway
  readonly callers: ProtocolSessionStore
  readonly clock: Clock
  readonly log: Logger
  /** Keyed signature of this server's store: what we hand out comes back unchanged, or not at all (MCP-72). */
  sign(text: string): string
  readonly options: McpOptions
}

/** What the protocol needs of the server, over HTTP and on stdio. */
export function mcpServices(
  { name, instructions, pageSize }: Omit<McpOptions, 'serverVersion' | 'metadataUrl'>,
  server: Pick<ProtocolServices, 'gateway' | 'store' | 'clock' | 'log' | 'serverVersion' | 'metadataUrl'>,
): McpServices {
  const { gateway, store, clock, log, serverVersion, metadataUrl } = server
  return {
    ...{ gateway, clock, log },
    callers: store.callers,
    sign: (text) => store.approvals.sign('mcp', text),
    options: {
      ...{ name, serverVersion, instructions, pageSize },
      metadataUrl: metadataUrl === undefined ? undefined : () => metadataUrl(MCP_PATH),
    },
  }
}

/** One request and everything known of who makes it; nothing is remembered from another (MCP-31). */
export interface McpExchange {
  readonly id: JsonRpcId
  readonly principal: Principal
  readonly revision: Revision
  readonly capabilities: ClientCapabilities
  readonly channel: Channel
  /** Absent on stdio, which has none. */
  readonly headers: RequestHeaders | undefined
  readonly traceId: string | undefined
  readonly traceparent: string | undefined
  /** The client, where its leaving cancels: the newest revision over HTTP (MCP-83). */
  readonly leaving: Leaving | undefined
  /** Gets the way to cancel what the request began, once there is something (MCP-85). */
  onBegun?(cancel: () => void): void
  /** Called just before the outcome of its call is written. */
  onRecording?(): void
}

/** The way back to one client while its request is being answered. */
export interface Channel {
  /** Whether anything may be sent before the answer. */
  readonly canSend: boolean
  /** News may be left out for a slow reader; questions never are. */
  send(json: string, what: 'news' | 'question'): void
}

const LOOK_MS = 1_000

interface Quiet {
  /** Begins a stream, so that something can be sent. */
  stream(): void
}

/** A place in a line; one that is in no line stands between itself and itself. */
class Place {
  readonly reply: Quiet | undefined
  readonly sinceMs: number
  before: Place = this
  after: Place = this

  constructor(reply: Quiet | undefined, sinceMs: number) {
    this.reply = reply
    this.sinceMs = sinceMs
  }

  stepBefore(next: Place): void {
    this.before = next.before
    this.after = next
    this.before.after = this
    next.before = this
  }

  leave(): void {
    this.before.after = this.after
    this.after.before = this.before
    this.before = this
    this.after = this
  }
}

/**
 * Replies that wait for their answer, in the order they began; those that wait for too long begin to stream (MCP-15). A line and
 * not a map: V8 makes a map whose entries come and go anew again and again, and what it leaves refers to its entries and to the
 * next form, so that nearly every request would live until a full collection.
 */
export class StreamUpgrade {
  readonly #longestMs: number
  /** Stands before the first and behind the last. */
  readonly #ends = new Place(undefined, Number.POSITIVE_INFINITY)
  #timer: NodeJS.Timeout | undefined

  constructor(longestMs: number) {
    this.#longestMs = longestMs
  }

  /** Its place is left when the reply needs to wait no more. */
  add(reply: Quiet): Place {
    const place = new Place(reply, performance.now())
    place.stepBefore(this.#ends)
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
    return place
  }

  #look(): void {
    const longAgo = performance.now() - this.#longestMs
    for (let first = this.#ends.after; first !== this.#ends; first = this.#ends.after) {
      if (first.sinceMs > longAgo) return
      first.leave()
      first.reply?.stream()
    }
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** Without an answer for so long, a stream begins, so that nothing between us takes the connection for dead (MCP-15). */
const QUIET_MS = 10_000
const KEEP_ALIVE_MS = 15_000
const KEEP_ALIVE = ':\n\n'

/** Those without an answer yet: one look a second at all of them costs less than a timer for each. */
const QUIET = new StreamUpgrade(QUIET_MS)

/** MCP-16. */
export const STREAM_HEADERS: Readonly<Record<string, string>> = {
  'content-type': STREAM_TYPE,
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** One POST: answered with JSON, unless something has to be said before the answer (MCP-13, MCP-15). */
export class HttpChannel implements Channel {
  readonly #accepted: Accepted
  #beginStream: (() => void) | undefined
  #mustStream = false
  #frames: FrameQueue | undefined

  constructor(accepted: Accepted) {
    this.#accepted = accepted
  }

  get canSend(): boolean {
    return this.#accepted.stream
  }

  send(json: string, what: 'news' | 'question'): void {
    if (!this.canSend) return
    this.#queue().add(encodeEvent(json), what === 'news')
    this.stream()
  }

  /** From now on the answer is a stream. */
  stream(): void {
    this.#mustStream = true
    this.#beginStream?.()
  }

  /** All refusals by status are known before the stream begins. */
  reply(answer: Promise<Answer>): Promise<HttpReply> {
    const place = this.canSend ? QUIET.add(this) : undefined
    return new Promise((resolve, reject) => {
      this.#beginStream = () => {
        place?.leave()
        resolve(this.#stream(answer))
      }
      if (this.#mustStream) this.#beginStream()
      answer.then(
        (made) => {
          place?.leave()
          resolve(this.#accepted.json || made.status !== 200 ? toReply(made) : this.#stream(answer))
        },
        (error: unknown) => {
          place?.leave()
          reject(error)
        },
      )
    })
  }

  /** Made for those who stream: most calls are answered with one JSON body. */
  #queue(): FrameQueue {
    this.#frames ??= new FrameQueue(0)
    return this.#frames
  }

  #stream(answer: Promise<Answer>): HttpReply {
    return {
      status: 200,
      headers: STREAM_HEADERS,
      body: (ended) => this.#pieces(answer, ended),
    }
  }

  async *#pieces(answer: Promise<Answer>, ended: AbortSignal): AsyncGenerator<string> {
    const frames = this.#queue()
    ended.addEventListener('abort', () => frames.end(), { once: true })
    const last = answer.catch(() => NO_ANSWER)
    void last.finally(() => frames.end())
    for (;;) {
      const frame = await frames.next(KEEP_ALIVE_MS)
      if (frame === undefined) break
      yield frame === 'late' ? KEEP_ALIVE : frame
    }
    if (ended.aborted) return
    const { json } = await last
    if (json !== undefined) yield encodeEvent(json)
  }
}

/** A cancelled request gets an empty stream: there is no other way to say nothing (MCP-85). */
export function toReply({ status, headers, json }: Answer): HttpReply {
  if (json === undefined) return { status: 200, headers: { ...STREAM_HEADERS, ...headers }, body: '' }
  return { status, headers: { 'content-type': JSON_TYPE, ...headers }, body: json }
}
