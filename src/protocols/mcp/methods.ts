import type { JsonObject, JsonValue } from '#core/json'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from './answer.ts'
import type { McpExchange } from './exchange.ts'
import { listTools } from './list-tools.ts'
import { ListenStreams } from './listen-streams.ts'
import { OpenStreams } from './open-streams.ts'
import type { McpServices } from './options.ts'
import { ResultFrames } from './result-frames.ts'
import { ToolCalls } from './tool-calls.ts'
import { ToolLists } from './tool-lists.ts'
import { ToolTables } from './tool-table.ts'
import { NEW_REVISION, type OldRevision, type Revision } from './wire.ts'

type Method = (params: JsonValue | undefined, exchange: McpExchange) => Answer | Promise<Answer>

/** MCP-29: all we have; no logs, no prompts, no resources (MCP-87). */
const CAPABILITIES: JsonObject = { tools: { listChanged: true } }

/** What clients of each era may ask, whatever brought their message. */
export class Methods {
  readonly services: McpServices
  readonly frames: ResultFrames
  readonly calls: ToolCalls
  readonly listens: ListenStreams
  readonly #old: ReadonlyMap<string, Method>
  readonly #new: ReadonlyMap<string, Method>

  constructor(services: McpServices, places = new OpenStreams()) {
    const { options } = services
    this.services = services
    this.frames = new ResultFrames(options)
    this.listens = new ListenStreams(services, places)
    const tables = new ToolTables()
    const lists = new ToolLists(tables, (text) => services.sign(text), options.pageSize)
    this.calls = new ToolCalls({ services, tables, frames: this.frames })
    const list: Method = (params, exchange) =>
      listTools({ services, lists, frames: this.frames }, params, exchange)
    const call: Method = (params, exchange) => this.calls.handle(params, exchange)
    this.#old = new Map([
      ['ping', (_params, { id }) => resultAnswer(id, '{}')],
      ['tools/list', list],
      ['tools/call', call],
    ])
    this.#new = new Map([
      ['server/discover', (_params, exchange) => this.#discover(exchange)],
      ['tools/list', list],
      ['tools/call', call],
      ['subscriptions/listen', (params, exchange) => this.listens.listen(params, exchange)],
    ])
  }

  has(method: string, revision: Revision): boolean {
    return this.#of(revision).has(method)
  }

  async run(method: string, params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const found = this.#of(exchange.revision).get(method)
    if (found === undefined) return unknownMethod(exchange)
    try {
      return await found(params, exchange)
    } catch (err) {
      this.services.log.error({ err, method }, 'an MCP method failed')
      const message = 'The server had an unexpected fault. A call that had a key can be repeated with it.'
      return errorAnswer(exchange.id, { code: JSON_RPC_CODES.internal, message }, { status: 500 })
    }
  }

  /** MCP-22. */
  initializeResult(protocolVersion: OldRevision): string {
    const { instructions } = this.services.options
    return JSON.stringify({
      protocolVersion,
      capabilities: CAPABILITIES,
      serverInfo: this.frames.serverInfo,
      ...(instructions === undefined ? {} : { instructions }),
    })
  }

  /** MCP-33: the same for everybody, so anybody may keep it. */
  #discover({ id }: McpExchange): Answer {
    const { instructions } = this.services.options
    const members = JSON.stringify({
      supportedVersions: [NEW_REVISION],
      capabilities: CAPABILITIES,
      ...(instructions === undefined ? {} : { instructions }),
      ttlMs: 60_000,
      cacheScope: 'public',
    })
    return resultAnswer(id, this.frames.of(NEW_REVISION).complete(members.slice(1, -1)))
  }

  #of(revision: Revision): ReadonlyMap<string, Method> {
    return revision === NEW_REVISION ? this.#new : this.#old
  }
}

/** Row 13: 404 in the newest revision, 200 before it (§1.5). */
function unknownMethod({ id, revision }: McpExchange): Answer {
  const error = { code: JSON_RPC_CODES.unknownMethod, message: 'Method not found' }
  return errorAnswer(id, error, { status: revision === NEW_REVISION ? 404 : 200 })
}
