import type { ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { NamedTrace, TraceContext, TraceExtras } from './trace-context.ts'

/*
 * The HTTP request, reply and route types between the server and the protocols.
 * A protocol declares routes, gets a checked request and returns bytes. The server owns sockets, `Host` and
 * `Origin` checks, limits, authentication and body parsing. Invariant: a protocol never imports the server.
 */

/**
 * Headers that may carry an API key besides `Authorization`, on every protocol: OXP 1.0, OTC 1.0 and the RFC
 * each name a different header (OTC/C-25).
 */
export const API_KEY_HEADERS = ['oxp-api-key', 'otc-api-key', 'x-api-key'] as const

export interface HttpRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  /** Headers by lower-case name. The values of a repeated header are joined with `, `. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Path parameters, decoded. */
  readonly params: Readonly<Record<string, string>>
  /** Parsed JSON body, with only finite numbers and well-formed strings; `undefined` if there is no body. */
  readonly body: JsonValue | undefined
  readonly principal: Principal
  /** Trace id of the request: from `traceparent`, or made by the server. */
  readonly traceId: string
  /** The trace as a W3C header, with the span of this request. */
  readonly traceparent?: string
  /** `tracestate` and `baggage` that came with the trace; `undefined` if there are none. */
  readonly traceExtras?: TraceExtras | undefined
  /** The trace context, for protocols whose operations have spans. */
  readonly trace?: TraceContext
  /** Continues the trace that a message names in its own members; an invalid `traceparent` changes nothing. */
  continueTrace?(named: NamedTrace): void
  /** Sets the trace of this request to the id in its body, if that is a valid trace id (32 hex digits). */
  adoptTrace?(traceId: string): void
  /** Aborted when the client disconnects or has received its whole answer. */
  readonly signal?: AbortSignal
  /** Aborted when the client disconnects before it has received its whole answer. */
  readonly left?: AbortSignal
}

export interface HttpReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Values of `set-cookie`, the one header that may occur several times. */
  readonly cookies?: readonly string[]
  readonly body: string | Uint8Array | ReplyStream | undefined
}

/**
 * A body produced piece by piece. Each piece is one write, and the next is requested only when the reader has
 * capacity. `ended` is aborted when the reader disconnects or stops reading; the pieces should then stop.
 */
export type ReplyStream = (ended: AbortSignal) => AsyncIterable<string>

export interface HttpRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** `/calls/:id`: a segment that begins with a colon is a parameter. */
  readonly path: string
  /** `open` routes are reachable without a credential; they run as `anonymous`. */
  readonly access: 'authenticated' | 'open'
  /** If set, the operator's start token is accepted as the only credential. */
  readonly forOperators?: true
  /**
   * If set, the route accepts `Collet-Run-As`, with which the operator's browser names the caller to run as. Every other route
   * refuses this header.
   */
  readonly takesRunAs?: true
  /** How the request body is read: `form` reads the form fields of this server's pages into an object; `never` leaves the body unread. */
  readonly body: 'json' | 'form' | 'never'
  /**
   * A path below which this protocol answers every request: `refuse` also answers paths without a route. If
   * this route needs a credential, the whole subtree does, so that unauthenticated callers cannot probe it
   * (OTS-48).
   */
  readonly owns?: string
  handle(request: HttpRequest): HttpReply | Promise<HttpReply>
  /**
   * Renders a failure before `handle` could run (401, bad JSON, too large …) in the protocol's own shape.
   * `status` is the HTTP status that the server suggests; the protocol may override it.
   */
  refuse(request: Omit<HttpRequest, 'body' | 'principal'>, error: ToolError, status: number): HttpReply
}

/** The value of a cookie; `undefined` if the browser sent no cookie with this name, or two, because one of them may be planted. */
export function readCookie(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined
  const start = `${name}=`
  const [value, ...others] = header
    .split(/[;,]/)
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(start))
    .map((pair) => pair.slice(start.length))
  return others.length === 0 ? value : undefined
}

/**
 * False if the browser states that the request does not come from this server's own page. Old browsers and programs do not send
 * the header and are accepted.
 */
export function isFromOwnPage({ headers }: Pick<HttpRequest, 'headers'>): boolean {
  const site = headers['sec-fetch-site']
  return site === undefined || site === 'same-origin'
}

/** True if the request accepts `text/html` by name, as browsers do. Programs accept anything or name other types. */
export function isForPerson({ headers: { accept = '' } }: Pick<HttpRequest, 'headers'>): boolean {
  return accept.split(',').some((part) => part.split(';', 1)[0]?.trim().toLowerCase() === 'text/html')
}
