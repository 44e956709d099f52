import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ColletConfig, ToolEntry } from '#config/config'
import { plannedUrl } from '#config/to-settings'
import { type ServeOptions, settingsOf } from './create-gateway.ts'
import { openExchange, withBody } from './http/fetch-exchange.ts'

interface HandlerOptions extends ServeOptions {
  /** The path below which requests arrive, where the framework leaves it on them. Default: the path of `server.publicUrl`. */
  readonly basePath?: string
}

/** The whole server without a port of its own. */
export interface Handler {
  /** For `node:http`, Express and Fastify. */
  readonly listener: (request: IncomingMessage, response: ServerResponse) => void
  /** For Hono, Next and everything else that speaks in `Request` and `Response`. */
  readonly fetch: (request: Request) => Promise<Response>
  /** What `collet serve` would print. */
  readonly warnings: readonly string[]
  /** The token that lets operators' commands in is in this file. */
  readonly startTokenFile: string
  isReady(): boolean
  /** Answers but takes no new calls; resolves when none runs any more. */
  drain(): Promise<void>
  /** Takes no new calls, lets running ones finish for ten seconds, closes everything. Signals are yours to handle. */
  close(): Promise<void>
}

/**
 * Everything that `collet serve` answers, to be mounted in a server of yours. Who can reach that server is not known here, so it needs
 * `auth`, or `allowAnonymous: true`; names other than addresses are answered when `server.publicUrl` has them.
 */
export async function createHandler<const Tools extends readonly ToolEntry[], Names extends string>(
  config: ColletConfig<Tools, Names>,
  options: HandlerOptions = {},
): Promise<Handler> {
  const settings = await settingsOf(config, options)
  const { startServer } = await import('./start-server.ts')
  const mountedAt = plannedUrl(settings.server)
  const { tls: _tls, ...server } = settings.server
  const running = await startServer(
    { ...settings, server: { ...server, host: '0.0.0.0' } },
    { allowAnonymous: options.allowAnonymous ?? false, mountedAt },
  )
  const base = baseOf(options.basePath ?? new URL(mountedAt).pathname)
  return {
    listener(request, response) {
      // Express takes the path off itself, and says so.
      const isTaken = 'baseUrl' in request && typeof request.baseUrl === 'string' && request.baseUrl !== ''
      if (!isTaken) request.url = withoutBase(request.url ?? '/', base)
      running.handle(unread(request), response)
    },
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const { raw, response, answered } = openExchange(request, withoutBase(`${pathname}${search}`, base))
      running.handle(raw, response)
      return await answered
    },
    warnings: [...(settings.server.publicUrl === undefined ? [NO_ADDRESS] : []), ...running.warnings],
    startTokenFile: running.startTokenFile,
    isReady: running.isReady,
    drain: running.drain,
    close: running.close,
  }
}

const NO_ADDRESS =
  'server.publicUrl is not set, so addresses for people (approvals, consents) lead to the host and port of the config. Set it to where the handler is mounted.'

function baseOf(path: string): string {
  return `/${path}`.replaceAll(/\/+/g, '/').replace(/\/$/, '')
}

function withoutBase(url: string, base: string): string {
  if (base === '' || !url.startsWith(base)) return url
  const rest = url.slice(base.length)
  if (rest === '' || rest.startsWith('?')) return `/${rest}`
  return rest.startsWith('/') ? rest : url
}

/**
 * A framework that reads bodies before its handlers (`express.json()`) leaves none to read, and what it made of it in `body`: it is written
 * out again, and then read as every other.
 */
function unread(request: IncomingMessage): IncomingMessage {
  if (!request.readableEnded) return request
  const body: unknown = Reflect.get(request, 'body')
  // Empty is no JSON: whoever sent a body is told so, instead of waiting for what nobody has any more.
  if (body === undefined) return withBody(request, Buffer.alloc(0))
  if (typeof body === 'string' || body instanceof Uint8Array) return withBody(request, Buffer.from(body))
  const isForm = request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') === true
  return withBody(request, Buffer.from(isForm ? formOf(body) : JSON.stringify(body)))
}

function formOf(body: unknown): string {
  const members = Object.entries(typeof body === 'object' && body !== null ? body : {})
  return new URLSearchParams(
    members.map(([name, value]): [string, string] => [name, String(value)]),
  ).toString()
}
