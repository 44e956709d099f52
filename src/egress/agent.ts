import { connect, isIPv6, type LookupFunction, type Socket } from 'node:net'
import { connect as secure } from 'node:tls'
import { Agent, buildConnector } from 'undici'
import { isSameAddress, parseAddress } from './addresses.ts'
import {
  type CheckedTarget,
  denied,
  describeRefusal,
  type EgressRules,
  findRefusal,
  hostNameOf,
  NotConnected,
} from './policy.ts'

const MAX_CONNECT_MS = 10_000

/** Connections of one policy. They are made to checked addresses only, and no other policy can use them. */
export class EgressAgent {
  readonly #rules: EgressRules
  readonly #agent: Agent
  /** What may be connected to now, by host and port; nothing else can be. */
  readonly #pins = new Map<string, { target: CheckedTarget; users: number }>()

  constructor(rules: EgressRules) {
    this.#rules = rules
    this.#agent = new Agent({
      connect: (options, callback) => this.#connect(options, callback),
      // Requests of HTTP/2 may be sent again by the transport, and waits are ended by our own deadline.
      allowH2: false,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
    })
  }

  /** Sends one request, once. */
  async request(target: CheckedTarget, options: Parameters<Agent['request']>[0]) {
    const key = pinKey(target.host, target.port)
    const pin = this.#pins.get(key) ?? { target, users: 0 }
    pin.target = target
    pin.users += 1
    this.#pins.set(key, pin)
    try {
      return await this.#agent.request(options)
    } finally {
      pin.users -= 1
      if (pin.users === 0) this.#pins.delete(key)
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  /** The second check: between the first and now, time has passed and listeners may have come. */
  #connect(options: buildConnector.Options, callback: buildConnector.Callback): void {
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80)
    const pin = this.#pins.get(pinKey(hostNameOf(options.hostname), port))
    if (pin === undefined) {
      callback(denied('A connection was asked for without a check.'), null)
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
        callback(denied('The connection went to another address than the one checked.'), null)
      }
    })
  }
}

/**
 * The way to a server, one step after the other, for a person who wants to know where it ends: the name, the connection, and the
 * certificate. Guarded like a request; nothing is sent.
 */
export async function* reachTarget(
  url: URL,
  { addresses, port }: CheckedTarget,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const [address = ''] = addresses
  const socket = connect({ host: address, port })
  const leave = (): void => void socket.destroy()
  signal.addEventListener('abort', leave)
  try {
    await happens(socket, 'connect')
    yield `Port ${port} of ${address} is open`
    if (url.protocol !== 'https:') return
    const servername =
      isIPv6(url.hostname) || parseAddress(url.hostname) !== undefined ? {} : { servername: url.hostname }
    const tls = secure({ socket, ...servername })
    await happens(tls, 'secureConnect')
    yield `The certificate is good until ${new Date(tls.getPeerCertificate().valid_to).toISOString().slice(0, 10)}`
  } finally {
    signal.removeEventListener('abort', leave)
    socket.destroy()
  }
}

function happens(socket: Socket, event: 'connect' | 'secureConnect'): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once(event, resolve)
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
    socket.setTimeout(MAX_CONNECT_MS, () => socket.destroy(new Error('no answer in 10 s')))
  })
}

function pinKey(host: string, port: number): string {
  return `${host} ${port}`
}

/** Answers with the checked addresses, whatever the name system says by now. Not asked for literal addresses. */
function pinnedLookup(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
  return (_hostname, options, callback) => {
    const [first] = found
    if (options.all === true) callback(null, found)
    else callback(null, first?.address ?? '', first?.family)
  }
}

function isOneOf(remote: string | undefined, addresses: readonly string[]): boolean {
  const bytes = parseAddress(remote ?? '')
  return (
    bytes !== undefined &&
    addresses.some((address) => {
      const checked = parseAddress(address)
      return checked !== undefined && isSameAddress(checked, bytes)
    })
  )
}
