import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { JsonValue } from '#core/json'
import type { Principal } from '#core/principal'
import type { HttpRequest } from '#protocols/http-exchange'
import type { PathParameters } from './route-path.ts'

type PlainHeaders = HttpRequest['headers']

/** What a protocol sees of a request. Query and headers are made only when somebody looks. */
export class RequestView implements HttpRequest {
  readonly path: string
  readonly params: PathParameters
  readonly traceId: string
  readonly principal: Principal
  readonly body: JsonValue | undefined
  readonly #raw: IncomingMessage
  #query: URLSearchParams | undefined

  constructor(
    raw: IncomingMessage,
    seen: Pick<HttpRequest, 'path' | 'params' | 'traceId' | 'principal' | 'body'>,
  ) {
    this.#raw = raw
    this.path = seen.path
    this.params = seen.params
    this.traceId = seen.traceId
    this.principal = seen.principal
    this.body = seen.body
  }

  get method(): string {
    return this.#raw.method ?? ''
  }

  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams((this.#raw.url ?? '').slice(this.path.length))
    return this.#query
  }

  get headers(): PlainHeaders {
    return plainHeaders(this.#raw.headers)
  }
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
