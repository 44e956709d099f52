import { isIP } from 'node:net'
import type { RequestHeaders } from '#auth/authenticator'
import { portOf } from '#config/to-settings'
import { DEFAULT_PORTS } from '#egress/policy'
import { fault } from '#kernel/base/errors'
import { isLoopback } from '#server/safety'

export interface HostGuardOptions {
  /** What the server is bound to. */
  readonly host: string
  readonly port: number
  /** What it speaks. Default `http`. */
  readonly scheme?: 'http' | 'https'
  readonly publicUrl?: string | undefined
  readonly allowedOrigins: readonly string[]
}

const HOST = /^(\[[0-9a-f:.]+\]|[^:[\]/@]+)(?::([0-9]{1,5}))?$/

/**
 * Which requests are let in (rule 28). A web page can reach a loopback server through a name it controls (DNS
 * rebinding) or by a cross-site request; the browser says so, in `Host` and in `Origin`.
 *
 * Accepted hosts: `localhost`, 127.0.0.0/8 and `[::1]` with our own port, and the host of `publicUrl`. A server
 * bound to more than loopback is also reached by address, through whatever port was published, so it accepts
 * `localhost` and literal addresses with any port: nobody can rebind those. Any other name needs `publicUrl`.
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
      authoritiesOf(name, port, DEFAULT_PORTS[`${scheme}:`]),
    )
    const published =
      publicUrl === undefined
        ? []
        : authoritiesOf(publicUrl.hostname, portOf(publicUrl), defaultPortOf(publicUrl))
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

  /** Throws unless the request was meant for this server and comes from no foreign page. */
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
      'Pages of that Origin may not call this server. Add the origin to `server.allowedOrigins` if they should.',
    )
  }

  /** The origin to name in CORS headers: only one that the operator configured. */
  corsOrigin(origin: string | undefined): string | undefined {
    return origin !== undefined && this.#configuredOrigins.has(origin) ? origin : undefined
  }

  get hasCors(): boolean {
    return this.#configuredOrigins.size > 0
  }

  /** A page of this very server, reached by address. Under a name only the origin of `publicUrl` is ours. */
  #isOwnAddress(host: string, origin: string): boolean {
    const name = HOST.exec(host.toLowerCase())?.[1] ?? ''
    const isAddress = isLoopback(name) || isIP(name.replace(/^\[|\]$/g, '')) !== 0
    return isAddress && origin === `${this.#scheme}://${host}`
  }

  #isOurs(host: string): boolean {
    if (this.#hosts.has(host)) return true
    const match = HOST.exec(host)
    if (match === null) return false
    const [, name = '', portText] = match
    const isLocal = isLoopback(name)
    if (this.#isLoopbackOnly)
      return isLocal && Number(portText ?? DEFAULT_PORTS[`${this.#scheme}:`]) === this.#port
    return isLocal || isIP(name.replace(/^\[|\]$/g, '')) !== 0
  }
}

/** The spellings of one authority: browsers leave the default port out. */
function authoritiesOf(name: string, port: number, defaultPort: number): readonly string[] {
  return port === defaultPort ? [name, `${name}:${port}`] : [`${name}:${port}`]
}

function defaultPortOf({ protocol }: URL): number {
  return DEFAULT_PORTS[protocol === 'https:' ? 'https:' : 'http:']
}

/**
 * Requests that a proxy, a tunnel or a load balancer passed on (rule 28). A server without credentials trusts its callers because
 * they are on this machine. Behind a proxy it cannot know that: every request comes from the proxy's address. So it refuses what
 * says that it was passed on, whatever address is named there, because a chain of proxies can name this machine for a caller from
 * elsewhere. A proxy that adds none of these headers cannot be recognised.
 */
const PROXY_HEADER =
  /^(?:(?:x[-_])?forwarded(?:[-_]|$)|via$|cdn-loop$|cf-|tailscale-|x-(?:original|envoy|azure|appengine|arr)-)|(?:client|real|user|remote|originating|connecting)[-_]?(?:ip(?:v[46])?|addr(?:ess)?|port)$/

/** Throws when a proxy passed the request on. Only for servers that take callers without credentials. */
export function refuseForwarded(headers: RequestHeaders): void {
  for (const name in headers) {
    if (!PROXY_HEADER.test(name)) continue
    throw fault(
      'not_authorized',
      `This request came through a proxy (header ${name}), and this server has no credentials: it serves callers on its own machine only. Make a key with collet keys create and send it, or start the server with --allow-anonymous to let in everyone who reaches the proxy.`,
    )
  }
}
