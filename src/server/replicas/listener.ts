import type { KeyObject } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { networkInterfaces } from 'node:os'
import type { Clock } from '#kernel/base/clock'
import type { Elicit, ElicitationAnswer } from '#kernel/base/elicitation'
import { isToolError } from '#kernel/base/errors'
import type { Logger } from '#kernel/base/logger'
import { createServer } from '#server/http/node-http'
import type { RunningGateway } from '#stages/open-gateway'
import { FrameReader, FrameWriter, readTicket, type Ticket } from './frames.ts'
import {
  type FromHolder,
  fromSent,
  HOP_PATH,
  KnownPrincipals,
  readToHolder,
  type ToHolder,
} from './messages.ts'

/** A ticket is good for this long, either way: clocks of replicas differ by less. */
const TICKET_MS = 30_000
const MAX_CONNECTIONS = 5_000
/** What is under way is bounded by the tool's own time, and by the other end's being there. */
const TIMEOUTS = { headersTimeout: 5_000, connectionsCheckingInterval: 1_000, requestTimeout: 0 }

interface HopListenerOptions {
  readonly gateway: Pick<RunningGateway, 'here'> & { readonly store: Pick<RunningGateway['store'], 'writer'> }
  key(): KeyObject
  readonly host: string
  readonly port: number
  /** The longest message that a caller's request can become. */
  readonly longestFrame: number
  /** How often a replica that has nothing to say says that it lives. */
  readonly heartbeatMs: number
  readonly clock: Clock
  readonly log: Logger
}

export interface HopListener {
  /** Where other replicas reach it. */
  readonly url: string
  readonly host: string
  readonly port: number
  close(): Promise<void>
}

/**
 * Takes what other replicas pass on: calls of sessions whose state is here, and closes of such sessions, as the principal that the
 * other one has let in. Nothing else can be asked for. Who has not the key gets the answer of a server that has nothing here,
 * before a byte of the body is read.
 */
export async function openHopListener(options: HopListenerOptions): Promise<HopListener> {
  const { host, port, log } = options
  const tickets = new UsedTickets(options)
  const principals = new KnownPrincipals()
  const server = createServer(TIMEOUTS, (request, response) => {
    const ticket = tickets.take(request)
    if (ticket === undefined) {
      response.writeHead(404, { connection: 'close' }).end()
      return
    }
    const exchange = new HopExchange(options, principals, { ticket, request, response })
    exchange.serve().catch((err: unknown) => {
      log.warn({ err }, 'an exchange with another replica broke off')
      response.destroy()
    })
  })
  server.maxConnections = MAX_CONNECTIONS
  // Workers of one machine each have a listener of their own.
  server.listen({ host, port, exclusive: true })
  await once(server, 'listening')
  const bound = server.address()
  if (bound === null || typeof bound === 'string')
    throw new Error('A TCP listener has an address and a port.')
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

/** Which tickets were used, as long as they would be good. */
class UsedTickets {
  readonly #options: Pick<HopListenerOptions, 'key' | 'gateway' | 'clock'>
  readonly #usedAtMs = new Map<string, number>()

  constructor(options: Pick<HopListenerOptions, 'key' | 'gateway' | 'clock'>) {
    this.#options = options
  }

  /** The ticket of a request that a replica sent to this one, just now and for the first time. */
  take({ method, url, headers }: IncomingMessage): Ticket | undefined {
    const { key, gateway, clock } = this.#options
    if (method !== 'POST' || url !== HOP_PATH) return undefined
    const ticket = readTicket(key(), headers.authorization)
    const nowMs = clock.nowMs()
    if (ticket?.to !== gateway.store.writer || Math.abs(nowMs - ticket.atMs) > TICKET_MS) return undefined
    this.#forget(nowMs)
    if (this.#usedAtMs.has(ticket.nonce)) return undefined
    this.#usedAtMs.set(ticket.nonce, nowMs)
    return ticket
  }

  /** In the order in which they came, so the first that is young ends it. */
  #forget(nowMs: number): void {
    for (const [nonce, atMs] of this.#usedAtMs) {
      if (nowMs - atMs <= 2 * TICKET_MS) return
      this.#usedAtMs.delete(nonce)
    }
  }
}

interface ExchangeParts {
  readonly ticket: Ticket
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/** One call or close that another replica passed on. */
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
  #asked = 0

  constructor(options: HopListenerOptions, principals: KnownPrincipals, parts: ExchangeParts) {
    const { ticket, request, response } = parts
    this.#options = options
    this.#principals = principals
    this.#request = request
    this.#response = response
    const key = options.key()
    this.#reader = new FrameReader(key, ticket, 'there', options.longestFrame)
    this.#writer = new FrameWriter(key, ticket, 'back')
  }

  async serve(): Promise<void> {
    // The other side is gone, not the caller: what runs goes on.
    this.#response.once('close', () => this.#end())
    this.#response.writeHead(200).flushHeaders()
    const alive = setInterval(() => this.#send({ kind: 'alive' }), this.#options.heartbeatMs).unref()
    this.#response.once('close', () => clearInterval(alive))
    try {
      await this.#readAll()
    } catch (error) {
      // Whoever has its answer may leave in any way.
      if (!this.#response.writableEnded) throw error
    }
  }

  async #readAll(): Promise<void> {
    let isFirst = true
    for await (const chunk of this.#request) {
      for (const text of this.#reader.read(chunk)) {
        const message = readToHolder(text)
        if (isFirst) void this.#work(message)
        else this.#take(message)
        isFirst = false
      }
    }
    // Nothing would ever end it.
    if (isFirst) throw new Error('an exchange ended before anything was asked')
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
        this.#options.log.error({ err: error }, 'what another replica asked for failed')
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
    if (message.kind !== 'call') throw new Error('an exchange begins with what is asked')
    const request = fromSent(message.request, {
      gone: this.#gone.signal,
      leaving: { left: this.#left.signal },
      onProgress: (progress) => this.#send({ kind: 'progress', progress }),
      onElicit: this.#ask,
    })
    return { kind: 'reply', reply: await here.call(this.#principals.of(message.principal), request) }
  }

  #take(message: ToHolder): void {
    if (message.kind === 'answer') this.#questions.get(message.id)?.(message.answer)
    else if (message.kind === 'gone') this.#gone.abort()
    else if (message.kind === 'left') this.#left.abort()
  }

  readonly #ask: Elicit = async (question, signal) => {
    const id = this.#asked
    this.#asked += 1
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

/** An address of this machine that others can reach, where it listens on all of them. */
function reachableHost(host: string): string {
  if (host !== '0.0.0.0' && host !== '::') return host.includes(':') ? `[${host}]` : host
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
  return own.find(({ internal, family }) => !internal && family === 'IPv4')?.address ?? '127.0.0.1'
}
