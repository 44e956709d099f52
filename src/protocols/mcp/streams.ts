import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Release } from '#kernel/call/stages'
import type { CatalogChanges } from '#kernel/tool/catalog-changes'
import { FrameQueue } from '#protocols/frame-queue'
import type { ReplyStream } from '#protocols/http-exchange'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type KeyedCounter, subjectKey } from '#stages/limits/limits'
import {
  type Answer,
  encodeEvent,
  encodeNotification,
  errorAnswer,
  NO_ANSWER,
  resultAnswer,
} from './codec-message.ts'
import type { McpExchange, McpServices } from './exchange.ts'
import { followLists, LISTS } from './list-changes.ts'
import { META } from './wire.ts'

/*
 * Streams that notify clients of changes to lists (tools, prompts, resources), resources and tasks.
 * `ChangeStreams` serves GET in revisions with sessions, `ListenStreams` serves `subscriptions/listen`.
 * Invariant: one principal has at most `MAX_STREAMS` open streams, in all revisions together (MCP-47).
 */

/** Also the time until a stream notices that another process ended its session. */
const KEEP_ALIVE_MS = 15_000
const KEEP_ALIVE = ':\n\n'

interface StreamHooks {
  /** False once the session has ended. */
  isOpen(): Promise<boolean>
  onOpened(): void
  /** Called when the session no longer has a stream in this process. */
  onClosed(): void
}

/** GET streams of sessions; only the newest stream of a session gets notifications (MCP-24, MCP-25, MCP-46). */
export class ChangeStreams {
  readonly #changes: CatalogChanges
  readonly #openStreams: KeyedCounter
  readonly #newest = new Map<string, FrameQueue>()
  readonly #all = new Set<FrameQueue>()

  constructor(changes: CatalogChanges, openStreams: KeyedCounter) {
    this.#changes = changes
    this.#openStreams = openStreams
  }

  /** `undefined` if this principal has too many open streams. */
  open(principal: Principal, sessionId: string, hooks: StreamHooks): ReplyStream | undefined {
    if (isFull(this.#openStreams, principal)) return undefined
    return (ended) => this.#pieces(principal, sessionId, { ...hooks, ended })
  }

  has(sessionId: string): boolean {
    return this.#newest.has(sessionId)
  }

  send(sessionId: string, json: string): void {
    this.#newest.get(sessionId)?.add(encodeEvent(json), true)
  }

  end(sessionId: string): void {
    this.#newest.get(sessionId)?.end()
  }

  close(): void {
    for (const queue of this.#all) queue.end()
  }

  async *#pieces(
    principal: Principal,
    sessionId: string,
    { isOpen, onOpened, onClosed, ended }: StreamHooks & { readonly ended: AbortSignal },
  ): AsyncGenerator<string> {
    // A stream counts from its first read, so one that is never read does not count.
    const leave = takeStream(this.#openStreams, principal)
    if (leave === undefined) return
    const queue = new FrameQueue(0)
    this.#newest.set(sessionId, queue)
    this.#all.add(queue)
    const stop = followLists(this.#changes, principal, LISTS, (method) => {
      if (this.#newest.get(sessionId) === queue) queue.add(encodeEvent(encodeNotification(method)), true)
    })
    ended.addEventListener('abort', () => queue.end(), { once: true })
    onOpened()
    try {
      for (;;) {
        const frame = await queue.next(KEEP_ALIVE_MS)
        if (frame === undefined || (frame === 'late' && !(await isOpen()))) return
        yield frame === 'late' ? KEEP_ALIVE : frame
      }
    } finally {
      stop()
      leave()
      this.#all.delete(queue)
      if (this.#newest.get(sessionId) === queue) {
        this.#newest.delete(sessionId)
        onClosed()
      }
    }
  }
}

/** Notifications other than list changes: returns the part of the request that the server grants, or a refusal. */
export type ListenTopic = (wanted: JsonObject, exchange: McpExchange) => Promise<Answer | GrantedTopic>

interface GrantedTopic {
  /** Members of the acknowledgement. */
  readonly granted: JsonObject
  /** Begins to send; `params` is JSON without braces. Returns the function that stops it. */
  follow(send: (method: string, params: string) => void): () => void
}

/** `subscriptions/listen`: notifications that the client asked for, until it disconnects (MCP-46 to MCP-49). */
export class ListenStreams {
  readonly #services: McpServices
  readonly #openStreams: KeyedCounter
  readonly #closing = new AbortController()
  readonly #topics: readonly ListenTopic[]

  constructor(services: McpServices, openStreams: KeyedCounter, topics: readonly ListenTopic[]) {
    this.#services = services
    this.#topics = topics
    this.#openStreams = openStreams
  }

  async listen(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal, channel } = exchange
    const wanted = isJsonObject(params) ? params.notifications : undefined
    if (!isJsonObject(wanted)) {
      const message =
        'params.notifications must name what to listen for, for example { "toolsListChanged": true }.'
      return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
    }
    const topics = await this.#grant(wanted, exchange)
    if ('status' in topics) return topics
    const leave = takeStream(this.#openStreams, principal)
    if (leave === undefined) {
      endAll(topics)
      const message = `This caller already has ${MAX_STREAMS} open streams. Close one first.`
      return errorAnswer(id, { code: JSON_RPC_CODES.internal, message })
    }
    const tag = { _meta: { [META.subscriptionId]: id } }
    const lists = LISTS.filter(({ request }) => wanted[request] === true)
    const notifications: JsonObject = {
      ...Object.fromEntries(lists.map(({ request }) => [request, true])),
      ...Object.assign({}, ...topics.map(({ granted }) => granted)),
    }
    const acknowledged = { notifications, ...tag }
    channel.send(encodeNotification('notifications/subscriptions/acknowledged', acknowledged), 'question')
    const { catalogChanges } = this.#services.gateway
    const stop = followLists(catalogChanges, principal, lists, (method) =>
      channel.send(encodeNotification(method, tag), 'question'),
    )
    const stops = topics.map(({ follow }) =>
      follow((method, params) =>
        channel.send(
          `{"jsonrpc":"2.0","method":"${method}","params":{${params},${JSON.stringify(tag).slice(1)}}`,
          'question',
        ),
      ),
    )
    try {
      return (await this.#untilEnd(exchange)) ? this.#end(exchange) : NO_ANSWER
    } finally {
      for (const end of stops) end()
      stop()
      leave()
    }
  }

  /** The grants of all topics, or the first refusal. */
  async #grant(wanted: JsonObject, exchange: McpExchange): Promise<Answer | readonly GrantedTopic[]> {
    const granted: GrantedTopic[] = []
    for (const topic of this.#topics) {
      const answer = await topic(wanted, exchange)
      if ('granted' in answer) granted.push(answer)
      else {
        endAll(granted)
        return answer
      }
    }
    return granted
  }

  /** Ends every subscription with its result (MCP-49). */
  close(): void {
    this.#closing.abort()
  }

  /** A subscription ends with the result of its request, on every transport (MCP/T-4). */
  #end({ id }: McpExchange): Answer {
    const meta = { [META.subscriptionId]: id, [META.serverInfo]: serverInfoOf(this.#services) }
    return resultAnswer(id, JSON.stringify({ resultType: 'complete', _meta: meta }))
  }

  /** Resolves with `false` if the client disconnected or cancelled and expects no result. */
  #untilEnd(exchange: McpExchange): Promise<boolean> {
    return new Promise((resolve) => {
      const left = exchange.leaving?.left
      const closing = this.#closing.signal
      const settle = (isOurEnd: boolean): void => {
        closing.removeEventListener('abort', end)
        left?.removeEventListener('abort', leave)
        resolve(isOurEnd)
      }
      const end = (): void => settle(true)
      const leave = (): void => settle(false)
      closing.addEventListener('abort', end, { once: true })
      left?.addEventListener('abort', leave, { once: true })
      exchange.onBegun?.(leave)
      if (closing.aborted) end()
      if (left?.aborted === true) leave()
    })
  }
}

/** Releases granted topics that were never followed. */
function endAll(topics: readonly GrantedTopic[]): void {
  for (const { follow } of topics) follow(() => undefined)()
}

function serverInfoOf({ options }: McpServices): JsonObject {
  return { name: options.name, version: options.serverVersion }
}

/** Limited so that one principal cannot take all connections of the server (MCP-47). */
export const MAX_STREAMS = 100

function isFull(openStreams: KeyedCounter, principal: Principal): boolean {
  return openStreams.count(subjectKey(principal)) >= MAX_STREAMS
}

/** Counts a stream until it is released; `undefined` if the principal has too many. */
function takeStream(openStreams: KeyedCounter, principal: Principal): Release | undefined {
  return isFull(openStreams, principal) ? undefined : openStreams.take(subjectKey(principal))
}
