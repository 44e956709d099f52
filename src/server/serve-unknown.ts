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

const NOTHING_HERE = 'There is nothing at this path.'
const MALFORMED_PATH =
  'The path is too long, or has a malformed percent-encoding; encode it as UTF-8, and "%" as "%25".'

/** 404 for a path that is not ours, 405 with `Allow` for a method that is not, and CORS preflights (T-26). */
export function serveUnknown(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): void {
  void serveOutside(services, exchange, () => answerUnknown(services, entries, exchange))
}

export function serveMalformedPath(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): void {
  void serveOutside(services, exchange, async () => {
    const { guard, refusal } = await passGuard(services, entries, exchange)
    if (refusal !== undefined) return refusal
    return guard === undefined
      ? messageReply(400, MALFORMED_PATH)
      : refuse(services, guard, {}, exchange, httpFault(400, MALFORMED_PATH))
  })
}

async function serveOutside(
  services: HttpServices,
  exchange: Exchange,
  answer: () => Promise<HttpReply>,
): Promise<void> {
  let reply: HttpReply
  try {
    checkVisitor(services, exchange)
    reply = await answer()
  } catch (error) {
    const shown = error instanceof ToolError ? error : unexpected(services, exchange, error)
    reply = messageReply(statusOf(shown), shown.message)
  }
  sendReply(services, exchange, reply)
}

async function answerUnknown(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): Promise<HttpReply> {
  const { raw, path } = exchange
  const here = entries.filter((entry) => entry.path.match(path) !== undefined)
  const allow = methodsOf(here)
  const isPreflight = raw.method === 'OPTIONS' && raw.headers['access-control-request-method'] !== undefined
  const [first] = here
  if (first !== undefined && isPreflight && services.frontDoor.corsOrigin(raw.headers.origin) !== undefined) {
    return preflightReply(allow)
  }
  const { guard, refusal } = await passGuard(services, entries, exchange)
  if (refusal !== undefined) return refusal
  if (first === undefined) {
    return guard === undefined
      ? messageReply(404, NOTHING_HERE)
      : refuse(services, guard, {}, exchange, httpFault(404, NOTHING_HERE))
  }
  const error = httpFault(405, `This path does not take ${raw.method}; use ${allow}.`)
  const reply = refuse(services, first.route, {}, exchange, error)
  return { ...reply, headers: { allow, ...reply.headers } }
}

interface Passed {
  /** The route that guards this path, if one does. */
  readonly guard: ServerRoute | undefined
  /** What a caller without a good credential gets to see, instead of what is here and what is not. */
  readonly refusal: HttpReply | undefined
}

async function passGuard(
  services: HttpServices,
  entries: readonly RouteEntry[],
  exchange: Exchange,
): Promise<Passed> {
  const { raw, path } = exchange
  const guard = entries.find(({ route: { guards } }) => isBelow(path, guards))?.route
  if (guard === undefined) return { guard, refusal: undefined }
  try {
    await services.authenticator.authenticate(plainHeaders(raw.headers))
    return { guard, refusal: undefined }
  } catch (error) {
    return { guard, refusal: refuse(services, guard, {}, exchange, error) }
  }
}

function isBelow(path: string, top: string | undefined): boolean {
  return top !== undefined && (path === top || path.startsWith(`${top}/`))
}

function methodsOf(entries: readonly RouteEntry[]): string {
  const methods = entries.flatMap(({ route }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method]))
  return [...new Set(methods)].sort().join(', ')
}
