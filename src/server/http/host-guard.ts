/**
 * The addresses of a server: where callers reach it, and which `Host` and `Origin` headers it accepts (rule 28). The composition
 * root opens one `ServerAddress`; `http/app.ts` checks every request with a `HostGuard`.
 */

import { isIP } from 'node:net'
import type { RequestHeaders } from '#auth/authenticator'
import { portOf } from '#config/to-settings'
import { DEFAULT_PORTS, type Listener } from '#egress/policy'
import { fault } from '#kernel/base/errors'
import { isLoopback } from '#server/safety'

/** Where a server is reached, known once it listens. */
export class ServerAddress {
  readonly #publicUrl: string | undefined
  /** URL of the listener of this process. */
  url = ''
  /** Addresses that this process listens on: no tool may reach them (rule 33). */
  readonly listeners: Listener[] = []
  /** URL of the separate listener for `/metrics`, if there is one. */
  metricsUrl: string | undefined
  hasConsole: () => boolean = () => false

  constructor({ publicUrl }: { readonly publicUrl?: string | undefined }) {
    this.#publicUrl = publicUrl
  }

  /** Base of the URLs that the server hands out, which is never taken from a request (OTC/T-16). */
  readonly publicUrl = (): string => this.#publicUrl ?? this.url

  readonly consoleUrl = (): string | undefined =>
    this.hasConsole() ? `${this.publicUrl()}/console` : undefined

  /** Called once the listener of the server, bound to `host`, has this URL. */
  listenAt(url: string, host: string): void {
    this.url = url
    this.listeners.push({ host, port: portOf(new URL(url)) })
  }
}

export interface HostGuardOptions {
  /** The address that the server is bound to. */
  readonly host: string
  readonly port: number
  /** Default `http`. */
  readonly scheme?: 'http' | 'https'
  readonly publicUrl?: string | undefined
  readonly allowedOrigins: readonly string[]
}

const HOST = /^(\[[0-9a-f:.]+\]|[^:[\]/@]+)(?::([0-9]{1,5}))?$/

/**
 * Accepts or refuses requests by their `Host` and `Origin` (rule 28). A web page can reach a loopback server through a name it
 * controls (DNS rebinding) or by a cross-site request; these headers of the browser reveal both.
 *
 * Accepted hosts: `localhost`, 127.0.0.0/8 and `[::1]` with the server's port, and the host of `publicUrl`. A server
 * bound to more than loopback is also reached by address, through any published port, so it accepts
 * `localhost` and literal addresses with any port, because addresses cannot be rebound. Any other name needs `publicUrl`.
 */
export class HostGuard {
  readonly #scheme: 'http' | 'https'
  readonly #port: number
  readonly #isLoopbackOnly: boolean
  readonly #hosts: ReadonlySet<string>
  readonly #origins: ReadonlySet<string>
  readonly #configuredOrigins: ReadonlySet<string>

  constructor(options: HostGuardOptions) {
    const { port, scheme = 'http' } = options
    const publicUrl = options.publicUrl === undefined ? undefined : new URL(options.publicUrl)
    const loopback = ['localhost', '127.0.0.1', '[::1]'].flatMap((name) =>
      authoritiesOf(new URL(`${scheme}://${name}:${port}`)),
    )
    const published = publicUrl === undefined ? [] : authoritiesOf(publicUrl)
    this.#scheme = scheme
    this.#port = port
    this.#isLoopbackOnly = isLoopback(options.host)
    this.#hosts = new Set([...loopback, ...published])
    this.#configuredOrigins = new Set(options.allowedOrigins)
    this.#origins = new Set([
      ...loopback.map((host) => `${scheme}://${host}`),
      ...(publicUrl === undefined ? [] : [publicUrl.origin]),
      ...options.allowedOrigins,
    ])
  }

  /** Throws unless the request names this server and does not come from a foreign page. */
  check(host: string | undefined, origin: string | undefined): void {
    if (host === undefined || host === '') throw fault('request_invalid', 'The request has no Host header.')
    if (!this.#hosts.has(host) && !this.#isOurs(host.toLowerCase())) {
      throw fault(
        'not_authorized',
        'This server does not answer for that Host. Use the address it printed at start, or set `server.publicUrl` to the URL that callers use.',
      )
    }
    if (origin === undefined || this.#origins.has(origin) || this.#isOwnAddress(host, origin)) return
    throw fault(
      'not_authorized',
      'Pages from that Origin may not call this server. Add the origin to `server.allowedOrigins` if they should.',
    )
  }

  /** The origin for CORS headers; `undefined` if the operator did not configure it. */
  corsOrigin(origin: string | undefined): string | undefined {
    return origin !== undefined && this.#configuredOrigins.has(origin) ? origin : undefined
  }

  get hasCors(): boolean {
    return this.#configuredOrigins.size > 0
  }

  /** Whether the origin is this server, reached by address. An origin with a host name counts only if it is that of `publicUrl`. */
  #isOwnAddress(host: string, origin: string): boolean {
    const name = HOST.exec(host.toLowerCase())?.[1] ?? ''
    return isAddress(name) && origin === `${this.#scheme}://${host}`
  }

  #isOurs(host: string): boolean {
    if (this.#hosts.has(host)) return true
    const match = HOST.exec(host)
    if (match === null) return false
    const [, name = '', portText] = match
    if (!this.#isLoopbackOnly) return isAddress(name)
    return isLoopback(name) && Number(portText ?? DEFAULT_PORTS[`${this.#scheme}:`]) === this.#port
  }
}

/** Spellings of one authority: browsers omit the default port. */
function authoritiesOf(url: URL): readonly string[] {
  return [url.host, `${url.hostname}:${portOf(url)}`]
}

/** True for an IP address or `localhost`. */
function isAddress(name: string): boolean {
  return isLoopback(name) || isIP(name.replace(/^\[|\]$/g, '')) !== 0
}

/**
 * Headers of requests that a proxy, a tunnel or a load balancer forwarded (rule 28). A server without credentials trusts its
 * callers because they are on this machine. Behind a proxy every request comes from the address of the proxy, so forwarded requests are
 * refused, even if they name this machine as their origin: a chain of proxies can do so for a remote caller. A proxy that adds none
 * of these headers cannot be recognised.
 */
const PROXY_HEADER =
  /^(?:(?:x[-_])?forwarded(?:[-_]|$)|via$|cdn-loop$|cf-|tailscale-|x-(?:original|envoy|azure|appengine|arr)-)|(?:client|real|user|remote|originating|connecting)[-_]?(?:ip(?:v[46])?|addr(?:ess)?|port)$/

/** Throws if a proxy forwarded the request. Used only by servers whose callers need no credential. */
export function refuseForwarded(headers: RequestHeaders): void {
  for (const name in headers) {
    if (!PROXY_HEADER.test(name)) continue
    throw fault(
      'not_authorized',
      `This request came through a proxy (header ${name}), and this server has no credentials: it serves callers on its own machine only. Make a key with collet keys create and send it, or start the server with --allow-anonymous to let in everyone who reaches the proxy.`,
    )
  }
}
