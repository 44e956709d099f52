import { createHmac } from 'node:crypto'
import { fault, ToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import { ANONYMOUS, DEFAULT_TENANT, type Principal } from '#core/principal'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import type { VectorRequest, VectorResponse } from './otc-vectors.ts'
import { JWT_AUDIENCE, JWT_SECRET } from './vector-jwt.ts'

const API_KEYS: Readonly<Record<string, string>> = { 'k-alice': 'key:alice', 'k-bob': 'key:bob' }

export interface RouteServerOptions {
  readonly apiKeys?: boolean
  readonly jwt?: boolean
  /** Sees every answer together with the route that gave it. */
  readonly onAnswer?: (route: HttpRoute, response: VectorResponse) => void
}

/** The front of a server without sockets: finds the route, checks the credential, reads the body. */
export function routeSend(
  routes: readonly HttpRoute[],
  options: RouteServerOptions = {},
): (request: VectorRequest) => Promise<VectorResponse> {
  return async (sent) => {
    const url = new URL(sent.path, 'http://127.0.0.1:4100')
    const route = routes.find(
      ({ method, path }) => method === sent.method && pathParameters(path, url.pathname) !== undefined,
    )
    if (route === undefined) return { status: 404, headers: {}, text: '{"message":"No such route."}' }
    const exchange = {
      method: sent.method,
      path: url.pathname,
      query: url.searchParams,
      headers: Object.fromEntries(
        Object.entries(sent.headers).map(([name, value]) => [name.toLowerCase(), value]),
      ),
      params: pathParameters(route.path, url.pathname) ?? {},
      traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    }
    const response = textOf(await answer(route, exchange, sent.body, options))
    options.onAnswer?.(route, response)
    return response
  }
}

async function answer(
  route: HttpRoute,
  exchange: Omit<HttpRequest, 'body' | 'principal'>,
  text: string | undefined,
  options: RouteServerOptions,
): Promise<HttpReply> {
  try {
    const principal = route.access === 'open' ? ANONYMOUS : authenticate(exchange.headers, options)
    const body = route.body === 'never' ? undefined : readBody(text)
    return await route.handle({ ...exchange, principal, body })
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    return route.refuse(exchange, error, error.code === 'unauthenticated' ? 401 : 400)
  }
}

function readBody(text: string | undefined): JsonValue | undefined {
  if (text === undefined || text === '') return undefined
  try {
    return JSON.parse(text)
  } catch {
    throw fault('request_invalid', 'The body is not valid JSON.')
  }
}

function authenticate(headers: HttpRequest['headers'], { apiKeys, jwt }: RouteServerOptions): Principal {
  if (!apiKeys && !jwt) return ANONYMOUS
  const bearer = headers.authorization?.replace(/^Bearer /, '')
  const key = bearer ?? headers['oxp-api-key'] ?? headers['otc-api-key'] ?? headers['x-api-key'] ?? ''
  const id =
    (apiKeys ? API_KEYS[key] : undefined) ?? (jwt && bearer !== undefined ? jwtPrincipal(bearer) : undefined)
  if (id === undefined) throw fault('unauthenticated', 'Send a valid API key or token.')
  return { id, tenant: DEFAULT_TENANT, scopes: [] }
}

function jwtPrincipal(token: string): string | undefined {
  const [header = '', payload = '', signature] = token.split('.')
  if (Buffer.from(header, 'base64url').toString() !== '{"alg":"HS256","typ":"JWT"}') return undefined
  const expected = createHmac('sha256', JWT_SECRET).update(`${header}.${payload}`).digest('base64url')
  if (signature !== expected) return undefined
  const { exp, aud, sub } = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const leftSeconds = Number(exp) - Date.now() / 1_000
  const isTimely = leftSeconds > 0 && leftSeconds <= 960
  return isTimely && (aud === undefined || aud === JWT_AUDIENCE) ? `jwt:#${sub}` : undefined
}

function pathParameters(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split('/')
  const given = path.split('/')
  if (wanted.length !== given.length) return undefined
  const parameters: Record<string, string> = {}
  for (const [place, segment] of wanted.entries()) {
    const actual = given[place] ?? ''
    if (segment.startsWith(':')) parameters[segment.slice(1)] = decodeURIComponent(actual)
    else if (segment !== actual) return undefined
  }
  return parameters
}

function textOf({ status, headers, body }: HttpReply): VectorResponse {
  if (typeof body === 'function') throw new Error('a streamed reply needs a real server')
  return { status, headers, text: typeof body === 'string' ? body : Buffer.from(body ?? []).toString('utf8') }
}
