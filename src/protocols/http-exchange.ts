import type { ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'

/**
 * Where the server looks for an API key besides `Authorization`, on every protocol: OXP 1.0, OTC 1.0 and the
 * RFC each named another header (OTC/C-25).
 */
export const API_KEY_HEADERS = ['oxp-api-key', 'otc-api-key', 'x-api-key'] as const

/**
 * How a protocol meets HTTP without knowing the server: it declares routes, gets a checked request and gives
 * back bytes. The server owns sockets, `Host` and `Origin`, limits, authentication and the JSON body reader.
 */
export interface HttpRequest {
  readonly method: string
  /** Path without query. */
  readonly path: string
  readonly query: URLSearchParams
  /** Lower-case names. A header sent twice is joined with `, `. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Path parameters, decoded. */
  readonly params: Readonly<Record<string, string>>
  /** Parsed JSON body; `undefined` when there is none. Finite numbers and well-formed strings only. */
  readonly body: JsonValue | undefined
  readonly principal: Principal
  /** Trace id of the request: from `traceparent`, or made by the server. */
  readonly traceId: string
  /** The same as a W3C header, with the span of this request. */
  readonly traceparent?: string
  /** Makes the trace that a caller names in its body the one of this request, where it is the id of one (32 hex digits). */
  adoptTrace?(traceId: string): void
  /** Aborted when the client is gone, or has its whole answer. */
  readonly signal?: AbortSignal
  /** Aborted when the client leaves before it has its whole answer. */
  readonly left?: AbortSignal
}

export interface HttpReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** What else a browser is to keep or to forget: `set-cookie` is the one header that comes several times. */
  readonly cookies?: readonly string[]
  readonly body: string | Uint8Array | ReplyStream | undefined
}

/**
 * A body made piece by piece: each piece is one write, and the next is asked for only when the reader has room.
 * `ended` is aborted when the reader leaves or reads no more; the pieces should then stop.
 */
export type ReplyStream = (ended: AbortSignal) => AsyncIterable<string>

export interface HttpRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** `/calls/:id`: a segment that begins with a colon is a parameter. */
  readonly path: string
  /** `open` routes are reachable without a credential; they run as `anonymous`. */
  readonly access: 'authenticated' | 'open'
  /** The operator's start token opens it too, on its own. */
  readonly forOperators?: true
  /** The operator's browser may name the caller as whom it runs (`Collet-Run-As`); every other route refuses that header. */
  readonly takesRunAs?: true
  /** Whether a request body is read; `form` is what our own pages send, its fields as an object; `never` ignores it unread. */
  readonly body: 'json' | 'form' | 'never'
  /**
   * A path below which everything belongs to this protocol: what no route takes there, `refuse` answers too. If this
   * route needs a credential, all of it does: nobody else learns what is there (OTS-48).
   */
  readonly owns?: string
  handle(request: HttpRequest): HttpReply | Promise<HttpReply>
  /**
   * Renders what failed before `handle` could run (401, bad JSON, too large …) in the protocol's own shape.
   * `status` is the HTTP status the server suggests for the failure; the protocol may know better.
   */
  refuse(request: Omit<HttpRequest, 'body' | 'principal'>, error: ToolError, status: number): HttpReply
}

/** The value of a cookie; `undefined` when the browser sent none of this name, or two: nobody may plant a second one. */
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

/** Whether it comes from a page of our own, as far as the browser says: old ones, and programs, say nothing. */
export function isFromOwnPage({ headers }: Pick<HttpRequest, 'headers'>): boolean {
  const site = headers['sec-fetch-site']
  return site === undefined || site === 'same-origin'
}

/** Whether a person looks: browsers ask for pages by name; programs take anything, or name what they read. */
export function isForPerson({ headers: { accept = '' } }: Pick<HttpRequest, 'headers'>): boolean {
  return accept.split(',').some((part) => part.split(';', 1)[0]?.trim().toLowerCase() === 'text/html')
}
