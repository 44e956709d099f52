import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { JsonValue } from '#core/json'
import type { Principal } from '#core/principal'
import type { HttpRequest } from '#protocols/http-exchange'
import { type PathParameters, queryOf } from './route-path.ts'
import { adoptTrace, formatTraceparent, type TraceContext } from './trace-context.ts'

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
