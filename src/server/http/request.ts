import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { RequestHeaders } from '#auth/authenticator'
import { type ErrorCode, type FaultOptions, fault, type ToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { MaybePromise } from '#core/ports/store'
import type { Principal } from '#core/principal'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { adoptTrace, formatTraceparent, type TraceContext } from '#server/telemetry/tracing'

/**
 * The HTTP status the server suggests for a failure outside a call; the protocol may know better. Failures of
 * a tool are answers, and after a run has begun no reply is a 5xx (rule 11).
 */
const SUGGESTED_STATUS = {
  unauthenticated: 401,
  request_invalid: 400,
  version_unsupported: 400,
  key_conflict: 400,
  call_not_found: 404,
  tool_not_found: 404,
  session_not_found: 404,
  run_not_found: 404,
  not_authorized: 403,
  input_invalid: 422,
  requirement_missing: 400,
  approval_required: 400,
  approval_rejected: 400,
  rate_limited: 429,
  budget_exceeded: 429,
  overloaded: 503,
  not_ready: 503,
  // An unexpected fault before the run (T-26, OTC-64).
  internal: 400,
  tool_failed: 200,
  tool_timeout: 200,
  cancelled: 200,
  upstream_failed: 200,
  egress_denied: 200,
  output_invalid: 200,
  result_too_large: 200,
  ambiguous: 200,
  outcome_unknown: 200,
  result_expired: 200,
  session_lost: 200,
  workflow_diverged: 200,
} as const satisfies Record<ErrorCode, number>

/** A fault whose HTTP status is more exact than its code: 404, 405, 413. */
export function httpFault(status: number, message: string, options: FaultOptions = {}): ToolError {
  return Object.assign(fault('request_invalid', message, options), { status })
}

export function statusOf(error: ToolError): number {
  return 'status' in error && typeof error.status === 'number' ? error.status : SUGGESTED_STATUS[error.code]
}

/** A protocol's route, or one of the server's own, which may know callers that protocols do not. */
export interface ServerRoute extends HttpRoute {
  /** Instead of the server's authentication. */
  readonly authenticate?: (headers: RequestHeaders) => MaybePromise<Principal>
}

/** How the server's own routes refuse. */
export function refuseWithMessage(_request: unknown, error: ToolError, status: number): HttpReply {
  return messageReply(status, error.message)
}

/** The plain `{ "message": … }` body of everything that belongs to no protocol (T-26). */
export function messageReply(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return jsonReply(status, { message }, headers)
}

export function jsonReply(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(body),
  }
}

type PlainHeaders = HttpRequest['headers']

/** What a protocol sees of a request. Query, headers and signal are made only when somebody looks. */
export class RequestView implements HttpRequest {
  readonly path: string
  readonly params: PathParameters
  readonly #trace: TraceContext
  readonly principal: Principal
  readonly body: JsonValue | undefined
  readonly #raw: IncomingMessage
  readonly #response: ServerResponse
  #left: AbortSignal | undefined
  #query: URLSearchParams | undefined
  #signal: AbortSignal | undefined

  constructor(
    raw: IncomingMessage,
    seen: Pick<HttpRequest, 'path' | 'params' | 'principal' | 'body'> & {
      readonly response: ServerResponse
      readonly trace: TraceContext
    },
  ) {
    this.#raw = raw
    this.#response = seen.response
    this.path = seen.path
    this.params = seen.params
    this.#trace = seen.trace
    this.principal = seen.principal
    this.body = seen.body
  }

  get traceId(): string {
    return this.#trace.traceId
  }

  adoptTrace(traceId: string): void {
    adoptTrace(this.#trace, traceId)
  }

  get traceparent(): string {
    return formatTraceparent(this.#trace)
  }

  /** Made for those who ask: most protocols let calls go on. */
  get left(): AbortSignal {
    this.#left ??= leavingOf(this.#response)
    return this.#left
  }

  get method(): string {
    return this.#raw.method ?? ''
  }

  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(queryOf(this.#raw.url ?? ''))
    return this.#query
  }

  get signal(): AbortSignal {
    this.#signal ??= endOf(this.#response)
    return this.#signal
  }

  get headers(): PlainHeaders {
    return plainHeaders(this.#raw.headers)
  }
}

function endOf(response: ServerResponse): AbortSignal {
  if (response.closed) return AbortSignal.abort()
  const end = new AbortController()
  response.once('close', () => end.abort())
  return end.signal
}

function leavingOf(response: ServerResponse): AbortSignal {
  const leaving = new AbortController()
  if (response.destroyed) leaving.abort()
  response.once('close', () => {
    if (!response.writableFinished) leaving.abort()
  })
  return leaving.signal
}

/** Node joins repeated headers, all but `set-cookie`, which no request has a use for. */
export function plainHeaders(headers: IncomingHttpHeaders): PlainHeaders {
  if (isPlain(headers)) return headers
  const { 'set-cookie': _unused, ...rest } = headers
  return isPlain(rest) ? rest : {}
}

function isPlain(headers: IncomingHttpHeaders): headers is Record<string, string | undefined> {
  return headers['set-cookie'] === undefined
}

export type PathParameters = Readonly<Record<string, string>>

const NO_PARAMETERS: PathParameters = Object.freeze({})

/**
 * A route's path, matched exactly: the router under us also accepts percent-encoded spellings of a path, and
 * two spellings of one resource are one too many for whoever guards it.
 */
export class RoutePath {
  readonly pattern: string
  /** `undefined` for a path without parameters. */
  readonly #segments: readonly string[] | undefined

  constructor(pattern: string) {
    this.pattern = pattern
    this.#segments = pattern.includes(':') ? pattern.split('/') : undefined
  }

  /** The decoded parameters, or `undefined` when the path is another one. */
  match(path: string): PathParameters | undefined {
    if (this.#segments === undefined) return path === this.pattern ? NO_PARAMETERS : undefined
    const given = path.split('/')
    if (given.length !== this.#segments.length) return undefined
    const parameters: Record<string, string> = {}
    for (const [place, wanted] of this.#segments.entries()) {
      const segment = given[place] ?? ''
      if (!wanted.startsWith(':')) {
        if (segment !== wanted) return undefined
      } else {
        const decoded = decode(segment)
        if (decoded === undefined || decoded === '') return undefined
        parameters[wanted.slice(1)] = decoded
      }
    }
    return parameters
  }
}

/** The part of a request target before its query. */
export function pathOf(target: string): string {
  const end = target.indexOf('?')
  return end === -1 ? target : target.slice(0, end)
}

/** The part after the path, with its question mark; empty when there is none. */
function queryOf(target: string): string {
  const start = target.indexOf('?')
  return start === -1 ? '' : target.slice(start)
}

function decode(segment: string): string | undefined {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
