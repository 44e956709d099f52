/**
 * Calls the admin routes in this process without a listener, as an HTTP client would call a server. `collet` uses it if no server
 * runs and this process has the store open. Refusals are thrown, with the messages of the HTTP replies.
 */
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { HttpReply } from '#protocols/http-exchange'
import { httpFault } from '#server/http/exchange'
import { Router, type ServerRoute } from '#server/http/router'

export interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** The path with its query. */
  readonly path: string
  readonly body?: JsonObject
  /** The request changes nothing; it is not a GET only because its arguments do not belong in a URL. */
  readonly isReadOnly?: true
  /** The request is recorded in the journal although it is a GET. */
  readonly isJournaled?: true
}

export async function callInProcess(
  routes: readonly ServerRoute[],
  request: AdminRequest,
): Promise<JsonValue> {
  const body = await replyBody(routes, request)
  return JSON.parse(body instanceof Uint8Array ? new TextDecoder().decode(body) : String(body))
}

/** Returns the chunks of a streamed reply; the stream ends when `ended` is aborted. */
export async function streamInProcess(
  routes: readonly ServerRoute[],
  request: AdminRequest,
  ended: AbortSignal,
): Promise<AsyncIterable<string>> {
  const body = await replyBody(routes, request)
  if (typeof body === 'function') return body(ended)
  throw httpFault(404, 'This path has no stream.')
}

async function replyBody(
  routes: readonly ServerRoute[],
  { method, path: target, body }: AdminRequest,
): Promise<HttpReply['body']> {
  const [path = '', search] = target.split('?')
  const found = new Router(routes).find(method, path)
  const principal = await found?.route.authenticate?.({})
  if (found === undefined || principal === undefined) throw httpFault(404, 'There is nothing at this path.')
  const { route, params } = found
  const query = new URLSearchParams(search)
  const exchange = { method, path, query, params, principal, body, headers: {}, traceId: '' }
  return (await route.handle(exchange)).body
}
