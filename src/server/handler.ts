import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ColletConfig, ToolEntry } from '#config/config'
import { plannedUrl } from '#config/to-settings'
import { type ServeOptions, settingsOf } from './create-gateway.ts'
import { openExchange, withBody } from './http/fetch-exchange.ts'

/*
 * The server as a request handler for other frameworks, exported as `collet/http`. Applications mount it; it opens no port.
 * Invariant: it answers exactly as `collet serve` does.
 */

interface HandlerOptions extends ServeOptions {
  /** The path below which requests arrive, if the framework does not remove it. Default: the path of `server.publicUrl`. */
  readonly basePath?: string
}

/** The whole server without its own port. */
export interface Handler {
  /** For `node:http`, Express and Fastify. */
  readonly listener: (request: IncomingMessage, response: ServerResponse) => void
  /** For Hono, Next and other frameworks with `Request` and `Response`. */
  readonly fetch: (request: Request) => Promise<Response>
  /** Warnings that `collet serve` would print. */
  readonly warnings: readonly string[]
  /** Path of the file with the start token, which operator commands use. */
  readonly startTokenFile: string
  isReady(): boolean
  /** Refuses new calls; resolves when no call runs. */
  drain(): Promise<void>
  /** Refuses new calls, gives running calls ten seconds to finish, then closes everything. The caller handles signals. */
  close(): Promise<void>
}

/**
 * All routes of `collet serve`, to be mounted in another server. That server may have callers on other machines, so the config needs
 * `auth`, or the options need `allowAnonymous: true`. A host name in a request is accepted only if it is that of `server.publicUrl`.
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
  const basePath = options.basePath ?? new URL(mountedAt).pathname
  const base = `/${basePath}`.replaceAll(/\/+/g, '/').replace(/\/$/, '')
  return {
    listener(request, response) {
      // Express itself removes the path and sets `baseUrl`.
      const isStripped = 'baseUrl' in request && typeof request.baseUrl === 'string' && request.baseUrl !== ''
      if (!isStripped) request.url = withoutBase(request.url ?? '/', base)
      running.handle(withUnreadBody(request), response)
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
  'server.publicUrl is not set, so links for people (approvals, consents) use the host and port of the config. Set it to the URL at which the handler is mounted.'

function withoutBase(url: string, base: string): string {
  if (base === '' || !url.startsWith(base)) return url
  const rest = url.slice(base.length)
  if (rest === '' || rest.startsWith('?')) return `/${rest}`
  return rest.startsWith('/') ? rest : url
}

/**
 * A framework that reads bodies before its handlers (`express.json()`) leaves the parsed value in `body`. That value is serialised
 * again, and then read like any other body.
 */
function withUnreadBody(request: IncomingMessage): IncomingMessage {
  if (!request.readableEnded) return request
  const body: unknown = Reflect.get(request, 'body')
  // An empty body is invalid JSON, so the caller gets an error instead of waiting for a body that was consumed.
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
