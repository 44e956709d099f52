import { connect, isIP, isIPv6, type LookupFunction, type Socket } from 'node:net'
import { connect as secure } from 'node:tls'
import { Agent, buildConnector, type Dispatcher } from 'undici'
import { isSameAddress, parseAddress } from './addresses.ts'
import type { PlainExchange } from './plain-exchange.ts'
import {
  type CheckedTarget,
  denied,
  describeRefusal,
  type EgressRules,
  findRefusal,
  hostNameOf,
  NotConnected,
} from './policy.ts'

/**
 * Connections of one egress policy, built on undici. `guarded-fetch.ts` loads this module with the first request.
 * Invariant: a connection is made only to an address that was checked for this request, and is never shared between policies.
 */

const MAX_CONNECT_MS = 10_000

export class EgressAgent {
  readonly #rules: EgressRules
  readonly #agent: Agent
  /** The targets of running requests, by host and port. No connection is made to any other target. */
  readonly #pins = new Map<string, { target: CheckedTarget; users: number }>()

  constructor(rules: EgressRules) {
    this.#rules = rules
    this.#agent = new Agent({
      connect: (options, callback) => this.#connect(options, callback),
      // HTTP/2 is off, because an HTTP/2 client may send a request again. The request's own deadline ends all waits.
      allowH2: false,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
    })
  }

  async request(target: CheckedTarget, options: Parameters<Agent['request']>[0]) {
    const unpin = this.#pin(target)
    try {
      return await this.#agent.request(options)
    } finally {
      unpin()
    }
  }

  /** Like `request`, but the exchange receives the answer as it arrives. */
  dispatch(target: CheckedTarget, options: Dispatcher.DispatchOptions, exchange: PlainExchange): void {
    exchange.onConnected(this.#pin(target))
    this.#agent.dispatch(options, exchange)
  }

  /** Permits connections to the target until the returned function is called. */
  #pin(target: CheckedTarget): () => void {
    const key = pinKey(target.host, target.port)
    const pin = this.#pins.get(key) ?? { target, users: 0 }
    pin.target = target
    pin.users += 1
    this.#pins.set(key, pin)
    return () => {
      pin.users -= 1
      if (pin.users === 0) this.#pins.delete(key)
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  /** Checks the target again, because this server may have opened a listener after the first check. */
  #connect(options: buildConnector.Options, callback: buildConnector.Callback): void {
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80)
    const pin = this.#pins.get(pinKey(hostNameOf(options.hostname), port))
    if (pin === undefined) {
      callback(denied('A connection was requested without a check.'), null)
      return
    }
    const { target } = pin
    const refusal = target.addresses.flatMap((address) => findRefusal(address, target, this.#rules) ?? [])[0]
    if (refusal !== undefined) {
      callback(denied(describeRefusal(target, refusal)), null)
      return
    }
    const connect = buildConnector({
      allowH2: false,
      timeout: Math.min(MAX_CONNECT_MS, this.#rules.timeoutMs),
      autoSelectFamily: true,
      lookup: pinnedLookup(target.addresses),
    })
    connect(options, (error, socket) => {
      if (error !== null) {
        callback(new NotConnected(error), null)
      } else if (isOneOf(socket.remoteAddress, target.addresses)) {
        callback(null, socket)
      } else {
        socket.destroy()
        callback(denied('The connection went to an address that was not checked.'), null)
      }
    })
  }
}

/** For diagnosis: connects to a checked target and reports the open port and the certificate. Sends no request. */
export async function* reachTarget(
  url: URL,
  { host, addresses, port }: CheckedTarget,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const [address = ''] = addresses
  const socket = connect({ host: address, port })
  const disconnect = (): void => void socket.destroy()
  signal.addEventListener('abort', disconnect)
  try {
    await waitFor(socket, 'connect')
    yield `Port ${port} of ${address} is open`
    if (url.protocol !== 'https:') return
    // TLS has no server name for a literal address; the certificate is checked against `host`.
    const tls = secure({ socket, host, ...(isIP(host) === 0 ? { servername: host } : {}) })
    await waitFor(tls, 'secureConnect')
    yield `The certificate is valid until ${new Date(tls.getPeerCertificate().valid_to).toISOString().slice(0, 10)}`
  } finally {
    signal.removeEventListener('abort', disconnect)
    socket.destroy()
  }
}

function waitFor(socket: Socket, event: 'connect' | 'secureConnect'): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once(event, resolve)
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
    socket.setTimeout(MAX_CONNECT_MS, () => socket.destroy(new Error('no answer within 10 s')))
  })
}

function pinKey(host: string, port: number): string {
  return `${host} ${port}`
}

/** Resolves to the checked addresses, even if DNS has changed since. Node does not call it for literal addresses. */
function pinnedLookup(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
  return (_hostname, options, callback) => {
    const [first] = found
    if (options.all === true) callback(null, found)
    else callback(null, first?.address ?? '', first?.family)
  }
}

function isOneOf(remote: string | undefined, addresses: readonly string[]): boolean {
  const reached = parseAddress(remote ?? '')
  const checked = addresses.flatMap((address) => parseAddress(address) ?? [])
  return reached !== undefined && checked.some((address) => isSameAddress(address, reached))
}
