import { ToolError } from '#core/errors'
import type { HttpReply } from '#protocols/http-exchange'
import { preflightReply } from './cors.ts'
import { checkVisitor, type Exchange, type HttpServices } from './exchange.ts'
import { httpFault, statusOf } from './http-fault.ts'
import { messageReply } from './message-reply.ts'
import { plainHeaders } from './request-view.ts'
import type { RoutePath } from './route-path.ts'
import { refuse, sendReply, unexpected } from './serve-request.ts'
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
  void serveOutside(services, entries, exchange, () => answerUnknown(services, entries, exchange))
}

export function serveMalformedPath(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): void {
  void serveOutside(services, entries, exchange, async () => {
    await checkOwner(services, entries, exchange)
    throw httpFault(400, MALFORMED_PATH)
  })
}

async function serveOutside(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
  answer: () => Promise<HttpReply>,
): Promise<void> {
  let reply: HttpReply
  try {
    checkVisitor(services, exchange)
    reply = await answer()
  } catch (error) {
    reply = refuseOutside(services, entries, exchange, error)
  }
  sendReply(services, exchange, reply)
}

/** In the shape of the protocol that owns the path, or plain. */
function refuseOutside(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
  error: unknown,
): HttpReply {
  const owner = findOwner(entries, exchange)
  if (owner !== undefined) return refuse(services, owner, {}, exchange, error)
  const shown = error instanceof ToolError ? error : unexpected(services, exchange, error)
  return messageReply(statusOf(shown), shown.message)
}

async function answerUnknown(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): Promise<HttpReply> {
  const { raw, path } = exchange
  const here = entries.filter((entry) => entry.path.match(path) !== undefined)
  const [first] = here
  const allow = methodsOf(here)
  const isPreflight = raw.method === 'OPTIONS' && raw.headers['access-control-request-method'] !== undefined
  if (first !== undefined && isPreflight && services.frontDoor.corsOrigin(raw.headers.origin) !== undefined)
    return preflightReply(allow)
  await checkOwner(services, entries, exchange)
  if (first === undefined) throw httpFault(404, 'There is nothing at this path.')
  const error = httpFault(405, `This path does not take ${raw.method}; use ${allow}.`)
  const reply = refuse(services, first.route, {}, exchange, error)
  return { ...reply, headers: { allow, ...reply.headers } }
}

/** Throws unless the caller may know what is here and what is not (OTS-48). */
async function checkOwner(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): Promise<void> {
  if (findOwner(entries, exchange)?.access !== 'authenticated') return
  await services.authenticator.authenticate(plainHeaders(exchange.raw.headers))
}

function findOwner(entries: readonly RouteEntry[], { path }: Exchange): ServerRoute | undefined {
  return entries.find(({ route: { owns } }) => owns !== undefined && isBelow(owns, path))?.route
}

function isBelow(owned: string, path: string): boolean {
  return path === owned || path.startsWith(`${owned}/`)
}

function methodsOf(entries: readonly RouteEntry[]): string {
  const methods = entries.flatMap(({ route }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method]))
  return [...new Set(methods)].sort().join(', ')
}
