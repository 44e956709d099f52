/**
 * Asks the admin routes of this process without a listener, as a client over HTTP would ask a server. `collet` uses it where no server
 * runs and the store is open here. Refusals are thrown, with the same words.
 */
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { HttpReply } from '#protocols/http-exchange'
import { httpFault } from '#server/http/exchange'
import { Router, type ServerRoute } from '#server/http/router'

/** One request to an admin route. */
export interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** With its query. */
  readonly path: string
  readonly body?: JsonObject
  /** It changes nothing, though it is no GET: what it asks about does not belong into an address. */
  readonly isQuestion?: true
  /** It leaves a trace in the journal, though it is a GET. */
  readonly isJournaled?: true
}

export async function callInProcess(routes: readonly ServerRoute[], asked: AdminRequest): Promise<JsonValue> {
  const body = await replyBody(routes, asked)
  return JSON.parse(body instanceof Uint8Array ? new TextDecoder().decode(body) : String(body))
}

/** For an answer that comes piece by piece, until `ended` is aborted. */
export async function streamInProcess(
  routes: readonly ServerRoute[],
  asked: AdminRequest,
  ended: AbortSignal,
): Promise<AsyncIterable<string>> {
  const body = await replyBody(routes, asked)
  if (typeof body === 'function') return body(ended)
  throw httpFault(404, 'There is no stream at this path.')
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
  const request = { method, path, query, params, principal, body, headers: {}, traceId: '' }
  return (await route.handle(request)).body
}
