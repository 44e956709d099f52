import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { Principal } from '#core/principal'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, NO_ANSWER, resultAnswer } from './answer.ts'
import { encodeNotification } from './codec-answer.ts'
import type { McpExchange } from './exchange.ts'
import { MOST_STREAMS, type OpenStreams } from './open-streams.ts'
import type { McpServices } from './options.ts'
import { META } from './wire.ts'

export const LIST_CHANGED = 'notifications/tools/list_changed'

/** `subscriptions/listen`: news for as long as the client stays, and nothing it did not ask for (MCP-46 to MCP-49). */
export class ListenStreams {
  readonly #services: McpServices
  readonly #places: OpenStreams
  readonly #closing = new AbortController()

  constructor(services: McpServices, places: OpenStreams) {
    this.#services = services
    this.#places = places
  }

  async listen(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal, channel } = exchange
    const wanted = isJsonObject(params) ? params.notifications : undefined
    if (!isJsonObject(wanted)) {
      const message =
        'params.notifications must name what to listen for, such as { "toolsListChanged": true }.'
      return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
    }
    const leave = this.#places.take(principal)
    if (leave === undefined) {
      const message = `This caller listens ${MOST_STREAMS} times already. Close a stream first.`
      return errorAnswer(id, { code: JSON_RPC_CODES.internal, message })
    }
    const tag = { _meta: { [META.subscriptionId]: id } }
    const hearsTools = wanted.toolsListChanged === true
    const notifications: JsonObject = hearsTools ? { toolsListChanged: true } : {}
    const acknowledged = { notifications, ...tag }
    channel.send(encodeNotification('notifications/subscriptions/acknowledged', acknowledged), 'question')
    const stop = hearsTools ? this.#follow(principal, () => this.#tell(exchange, tag)) : () => undefined
    try {
      return (await this.#untilEnd(exchange)) ? this.#end(exchange) : NO_ANSWER
    } finally {
      stop()
      leave()
    }
  }

  /** Everybody hears that it is over (MCP-49). */
  close(): void {
    this.#closing.abort()
  }

  #follow(principal: Principal, tell: () => void): () => void {
    return this.#services.gateway.catalogChanges.listen((isAffected) => {
      if (isAffected(principal)) tell()
    })
  }

  #tell({ channel }: McpExchange, tag: JsonObject): void {
    channel.send(encodeNotification(LIST_CHANGED, tag), 'question')
  }

  /** T-4: the result of the request, as on every transport. */
  #end({ id }: McpExchange): Answer {
    const meta = { [META.subscriptionId]: id, [META.serverInfo]: serverInfoOf(this.#services) }
    return resultAnswer(id, JSON.stringify({ resultType: 'complete', _meta: meta }))
  }

  /** `false` when the client left or cancelled, so that nobody waits for an end. */
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

function serverInfoOf({ options }: McpServices): JsonObject {
  return { name: options.name, version: options.serverVersion }
}
