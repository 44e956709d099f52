import { isSameSecret } from '#kernel/base/hash'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Catalog } from '#kernel/tool/catalog'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from './codec-message.ts'
import type { McpExchange, McpServices } from './exchange.ts'
import type { ResultEnvelopes } from './reply.ts'
import { type Revision, TRAITS } from './wire.ts'

/*
 * The lists of a caller's catalog, page by page: `tools/list` and the lists of entries (MCP-40 to MCP-45, MCP-112).
 * The features of MCP create their list methods with it.
 * Invariant: a page starts after a name, so changes of the catalog do not shift it; cursors are signed for one principal.
 */

/** Clients may cache a list for a short time, but not share it (MCP-45, MCP/T-27). */
const CACHING = ',"ttlMs":5000,"cacheScope":"private"'

interface CatalogList {
  /** The member of the result that holds the list. */
  readonly member: 'tools' | 'prompts' | 'resourceTemplates' | 'skills'
  /** Sorted by name. */
  itemsOf(catalog: Catalog, revision: Revision): readonly ListedItem[]
}

export function listMethod(services: McpServices, envelopes: ResultEnvelopes, list: CatalogList) {
  const lists = new ListPages(list, (text) => services.sign(text), services.options.pageSize)
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
    const members = `"${list.member}":${page.itemsJson}${next}${caching}`
    return resultAnswer(id, envelopes.of(revision).complete(members))
  }
}

export interface ListedItem {
  readonly name: string
  readonly json: string
}

/** Adds this server's own items to those of a catalog, sorted by name. */
export function withOwnItems(
  items: readonly ListedItem[],
  own: readonly ListedItem[],
): readonly ListedItem[] {
  if (own.length === 0) return items
  return [...items, ...own].sort((left, right) =>
    left.name < right.name ? -1 : left.name > right.name ? 1 : 0,
  )
}

interface ListPage {
  readonly itemsJson: string
  readonly nextCursor: string | undefined
}

/** The maximum size of a page is large, because several clients read only the first page (MCP-44). */
const PAGE_SIZE = 1_000
const PAGE_CHARACTERS = 4 * 1_024 * 1_024

/** The list of each catalog in each revision, built once. */
class ListPages {
  readonly #list: CatalogList
  readonly #pageSize: number
  readonly #sign: (text: string) => string
  readonly #byCatalog = new WeakMap<Catalog, Map<Revision, readonly ListedItem[]>>()
  readonly #whole = new WeakMap<readonly ListedItem[], string>()

  constructor(list: CatalogList, sign: (text: string) => string, pageSize = PAGE_SIZE) {
    this.#list = list
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
  ): ListPage | undefined {
    const after = asked.cursor === undefined ? '' : this.#openCursor(asked.cursor, asked.principal)
    if (after === undefined) return undefined
    const items = this.#listed(catalog, asked.revision)
    const start = after === '' ? 0 : items.findIndex(({ name }) => name > after)
    const end = start === -1 ? items.length : this.#endOf(items, start)
    const isWhole = start === 0 && end === items.length
    const itemsJson = isWhole ? this.#wholeOf(items) : join(items.slice(start === -1 ? end : start, end))
    const last = items[end - 1]
    const hasMore = end < items.length && last !== undefined
    return { itemsJson, nextCursor: hasMore ? this.#cursor(last.name, asked.principal) : undefined }
  }

  #listed(catalog: Catalog, revision: Revision): readonly ListedItem[] {
    const known = this.#byCatalog.get(catalog) ?? new Map<Revision, readonly ListedItem[]>()
    this.#byCatalog.set(catalog, known)
    const made = known.get(revision) ?? this.#list.itemsOf(catalog, revision)
    known.set(revision, made)
    return made
  }

  #wholeOf(items: readonly ListedItem[]): string {
    const known = this.#whole.get(items) ?? join(items)
    this.#whole.set(items, known)
    return known
  }

  /** A page has at least one item, whatever its size. */
  #endOf(items: readonly ListedItem[], start: number): number {
    let characters = 0
    for (let index = start; index < items.length; index += 1) {
      characters += items[index]?.json.length ?? 0
      if (index - start >= this.#pageSize || (characters > PAGE_CHARACTERS && index > start)) return index
    }
    return items.length
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
    return this.#sign(JSON.stringify(['mcp cursor', this.#list.member, tenant, id, after]))
  }
}

function join(items: readonly ListedItem[]): string {
  return `[${items.map(({ json }) => json).join(',')}]`
}
