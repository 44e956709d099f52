import { isJsonObject, type JsonValue } from '#kernel/base/json'
import type { CallError } from '#kernel/call/call'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, encodeNotification, errorAnswer, resultAnswer } from '#protocols/mcp/codec-message'
import { outerUri } from '#protocols/mcp/codec-tool'
import type { McpExchange, McpFeature, McpServices } from '#protocols/mcp/exchange'
import type { ListenTopic } from '#protocols/mcp/streams'
import type { ToolCalls } from '#protocols/mcp/tool-calls'
import { LEGACY_REVISIONS, TRAITS, type WireError } from '#protocols/mcp/wire'
import type { EntryTables, ServedEntry } from './entry-tables.ts'
import { findOwners } from './resource-owners.ts'

/*
 * Subscriptions to resources: `resources/subscribe` and `resources/unsubscribe` of a session (MCP-193), and `resourceSubscriptions` of
 * `subscriptions/listen` (MCP-194). `methods.ts` lists the feature; the transports deliver what a session gets.
 * Subscribing at a source is a durable call of the entry for its resources, with the caller's credentials (MCP-195).
 * Invariant: a resource that the principal may not see is unknown, and its updates stop when it becomes hidden (MCP-197).
 */

/** Limit for one session, and for one `subscriptions/listen`. */
const MAX_SUBSCRIPTIONS = 100
/** A session without a stream gets nothing, so its subscriptions at sources end after this time. */
const WITHOUT_STREAM_MS = 60_000
const UPDATED = 'notifications/resources/updated'

type Stop = () => void

interface SessionState {
  /** By address; `undefined` while a subscription is paused because the session has no stream. */
  readonly stops: Map<string, Stop | undefined>
  exchange: McpExchange
  timer: NodeJS.Timeout | undefined
  hasStream: boolean
}

export class ResourceSubscriptions {
  /** Sends a message to a session, if it has a stream here. */
  deliver: (sessionId: string, json: string) => void = () => undefined
  readonly #services: McpServices
  readonly #calls: ToolCalls
  readonly #tables: EntryTables
  readonly #sessions = new Map<string, SessionState>()
  readonly feature: McpFeature = {
    capabilities: {},
    methods: [
      ['resources/subscribe', LEGACY_REVISIONS, (params, exchange) => this.#subscribe(params, exchange)],
      ['resources/unsubscribe', LEGACY_REVISIONS, (params, exchange) => this.#unsubscribe(params, exchange)],
    ],
  }

  constructor(
    services: McpServices,
    { calls, tables }: { readonly calls: ToolCalls; readonly tables: EntryTables },
  ) {
    this.#services = services
    this.#calls = calls
    this.#tables = tables
  }

  readonly topic: ListenTopic = async ({ resourceSubscriptions: asked }, exchange) => {
    if (asked === undefined) return { granted: {}, follow: () => () => undefined }
    if (!Array.isArray(asked) || asked.length > MAX_SUBSCRIPTIONS) {
      const message = `params.notifications.resourceSubscriptions must be a list of at most ${MAX_SUBSCRIPTIONS} addresses.`
      return errorAnswer(exchange.id, { code: JSON_RPC_CODES.badParams, message })
    }
    let send: (uri: string) => void = () => undefined
    const stops = new Map<string, Stop>()
    for (const uri of new Set(asked)) {
      const opened = typeof uri === 'string' ? await this.#open(uri, exchange, (at) => send(at)) : undefined
      if (typeof uri === 'string' && typeof opened === 'function') stops.set(uri, opened)
    }
    return {
      granted: { resourceSubscriptions: [...stops.keys()] },
      follow: (write) => {
        send = (uri) => write(UPDATED, `"uri":${JSON.stringify(uri)}`)
        return () => {
          for (const stop of stops.values()) stop()
        }
      },
    }
  }

  /** Resumes the subscriptions of a session that has opened its stream in this process. */
  async streamOpened(sessionId: string, exchange: McpExchange): Promise<void> {
    const state = this.#sessions.get(sessionId)
    if (state === undefined) return
    clearTimeout(state.timer)
    state.exchange = exchange
    state.hasStream = true
    for (const [uri, stop] of [...state.stops])
      if (stop === undefined) await this.#start(sessionId, state, uri)
  }

  streamClosed(sessionId: string): void {
    const state = this.#sessions.get(sessionId)
    if (state === undefined) return
    state.hasStream = false
    this.#pauseLater(state)
  }

  ended(sessionId: string): void {
    const state = this.#sessions.get(sessionId)
    if (state === undefined) return
    this.#sessions.delete(sessionId)
    clearTimeout(state.timer)
    for (const stop of state.stops.values()) stop?.()
  }

  close(): void {
    for (const sessionId of [...this.#sessions.keys()]) this.ended(sessionId)
  }

  async #subscribe(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, session } = exchange
    const uri = isJsonObject(params) ? params.uri : undefined
    if (typeof uri !== 'string' || session === undefined) return badAddress(exchange)
    const state = this.#sessions.get(session.id) ?? {
      ...{ stops: new Map<string, Stop | undefined>(), exchange, timer: undefined },
      hasStream: session.hasStream,
    }
    if (state.stops.get(uri) !== undefined) return resultAnswer(id, '{}')
    if (state.stops.size >= MAX_SUBSCRIPTIONS) {
      const message = `This session has ${MAX_SUBSCRIPTIONS} subscriptions already. End one first.`
      return errorAnswer(id, { code: JSON_RPC_CODES.badRequest, message })
    }
    state.exchange = exchange
    const problem = await this.#start(session.id, state, uri)
    if (problem !== undefined) return errorAnswer(id, problem)
    this.#sessions.set(session.id, state)
    if (!state.hasStream) this.#pauseLater(state)
    return resultAnswer(id, '{}')
  }

  async #unsubscribe(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, session } = exchange
    const uri = isJsonObject(params) ? params.uri : undefined
    if (typeof uri !== 'string' || session === undefined) return badAddress(exchange)
    const state = this.#sessions.get(session.id)
    state?.stops.get(uri)?.()
    state?.stops.delete(uri)
    if (state?.stops.size === 0) this.ended(session.id)
    return resultAnswer(id, '{}')
  }

  async #start(sessionId: string, state: SessionState, uri: string): Promise<WireError | undefined> {
    const opened = await this.#open(uri, state.exchange, (at) =>
      this.deliver(sessionId, encodeNotification(UPDATED, { uri: at })),
    )
    if (typeof opened !== 'function') return opened
    state.stops.get(uri)?.()
    state.stops.set(uri, opened)
    return undefined
  }

  #pauseLater(state: SessionState): void {
    clearTimeout(state.timer)
    state.timer = setTimeout(() => {
      for (const [uri, stop] of state.stops) {
        stop?.()
        state.stops.set(uri, undefined)
      }
    }, WITHOUT_STREAM_MS).unref()
  }

  /** Follows a resource at every source that may have it. Returns an error if no source has it or reports its changes. */
  async #open(
    uri: string,
    exchange: McpExchange,
    onUpdated: (uri: string) => void,
  ): Promise<Stop | WireError> {
    const { principal, revision } = exchange
    const catalog = this.#services.gateway.catalogFor(principal)
    const { owners, nativeUri } = findOwners(uri, catalog, this.#tables)
    const own = owners.find(({ entry }) => entry.kind !== 'resources' && entry.watch !== undefined)
    if (own !== undefined) {
      const stop = own.entry.watch?.(uri, principal, this.#whileVisible(own, exchange, onUpdated))
      return stop ?? (() => undefined)
    }
    const stops: Stop[] = []
    let failure: CallError | undefined
    for (const source of owners.filter(({ entry }) => entry.kind === 'resources')) {
      const report = this.#whileVisible(source, exchange, (at) =>
        onUpdated(at === nativeUri ? uri : this.#shownUri(source, exchange, at)),
      )
      const stop = source.entry.watch?.(nativeUri, principal, report)
      if (stop === undefined) continue
      const input = { method: 'resources/subscribe', uri: nativeUri }
      const { outcome } = await this.#calls.plainCall(exchange, source, input)
      if (outcome.ok) stops.push(stop)
      else {
        stop()
        failure ??= outcome.error
      }
    }
    if (stops.length > 0)
      return () => {
        for (const stop of stops) stop()
      }
    if (failure?.errorNumber === JSON_RPC_CODES.unknownMethod)
      return { code: JSON_RPC_CODES.unknownMethod, message: `No changes of ${uri} are reported.` }
    const { resourceUnknownCode: code } = TRAITS[revision]
    return { code, message: `Unknown resource: ${uri}`, data: { uri } }
  }

  #whileVisible(
    { entry: { kind }, name }: ServedEntry,
    { principal }: McpExchange,
    onUpdated: (uri: string) => void,
  ): (uri: string) => void {
    return (uri) => {
      const catalog = this.#services.gateway.catalogFor(principal)
      if (this.#tables.of(catalog, kind).has(name)) onUpdated(uri)
    }
  }

  #shownUri({ tool }: ServedEntry, { principal }: McpExchange, uri: string): string {
    const { hasNativeNames } = this.#services.gateway.catalogFor(principal)
    return hasNativeNames ? uri : outerUri(tool.parts.toolkit, uri)
  }
}

function badAddress({ id }: McpExchange): Answer {
  return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message: 'params.uri must be an address.' })
}
