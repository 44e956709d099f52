import type { IncomingMessage, ServerResponse } from 'node:http'
import { fault, ToolError } from '#core/errors'
import type { MaybePromise } from '#core/ports/store'
import { ANONYMOUS, type Principal } from '#core/principal'
import type { HttpReply } from '#protocols/http-exchange'
import { ACTING_AS } from '#server/admin/access'
import { closeExchange, Exchange, type HttpServices, preflightReply, requestScope } from './exchange.ts'
import { type BodyShare, readJsonBody } from './read-body.ts'
import { httpFault, messageReply, statusOf } from './replies.ts'
import { allowedMethods, isWellEncoded, pathOf, type ServerRoute } from './router.ts'

/** The way of a request: route, host guard, caller, body, handler, reply (rule 1, OTC/T-12). Never rejects. */
export async function serveRequest(
  services: HttpServices,
  raw: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = pathOf(raw.url ?? '')
  const found = services.router.find(raw.method ?? '', path)
  const exchange = new Exchange(services, raw, response, path, found)
  const share = services.bodies.open()
  let reply: HttpReply
  try {
    checkClient(services, exchange)
    reply =
      found === undefined
        ? await answerUnknown(services, exchange)
        : await answer(services, found.route, exchange, share)
  } catch (error) {
    reply = refuse(services, found?.route ?? services.router.ownerOf(path), exchange, error)
  }
  share.free()
  send(services, exchange, reply)
}

async function answer(
  services: HttpServices,
  route: ServerRoute,
  exchange: Exchange,
  share: BodyShare,
): Promise<HttpReply> {
  const caller = findPrincipal(services, route, exchange)
  const principal = caller instanceof Promise ? await caller : caller
  exchange.principal = principal
  // Operators have several credentials at hand, so the answer says which one was used.
  if (route.authenticate !== undefined)
    exchange.response.setHeader(ACTING_AS, encodeURIComponent(principal.id.toWellFormed()))
  if (route.body === 'json') {
    const body = readJsonBody(exchange.raw, services.bodyLimitBytes, share.of(principal))
    exchange.body = body instanceof Promise ? await body : body
  }
  return exchange.scope === undefined
    ? route.handle(exchange)
    : requestScope.run(exchange.scope, () => route.handle(exchange))
}

/** `Host` and `Origin` (rule 28), then whatever the operator adds (OTC-114). Throws a fault. */
function checkClient(services: HttpServices, { raw, route, headers }: Exchange): void {
  services.hostGuard.check(headers.host, headers.origin)
  services.admit?.({ address: raw.socket.remoteAddress ?? '', route, headers })
}

function findPrincipal(
  services: HttpServices,
  route: ServerRoute,
  { headers }: Exchange,
): MaybePromise<Principal> {
  if (route.authenticate !== undefined) return route.authenticate(headers)
  return route.access === 'open' ? ANONYMOUS : services.authenticator.authenticate(headers)
}

/** 404 for a path that is not ours, 405 with `Allow` for a method that is not, and CORS preflights (OTC/T-26). */
async function answerUnknown(services: HttpServices, exchange: Exchange): Promise<HttpReply> {
  const { router, hostGuard, authenticator } = services
  const { method, path, headers } = exchange
  const here = router.at(path)
  const [first] = here
  const allow = allowedMethods(here)
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
  if (first !== undefined && isPreflight && hostGuard.corsOrigin(headers.origin) !== undefined)
    return preflightReply(allow)
  // Only a caller that the owner of the path knows learns what is here and what is not (OTS-48).
  if (router.ownerOf(path)?.access === 'authenticated') await authenticator.authenticate(headers)
  if (first === undefined)
    throw isWellEncoded(path) ? httpFault(404, 'There is nothing at this path.') : malformedPath()
  const error = httpFault(405, `This path does not take ${method}; use ${allow}.`)
  const reply = refuse(services, first, exchange, error)
  return { ...reply, headers: { allow, ...reply.headers } }
}

function malformedPath(): ToolError {
  return httpFault(400, 'The path has a malformed percent-encoding; encode it as UTF-8, and "%" as "%25".')
}

/** A refusal in the route's own protocol, or a plain one. */
function refuse(
  services: HttpServices,
  route: ServerRoute | undefined,
  exchange: Exchange,
  error: unknown,
): HttpReply {
  const shown = error instanceof ToolError ? error : unexpected(services, exchange, error)
  const status = statusOf(shown)
  try {
    if (route !== undefined) return route.refuse(exchange, shown, status)
  } catch (err) {
    unexpected(services, exchange, err)
  }
  return messageReply(status, shown.message)
}

/** A reply that cannot be written breaks the connection, so that its client does not wait for it. */
function send(services: HttpServices, exchange: Exchange, reply: HttpReply): void {
  try {
    closeExchange(services, exchange, reply)
  } catch (err) {
    unexpected(services, exchange, err)
    exchange.response.destroy()
  }
}

/** Logged with its stack; the caller learns nothing but what to do next (OTC/T-20, OTC/T-26). */
function unexpected(services: HttpServices, { route, trace }: Exchange, err: unknown): ToolError {
  services.log.error({ err, route, traceId: trace.traceId }, 'unexpected fault while answering a request')
  return fault(
    'internal',
    'The server had an unexpected fault. If this was a call to which you gave a call id, repeat it with the same call id: it will not run twice.',
  )
}
