import { ToolError } from '#core/errors'
import type { HttpReply } from '#protocols/http-exchange'
import { preflightReply } from './cors.ts'
import { checkVisitor, closeExchange, type Exchange, type HttpServices } from './exchange.ts'
import { httpFault, statusOf } from './http-fault.ts'
import { messageReply } from './message-reply.ts'
import type { RoutePath } from './route-path.ts'
import { refuse, unexpected } from './serve-request.ts'
import type { ServerRoute } from './server-route.ts'

export interface RouteEntry {
  readonly route: ServerRoute
  readonly path: RoutePath
}

const MALFORMED_PATH = 'The path has a malformed percent-encoding; encode it as UTF-8, and "%" as "%25".'

/** 404 for a path that is not ours, 405 with `Allow` for a method that is not, and CORS preflights (T-26). */
export function serveUnknown(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): void {
  serveOutside(services, entries, exchange, () => answerUnknown(services, entries, exchange))
}

export function serveMalformedPath(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): void {
  serveOutside(services, entries, exchange, () => {
    throw httpFault(400, MALFORMED_PATH)
  })
}

function serveOutside(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
  answer: () => HttpReply,
): void {
  let reply: HttpReply
  try {
    checkVisitor(services, exchange)
    reply = answer()
  } catch (error) {
    reply = refuseOutside(services, entries, exchange, error)
  }
  closeExchange(services, exchange, reply)
}

/** In the shape of the protocol that owns the path, or plain. */
function refuseOutside(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
  error: unknown,
): HttpReply {
  const owner = entries.find(({ route }) => route.owns !== undefined && isBelow(route.owns, exchange.path))
  if (owner !== undefined) return refuse(services, owner.route, {}, exchange, error)
  const shown = error instanceof ToolError ? error : unexpected(services, exchange, error)
  return messageReply(statusOf(shown), shown.message)
}

function isBelow(owned: string, path: string): boolean {
  return path === owned || path.startsWith(`${owned}/`)
}

function answerUnknown(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): HttpReply {
  const { raw, path } = exchange
  const here = entries.filter((entry) => entry.path.match(path) !== undefined)
  const [first] = here
  if (first === undefined) throw httpFault(404, 'There is nothing at this path.')
  const allow = methodsOf(here)
  const isPreflight = raw.method === 'OPTIONS' && raw.headers['access-control-request-method'] !== undefined
  if (isPreflight && services.frontDoor.corsOrigin(raw.headers.origin) !== undefined)
    return preflightReply(allow)
  const error = httpFault(405, `This path does not take ${raw.method}; use ${allow}.`)
  const reply = refuse(services, first.route, {}, exchange, error)
  return { ...reply, headers: { ...reply.headers, allow } }
}

function methodsOf(entries: readonly RouteEntry[]): string {
  const methods = entries.flatMap(({ route }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method]))
  return [...new Set(methods)].sort().join(', ')
}
