import { storeFault } from '#kernel/base/errors'
import { isSameSecret, shortHash } from '#kernel/base/hash'
import { LATEST, parseToolName, type ToolRef } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { OutageLog } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { KeyedCounter } from '#stages/limits/limits'
import { type Answer, errorAnswer, resultAnswer } from './codec-message.ts'
import { type HeaderParameter, headersAskedBy, toWireTool } from './codec-tool.ts'
import { laterAnswer, type McpExchange, type McpServices } from './exchange.ts'
import { ResultEnvelopes } from './reply.ts'
import { ListenStreams } from './streams.ts'
import { ToolCalls } from './tool-calls.ts'
import { type LegacyRevision, NEW_REVISION, type Revision } from './wire.ts'

type Method = (params: JsonValue | undefined, exchange: McpExchange) => Answer | Promise<Answer>

/** MCP-29: all we have; no logs, no prompts, no resources (MCP-87). */
const CAPABILITIES: JsonObject = { tools: { listChanged: true } }

/** What clients of each era may ask, whatever brought their message. */
export class Methods {
  readonly services: McpServices
  readonly envelopes: ResultEnvelopes
  readonly calls: ToolCalls
  readonly listens: ListenStreams
  readonly outage: OutageLog
  readonly #legacy: ReadonlyMap<string, Method>
  readonly #modern: ReadonlyMap<string, Method>

  constructor(services: McpServices, openStreams = new KeyedCounter()) {
    const { options } = services
    this.services = services
    this.outage = new OutageLog(services.log, services.clock)
    this.envelopes = new ResultEnvelopes(options)
    this.listens = new ListenStreams(services, openStreams)
    const tables = new ToolTables()
    const lists = new ToolLists(tables, (text) => services.sign(text), options.pageSize)
    this.calls = new ToolCalls({ services, tables, envelopes: this.envelopes })
    const list: Method = (params, exchange) =>
      listTools({ services, lists, envelopes: this.envelopes }, params, exchange)
    const call: Method = (params, exchange) => this.calls.handle(params, exchange)
    this.#legacy = new Map([
      ['ping', (_params, { id }) => resultAnswer(id, '{}')],
      ['tools/list', list],
      ['tools/call', call],
    ])
    this.#modern = new Map([
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
      const away = storeFault(err)
      if (away !== undefined) {
        this.outage.report({ err, method }, 'the store failed in an MCP method')
        return laterAnswer(exchange.id, away)
      }
      this.services.log.error({ err, method }, 'an MCP method failed')
      const message = 'The server had an unexpected fault. A call that had a key can be repeated with it.'
      return errorAnswer(exchange.id, { code: JSON_RPC_CODES.internal, message }, { status: 500 })
    }
  }

  /** MCP-22. */
  initializeResult(protocolVersion: LegacyRevision): string {
    const { instructions } = this.services.options
    return JSON.stringify({
      protocolVersion,
      capabilities: CAPABILITIES,
      serverInfo: this.envelopes.serverInfo,
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
    return resultAnswer(id, this.envelopes.of(NEW_REVISION).complete(members.slice(1, -1)))
  }

  #of(revision: Revision): ReadonlyMap<string, Method> {
    return revision === NEW_REVISION ? this.#modern : this.#legacy
  }
}

/** MCP row 13: 404 in the newest revision, 200 before it (MCP §1.5). */
function unknownMethod({ id, revision }: McpExchange): Answer {
  const error = { code: JSON_RPC_CODES.unknownMethod, message: 'Method not found' }
  return errorAnswer(id, error, { status: revision === NEW_REVISION ? 404 : 200 })
}

/** MCP-45, MCP/T-27: short, and nobody else's. */
const CACHING = ',"ttlMs":5000,"cacheScope":"private"'

/** `tools/list`: the caller's own catalog, the newest version of each tool (MCP-40 to MCP-45). */
function listTools(
  parts: { readonly services: McpServices; readonly lists: ToolLists; readonly envelopes: ResultEnvelopes },
  params: JsonValue | undefined,
  { id, principal, revision }: McpExchange,
): Answer {
  const cursor = isJsonObject(params) ? params.cursor : undefined
  const catalog = parts.services.gateway.catalogFor(principal)
  const isCursor = cursor === undefined || typeof cursor === 'string'
  const page = isCursor ? parts.lists.page(catalog, { revision, principal, cursor }) : undefined
  if (page === undefined) {
    const message = 'params.cursor is not one that this list gave. List from the start.'
    return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
  }
  const next = page.nextCursor === undefined ? '' : `,"nextCursor":${JSON.stringify(page.nextCursor)}`
  const caching = revision === NEW_REVISION ? CACHING : ''
  return resultAnswer(id, parts.envelopes.of(revision).complete(`"tools":${page.toolsJson}${next}${caching}`))
}

interface ListedTool {
  readonly name: string
  readonly json: string
}

interface ToolPage {
  readonly toolsJson: string
  readonly nextCursor: string | undefined
}

/** MCP-44: several clients read one page only, so it is a large one. */
const PAGE_SIZE = 1_000
const PAGE_CHARACTERS = 4 * 1_024 * 1_024

/** Lists as each revision shows them, built once per catalog; a page begins after a name, so changes do not shift it (MCP-43). */
class ToolLists {
  readonly #tables: ToolTables
  readonly #pageSize: number
  readonly #sign: (text: string) => string
  readonly #byCatalog = new WeakMap<Catalog, Map<Revision, readonly ListedTool[]>>()
  readonly #whole = new WeakMap<readonly ListedTool[], string>()

  constructor(tables: ToolTables, sign: (text: string) => string, pageSize = PAGE_SIZE) {
    this.#tables = tables
    this.#sign = sign
    this.#pageSize = pageSize
  }

  /** `undefined` for a cursor that this principal was not given. */
  page(
    catalog: Catalog,
    asked: {
      readonly revision: Revision
      readonly principal: Principal
      readonly cursor: string | undefined
    },
  ): ToolPage | undefined {
    const after = asked.cursor === undefined ? '' : this.#openCursor(asked.cursor, asked.principal)
    if (after === undefined) return undefined
    const tools = this.#listed(catalog, asked.revision)
    const start = after === '' ? 0 : tools.findIndex(({ name }) => name > after)
    const end = start === -1 ? tools.length : this.#endOf(tools, start)
    const isWhole = start === 0 && end === tools.length
    const toolsJson = isWhole ? this.#wholeOf(tools) : join(tools.slice(start === -1 ? end : start, end))
    const last = tools[end - 1]
    const hasMore = end < tools.length && last !== undefined
    return { toolsJson, nextCursor: hasMore ? this.#cursor(last.name, asked.principal) : undefined }
  }

  #listed(catalog: Catalog, revision: Revision): readonly ListedTool[] {
    const known = this.#byCatalog.get(catalog) ?? new Map<Revision, readonly ListedTool[]>()
    this.#byCatalog.set(catalog, known)
    const made =
      known.get(revision) ??
      [...this.#tables.of(catalog).values()].map(({ name, tool }) => ({
        name,
        json: JSON.stringify(toWireTool(tool, name, revision)),
      }))
    known.set(revision, made)
    return made
  }

  #wholeOf(tools: readonly ListedTool[]): string {
    const known = this.#whole.get(tools) ?? join(tools)
    this.#whole.set(tools, known)
    return known
  }

  /** At least one tool, whatever its size. */
  #endOf(tools: readonly ListedTool[], start: number): number {
    let characters = 0
    for (let index = start; index < tools.length; index += 1) {
      characters += tools[index]?.json.length ?? 0
      if (index - start >= this.#pageSize || (characters > PAGE_CHARACTERS && index > start)) return index
    }
    return tools.length
  }

  /** Signed for its principal: neither guesses nor another tenant's cursors say anything. */
  #cursor(after: string, principal: Principal): string {
    return `${after}.${this.#signatureOf(after, principal)}`
  }

  #openCursor(cursor: string, principal: Principal): string | undefined {
    const end = cursor.lastIndexOf('.')
    if (end < 1) return undefined
    const after = cursor.slice(0, end)
    return isSameSecret(cursor.slice(end + 1), this.#signatureOf(after, principal)) ? after : undefined
  }

  #signatureOf(after: string, { tenant, id }: Principal): string {
    return this.#sign(JSON.stringify(['mcp cursor', tenant, id, after]))
  }
}

function join(tools: readonly ListedTool[]): string {
  return `[${tools.map(({ json }) => json).join(',')}]`
}

/** A tool under its name here: its newest version. */
export interface ServedTool {
  readonly name: string
  readonly tool: Tool
  readonly ref: ToolRef
  readonly headers: readonly HeaderParameter[]
}

/** MCP-50, MCP/T-13: what every client takes. */
const LEGAL = /^[A-Za-z0-9_-]{1,64}$/
const MAX_LENGTH = 64

/** The tools each principal can call, by name and in the order of names. Made once per catalog. */
export class ToolTables {
  readonly #byCatalog = new WeakMap<Catalog, ReadonlyMap<string, ServedTool>>()

  /** By its name in the list, or by any other of its names. */
  find(catalog: Catalog, name: string): ServedTool | undefined {
    return this.of(catalog).get(name) ?? byOtherName(catalog, name)
  }

  /** MCP-42: sorted, so that two reads are equal. */
  of(catalog: Catalog): ReadonlyMap<string, ServedTool> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const table = makeTable(catalog.latest())
    this.#byCatalog.set(catalog, table)
    return table
  }
}

function byOtherName(catalog: Catalog, name: string): ServedTool | undefined {
  const ref = parseToolName(name)
  const tool = ref === undefined ? undefined : catalog.resolve(ref)
  if (ref === undefined || tool === undefined) return undefined
  const { base } = tool.parts
  return { name, tool, ref: { base, version: ref.version }, headers: headersAskedBy(tool) }
}

function makeTable(tools: readonly Tool[]): ReadonlyMap<string, ServedTool> {
  const named = new Map<string, Tool>()
  const sorted = [...tools].sort((left, right) => compare(left.parts.base, right.parts.base))
  for (const tool of sorted) if (LEGAL.test(tool.name) && !named.has(tool.name)) named.set(tool.name, tool)
  for (const tool of sorted) if (named.get(tool.name) !== tool) named.set(freeName(tool), tool)
  const entries = [...named].sort(([left], [right]) => compare(left, right))
  return new Map(
    entries.map(([name, tool]) => {
      const ref = { base: tool.parts.base, version: LATEST }
      return [name, { name, tool, ref, headers: headersAskedBy(tool) }]
    }),
  )
}

/** Two tools that want one name, or one that is none: a digest tells them apart. */
function freeName({ name, parts }: Tool): string {
  const digest = shortHash(parts.base)
  return `${name.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, MAX_LENGTH - digest.length - 1)}_${digest}`
}

function compare(left: string, right: string): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}
