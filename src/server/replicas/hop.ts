import { createSecretKey, type KeyObject } from 'node:crypto'
import type { ClientRequest } from 'node:http'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { makePrincipal } from '#kernel/base/principal'
import type { CallRequest } from '#kernel/call/call'
import type { RunningGateway } from '#stages/open-gateway'
import { type Hop, HopError } from '#stages/sessions/forward'
import type { SessionHolder } from '#stages/sessions/sessions'
import { FrameReader, FrameWriter, newTicket, writeTicket } from './frames.ts'
import { type HopListener, openHopListener } from './listener.ts'
import { type FromHolder, HOP_PATH, type ToHolder, toSent } from './messages.ts'

/*
 * Forwards calls of sessions to the replica that holds them. The session stage uses it; `listener.ts` is the other end.
 * Invariant: a call that may have begun elsewhere is never sent a second time.
 */

/** Loaded without an `import`, which would load more: see `server/http/node-http.ts`. */
const { request: openRequest } = process.getBuiltinModule('node:http')

const CONNECT_MS = 2_000
const HEARTBEAT_MS = 3_000
/** A replica that misses this many heartbeats counts as gone. */
const MAX_MISSED_HEARTBEATS = 3
/** Maximum growth of a body in JSON, where a character takes up to six bytes. */
const MAX_GROWTH = 6
/** Maximum bytes of a frame in addition to the body. */
const OVERHEAD_BYTES = 262_144

/** Default address of the listener for other replicas: reachable only from this machine. */
const DEFAULT_INTERNAL = { host: '127.0.0.1', port: 0, url: undefined }

export interface ReplicaHop extends Hop {
  /** Starts accepting and forwarding calls. */
  open(gateway: RunningGateway): Promise<HopListener>
}

/** Both ends of forwarding between replicas; used if several replicas can share one store. */
export function createReplicaHop(options: {
  readonly settings: Settings['server']
  readonly maxResultBytes: number
  /** Interval of heartbeats during a call, equal on all replicas. Default 3 s. */
  readonly heartbeatMs?: number
  readonly clock: Clock
  readonly log: Logger
}): ReplicaHop {
  const { settings, maxResultBytes, heartbeatMs = HEARTBEAT_MS, clock, log } = options
  const silenceMs = MAX_MISSED_HEARTBEATS * heartbeatMs
  const internal = settings.internal ?? DEFAULT_INTERNAL
  const maxFrameBytes = MAX_GROWTH * Math.max(settings.bodyLimitBytes, maxResultBytes) + OVERHEAD_BYTES
  let store: RunningGateway['store'] | undefined
  /** Derived each time, because the keys of a store can change while servers run. */
  const keyOf = (store: RunningGateway['store']): KeyObject =>
    createSecretKey(Buffer.from(store.sign('replicas', 'hop'), 'base64url'))
  let url: string | undefined
  const ask = (holder: SessionHolder, first: ToHolder, request?: CallRequest): Promise<FromHolder> => {
    const { address, writer: to } = holder
    if (store === undefined || address === undefined || !URL.canParse(address))
      return Promise.reject(new HopError('The replica that holds the session has no known address.', false))
    const [key, atMs] = [keyOf(store), clock.nowMs()]
    return new OutgoingExchange({ key, address, to, maxFrameBytes, silenceMs, atMs, request }).ask(first)
  }
  return {
    address: () => url,
    async call(holder, principal, request) {
      const sent: ToHolder = { kind: 'call', principal: makePrincipal(principal), request: toSent(request) }
      const answer = await ask(holder, sent, request)
      if (answer.kind === 'reply') return answer.reply
      throw refusalOf(answer)
    },
    async closeSession(holder, principal, sessionId) {
      const answer = await ask(holder, { kind: 'close', principal: makePrincipal(principal), sessionId })
      if (answer.kind === 'closed') return answer.isClosed
      throw refusalOf(answer)
    },
    async open(gateway) {
      const { store: opened } = gateway
      store = opened
      const key = () => keyOf(opened)
      const listener = await openHopListener({
        ...internal,
        gateway,
        key,
        maxFrameBytes,
        heartbeatMs,
        clock,
        log,
      })
      url = internal.url ?? listener.url
      return listener
    },
  }
}

function refusalOf(answer: FromHolder): Error {
  if (answer.kind !== 'refused') return new HopError('Another replica sent an unexpected answer.', true)
  const { code, message, retryAfterMs } = answer
  return fault(code, message, defined({ retryAfterMs }))
}

interface OutgoingParts {
  readonly key: KeyObject
  readonly address: string
  readonly to: string
  readonly maxFrameBytes: number
  readonly silenceMs: number
  readonly atMs: number
  /** The request whose progress, questions and signals are forwarded. */
  readonly request: CallRequest | undefined
}

/** One forwarded request, on the sending side. */
class OutgoingExchange {
  readonly #parts: OutgoingParts
  readonly #writer: FrameWriter
  readonly #reader: FrameReader
  readonly #outgoing: ClientRequest
  readonly #end = Promise.withResolvers<FromHolder>()
  readonly #ended = new AbortController()
  readonly #questions = new Map<number, AbortController>()
  #isConnected = false
  #silenceTimer: NodeJS.Timeout | undefined

  constructor(parts: OutgoingParts) {
    const { key, address, to, atMs, maxFrameBytes } = parts
    const ticket = newTicket(to, atMs)
    this.#parts = parts
    this.#writer = new FrameWriter(key, ticket, 'there')
    this.#reader = new FrameReader(key, ticket, 'back', maxFrameBytes)
    const headers = { authorization: writeTicket(key, ticket), 'content-type': 'application/octet-stream' }
    // Each request opens its own connection: if the other end closed a reused one at this moment, it would be unknown whether the request arrived.
    this.#outgoing = openRequest(new URL(HOP_PATH, address), { method: 'POST', agent: false, headers })
  }

  async ask(first: ToHolder): Promise<FromHolder> {
    const { request } = this.#parts
    this.#outgoing.on('error', (error) => this.#fail(error))
    this.#outgoing.on('response', (response) => {
      if (response.statusCode !== 200) {
        response.resume()
        // The other replica did not read the body, so no call began.
        this.#isConnected = false
        this.#fail(new Error(`it answered ${response.statusCode}`))
        return
      }
      response.on('data', (chunk: Buffer) => this.#read(chunk))
      response.on('error', (error) => this.#fail(error))
      response.on('close', () => this.#fail(new Error('the connection was lost')))
    })
    this.#outgoing.on('socket', (socket) => {
      const connected = (): void => {
        this.#isConnected = true
        this.#restartTimeout()
      }
      if (socket.connecting) socket.once('connect', connected)
      else connected()
    })
    this.#silenceTimer = setTimeout(() => this.#fail(new Error('it does not accept connections')), CONNECT_MS)
    this.#send(first)
    this.#follow(request?.gone, 'gone')
    this.#follow(request?.leaving?.left, 'left')
    try {
      return await this.#end.promise
    } finally {
      clearTimeout(this.#silenceTimer)
      this.#ended.abort()
      this.#outgoing.end()
    }
  }

  #send(message: ToHolder): void {
    if (!this.#outgoing.writableEnded) this.#outgoing.write(this.#writer.write(JSON.stringify(message)))
  }

  #follow(signal: AbortSignal | undefined, kind: 'gone' | 'left'): void {
    if (signal?.aborted === true) this.#send({ kind })
    signal?.addEventListener('abort', () => this.#send({ kind }), { signal: this.#ended.signal })
  }

  #read(chunk: Buffer): void {
    this.#restartTimeout()
    try {
      for (const text of this.#reader.read(chunk)) this.#handle(JSON.parse(text))
    } catch (error) {
      this.#fail(error)
      this.#outgoing.destroy()
    }
  }

  #handle(message: FromHolder): void {
    const { request } = this.#parts
    if (message.kind === 'alive') return
    if (message.kind === 'progress') request?.onProgress?.(message.progress)
    else if (message.kind === 'message') request?.onMessage?.(message.message)
    else if (message.kind === 'question') void this.#question(message)
    else if (message.kind === 'unasked') this.#questions.get(message.id)?.abort()
    else this.#end.resolve(message)
  }

  async #question({ id, question }: FromHolder & { readonly kind: 'question' }): Promise<void> {
    const withdrawn = new AbortController()
    this.#questions.set(id, withdrawn)
    const signal = AbortSignal.any([withdrawn.signal, this.#ended.signal])
    const answering = this.#parts.request?.onElicit?.(question, signal)
    const answer = await answering?.catch(() => undefined)
    this.#questions.delete(id)
    this.#send({ kind: 'answer', id, answer: answer ?? { action: 'cancel' } })
  }

  #restartTimeout(): void {
    clearTimeout(this.#silenceTimer)
    this.#silenceTimer = setTimeout(
      () => this.#fail(new Error('it sent no heartbeat')),
      this.#parts.silenceMs,
    )
  }

  #fail(cause: unknown): void {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const text = `The replica at ${this.#parts.address} did not answer: ${reason}`
    this.#end.reject(new HopError(text, this.#isConnected, { cause }))
    if (!this.#outgoing.destroyed) this.#outgoing.destroy()
  }
}
