import { isSameSecret } from '#kernel/base/hash'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Catalog } from '#kernel/tool/catalog'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from './codec-message.ts'
import { toWireTool } from './codec-tool.ts'
import type { McpExchange, McpServices } from './exchange.ts'
import type { ResultEnvelopes } from './reply.ts'
import type { ToolTables } from './tool-calls.ts'
import { type Revision, TRAITS } from './wire.ts'

/*
 * `tools/list`: the newest version of each tool in the caller's catalog, page by page (MCP-40 to MCP-45).
 * The method table has one row for it.
 * Invariant: a page starts after a name, so changes of the catalog do not shift it; cursors are signed for one principal.
 */

/** Clients may cache a list for a short time, but not share it (MCP-45, MCP/T-27). */
const CACHING = ',"ttlMs":5000,"cacheScope":"private"'

export function toolListMethod(services: McpServices, tables: ToolTables, envelopes: ResultEnvelopes) {
  const lists = new ToolLists(tables, (text) => services.sign(text), services.options.pageSize)
  return (params: JsonValue | undefined, { id, principal, revision }: McpExchange): Answer => {
    const cursor = isJsonObject(params) ? params.cursor : undefined
    const catalog = services.gateway.catalogFor(principal)
    const isCursor = cursor === undefined || typeof cursor === 'string'
    const page = isCursor ? lists.page(catalog, { revision, principal, cursor }) : undefined
    if (page === undefined) {
      const message = 'params.cursor is not a cursor of this list. List from the start.'
      return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
    }
    const next = page.nextCursor === undefined ? '' : `,"nextCursor":${JSON.stringify(page.nextCursor)}`
    const caching = TRAITS[revision].hasResultType ? CACHING : ''
    return resultAnswer(id, envelopes.of(revision).complete(`"tools":${page.toolsJson}${next}${caching}`))
  }
}

interface ListedTool {
  readonly name: string
  readonly json: string
}

interface ToolPage {
  readonly toolsJson: string
  readonly nextCursor: string | undefined
}

/** Large, because several clients read one page only (MCP-44). */
const PAGE_SIZE = 1_000
const PAGE_CHARACTERS = 4 * 1_024 * 1_024

/** Lists of each catalog in each revision, built once. */
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

  /** `undefined` for a cursor that was not issued to this principal. */
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

  /** A page has at least one tool, whatever its size. */
  #endOf(tools: readonly ListedTool[], start: number): number {
    let characters = 0
    for (let index = start; index < tools.length; index += 1) {
      characters += tools[index]?.json.length ?? 0
      if (index - start >= this.#pageSize || (characters > PAGE_CHARACTERS && index > start)) return index
    }
    return tools.length
  }

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
