import type { IncomingMessage } from 'node:http'
import { fault, ToolError } from '#core/errors'
import type { MaybePromise } from '#core/ports/store'
import { ANONYMOUS, type Principal } from '#core/principal'
import type { HttpReply } from '#protocols/http-exchange'
import { checkVisitor, closeExchange, type Exchange, type HttpServices } from './exchange.ts'
import { statusOf } from './http-fault.ts'
import { messageReply } from './message-reply.ts'
import { ACTING_AS } from './operator-access.ts'
import { readJsonBody } from './read-json-body.ts'
import { requestScope } from './request-scope.ts'
import { plainHeaders, RequestView } from './request-view.ts'
import type { PathParameters } from './route-path.ts'
import type { ServerRoute } from './server-route.ts'

/** The way of a request: front door, caller, body, route, reply (rule 1, T-12). */
export async function serveRequest(
  services: HttpServices,
  route: ServerRoute,
  params: PathParameters,
  exchange: Exchange,
): Promise<void> {
  let reply: HttpReply
  const held = services.bodies.open()
  try {
    checkVisitor(services, exchange)
    const caller = findPrincipal(services, route, exchange.raw)
    const principal = caller instanceof Promise ? await caller : caller
    // Operators have several credentials at hand, so they are told which one spoke.
    if (route.authenticate !== undefined)
      exchange.response.setHeader(ACTING_AS, encodeURIComponent(principal.id.toWellFormed()))
    const body =
      route.body === 'never'
        ? undefined
        : await readJsonBody(exchange.raw, services.bodyLimitBytes, held.of(principal))
    reply = await handle(route, exchange, viewOf(exchange, params, principal, body))
  } catch (error) {
    reply = refuse(services, route, params, exchange, error)
  }
  held.free()
  sendReply(services, exchange, reply)
}

/** A reply that cannot be written breaks the connection, so that nobody waits for it. */
export function sendReply(services: HttpServices, exchange: Exchange, reply: HttpReply): void {
  try {
    closeExchange(services, exchange, reply)
  } catch (err) {
    unexpected(services, exchange, err)
    exchange.response.destroy()
  }
}

/** A refusal in the route's own protocol. */
export function refuse(
  services: HttpServices,
  route: ServerRoute,
  params: PathParameters,
  exchange: Exchange,
  error: unknown,
): HttpReply {
  const shown = error instanceof ToolError ? error : unexpected(services, exchange, error)
  try {
    return route.refuse(viewOf(exchange, params, ANONYMOUS, undefined), shown, statusOf(shown))
  } catch (err) {
    unexpected(services, exchange, err)
    return messageReply(statusOf(shown), shown.message)
  }
}

/** Logged with its stack; the caller learns nothing but what to do next (T-20, T-26). */
export function unexpected(services: HttpServices, exchange: Exchange, err: unknown): ToolError {
  const { route, trace } = exchange
  services.log.error({ err, route, traceId: trace.traceId }, 'unexpected fault while answering a request')
  return fault(
    'internal',
    'The server had an unexpected fault. If this was a call to which you gave a call id, repeat it with the same call id: it will not run twice.',
  )
}

function findPrincipal(
  services: HttpServices,
  route: ServerRoute,
  raw: IncomingMessage,
): MaybePromise<Principal> {
  if (route.authenticate !== undefined) return route.authenticate(plainHeaders(raw.headers))
  if (route.access === 'open') return ANONYMOUS
  return services.authenticator.authenticate(plainHeaders(raw.headers))
}

function handle(route: ServerRoute, exchange: Exchange, view: RequestView): MaybePromise<HttpReply> {
  return exchange.scope === undefined
    ? route.handle(view)
    : requestScope.run(exchange.scope, () => route.handle(view))
}

function viewOf(
  exchange: Exchange,
  params: PathParameters,
  principal: Principal,
  body: RequestView['body'],
): RequestView {
  const { raw, response, path, trace } = exchange
  return new RequestView(raw, { response, path, params, trace, principal, body })
}
