import type { KeyObject } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { networkInterfaces } from 'node:os'
import type { Clock } from '#kernel/base/clock'
import type { Elicit, ElicitationAnswer } from '#kernel/base/elicitation'
import { isToolError } from '#kernel/base/errors'
import type { Logger } from '#kernel/base/logger'
import { bind } from '#server/http/listener'
import { createServer } from '#server/http/node-http'
import type { RunningGateway } from '#stages/open-gateway'
import { FrameReader, FrameWriter, readTicket, type Ticket } from './frames.ts'
import { type FromHolder, fromSent, HOP_PATH, KnownPrincipals, type ToHolder } from './messages.ts'

/*
 * Accepts calls that other replicas forward. `hop.ts` opens it. Invariant: nothing is read from a request without a valid, unused ticket.
 */

/** Maximum difference between a ticket's time and the clock of this replica; clocks of replicas differ by less. */
const TICKET_MS = 30_000
const MAX_CONNECTIONS = 5_000
/** A request has no time limit of its own, because the timeout of the tool ends a running call. */
const TIMEOUTS = { headersTimeout: 5_000, connectionsCheckingInterval: 1_000, requestTimeout: 0 }

interface HopListenerOptions {
  readonly gateway: Pick<RunningGateway, 'here'> & { readonly store: Pick<RunningGateway['store'], 'writer'> }
  key(): KeyObject
  readonly host: string
  readonly port: number
  /** Maximum bytes of a forwarded request. */
  readonly maxFrameBytes: number
  /** Interval between heartbeats. */
  readonly heartbeatMs: number
  readonly clock: Clock
  readonly log: Logger
}

export interface HopListener {
  /** Address for other replicas. */
  readonly url: string
  readonly host: string
  readonly port: number
  close(): Promise<void>
}

/** Forwarded requests run as the principal that the other replica authenticated; requests without a valid ticket get a 404. */
export async function openHopListener(options: HopListenerOptions): Promise<HopListener> {
  const { host, port, log } = options
  const takeTicket = ticketTaker(options)
  const principals = new KnownPrincipals()
  const server = createServer(TIMEOUTS, (request, response) => {
    const ticket = takeTicket(request)
    if (ticket === undefined) {
      response.writeHead(404, { connection: 'close' }).end()
      return
    }
    const exchange = new HopExchange(options, principals, { ticket, request, response })
    exchange.serve().catch((err: unknown) => {
      log.warn({ err }, 'an exchange with another replica was interrupted')
      response.destroy()
    })
  })
  server.maxConnections = MAX_CONNECTIONS
  // Each worker of a machine has its own listener.
  const bound = await bind(server, { host, port, exclusive: true })
  return {
    url: `http://${reachableHost(host)}:${bound.port}`,
    host,
    port: bound.port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

/** Returns a function that takes the ticket of a request, if it is for this replica, recent and unused. */
function ticketTaker({ key, gateway, clock }: HopListenerOptions) {
  // Used tickets in order of arrival, kept as long as they would be valid.
  const usedAtMs = new Map<string, number>()
  return ({ method, url, headers }: IncomingMessage): Ticket | undefined => {
    if (method !== 'POST' || url !== HOP_PATH) return undefined
    const ticket = readTicket(key(), headers.authorization)
    const nowMs = clock.nowMs()
    if (ticket?.to !== gateway.store.writer || Math.abs(nowMs - ticket.atMs) > TICKET_MS) return undefined
    for (const [nonce, atMs] of usedAtMs) {
      if (nowMs - atMs <= 2 * TICKET_MS) break
      usedAtMs.delete(nonce)
    }
    if (usedAtMs.has(ticket.nonce)) return undefined
    usedAtMs.set(ticket.nonce, nowMs)
    return ticket
  }
}

interface ExchangeParts {
  readonly ticket: Ticket
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/** One forwarded call, or one forwarded request to close a session. */
class HopExchange {
  readonly #options: HopListenerOptions
  readonly #principals: KnownPrincipals
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #reader: FrameReader
  readonly #writer: FrameWriter
  readonly #gone = new AbortController()
  readonly #left = new AbortController()
  readonly #questions = new Map<number, (answer: ElicitationAnswer) => void>()
  #questionCount = 0

  constructor(options: HopListenerOptions, principals: KnownPrincipals, parts: ExchangeParts) {
    const { ticket, request, response } = parts
    this.#options = options
    this.#principals = principals
    this.#request = request
    this.#response = response
    const key = options.key()
    this.#reader = new FrameReader(key, ticket, 'there', options.maxFrameBytes)
    this.#writer = new FrameWriter(key, ticket, 'back')
  }

  async serve(): Promise<void> {
    // The other replica is gone, not the caller: the call continues.
    this.#response.once('close', () => this.#end())
    this.#response.writeHead(200).flushHeaders()
    const alive = setInterval(() => this.#send({ kind: 'alive' }), this.#options.heartbeatMs).unref()
    this.#response.once('close', () => clearInterval(alive))
    try {
      await this.#readAll()
    } catch (error) {
      // After the answer a lost connection is not a failure.
      if (!this.#response.writableEnded) throw error
    }
  }

  async #readAll(): Promise<void> {
    let isFirst = true
    for await (const chunk of this.#request) {
      for (const text of this.#reader.read(chunk)) {
        const message: ToHolder = JSON.parse(text)
        if (isFirst) void this.#work(message)
        else this.#handle(message)
        isFirst = false
      }
    }
    // Without a first message no answer would end the exchange.
    if (isFirst) throw new Error('an exchange ended before its first message')
  }

  async #work(message: ToHolder): Promise<void> {
    try {
      this.#send(await this.#answer(message))
      this.#response.end()
    } catch (error) {
      if (isToolError(error)) {
        const { code, message: text, retryAfterMs } = error
        this.#send({ kind: 'refused', code, message: text, retryAfterMs })
        this.#response.end()
      } else {
        this.#options.log.error({ err: error }, 'a request from another replica failed')
        this.#response.destroy()
      }
    }
  }

  async #answer(message: ToHolder): Promise<FromHolder> {
    const { here } = this.#options.gateway
    if (message.kind === 'close') {
      const isClosed = await here.closeSession(this.#principals.of(message.principal), message.sessionId)
      return { kind: 'closed', isClosed }
    }
    if (message.kind !== 'call')
      throw new Error('the first message of an exchange is neither a call nor a close')
    const request = fromSent(message.request, {
      gone: this.#gone.signal,
      leaving: { left: this.#left.signal },
      onProgress: (progress) => this.#send({ kind: 'progress', progress }),
      onMessage: (sent) => this.#send({ kind: 'message', message: sent }),
      onElicit: this.#ask,
    })
    return { kind: 'reply', reply: await here.call(this.#principals.of(message.principal), request) }
  }

  #handle(message: ToHolder): void {
    if (message.kind === 'answer') this.#questions.get(message.id)?.(message.answer)
    else if (message.kind === 'gone') this.#gone.abort()
    else if (message.kind === 'left') this.#left.abort()
  }

  readonly #ask: Elicit = async (question, signal) => {
    const id = this.#questionCount
    this.#questionCount += 1
    const { promise, resolve } = Promise.withResolvers<ElicitationAnswer>()
    const abandon = (): void => {
      this.#send({ kind: 'unasked', id })
      resolve({ action: 'cancel' })
    }
    this.#questions.set(id, resolve)
    signal.addEventListener('abort', abandon, { once: true })
    try {
      this.#send({ kind: 'question', id, question })
      return signal.aborted || this.#gone.signal.aborted ? { action: 'cancel' } : await promise
    } finally {
      this.#questions.delete(id)
      signal.removeEventListener('abort', abandon)
    }
  }

  #end(): void {
    this.#gone.abort()
    for (const resolve of this.#questions.values()) resolve({ action: 'cancel' })
  }

  #send(message: FromHolder): void {
    if (!this.#response.writableEnded && !this.#response.destroyed)
      this.#response.write(this.#writer.write(JSON.stringify(message)))
  }
}

/** A reachable address of this machine, if the listener is on all addresses. */
function reachableHost(host: string): string {
  if (host !== '0.0.0.0' && host !== '::') return host.includes(':') ? `[${host}]` : host
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
  return own.find(({ internal, family }) => !internal && family === 'IPv4')?.address ?? '127.0.0.1'
}
