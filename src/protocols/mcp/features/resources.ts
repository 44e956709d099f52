import { isSameSecret } from '#kernel/base/hash'
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Catalog } from '#kernel/tool/catalog'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from '#protocols/mcp/codec-message'
import { innerUri, outerUri } from '#protocols/mcp/codec-tool'
import type { McpExchange, McpFeature, McpServices } from '#protocols/mcp/exchange'
import { listMethod } from '#protocols/mcp/lists'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { ToolCalls } from '#protocols/mcp/tool-calls'
import { ALL_REVISIONS, MCP_CODES, type Revision, TRAITS } from '#protocols/mcp/wire'
import { type EntryTables, listedEntry, type ServedEntry } from './entry-tables.ts'

/*
 * Resources: `resources/list`, `resources/templates/list` and `resources/read` (MCP-113 to MCP-116).
 * `methods.ts` lists the feature. A source has one entry for all its resources, which change too often to be pinned one by one;
 * its templates are pinned.
 * Invariant: addresses are passed on as their servers wrote them, and each read is a durable call of one entry.
 */

const CACHING = { ttlMs: 5_000, cacheScope: 'private' } as const

interface ResourceParts {
  readonly calls: ToolCalls
  readonly tables: EntryTables
}

export function resourceFeature(
  services: McpServices,
  envelopes: ResultEnvelopes,
  { calls, tables }: ResourceParts,
): McpFeature {
  const resources = new Resources(services, envelopes, { calls, tables })
  const templates = {
    member: 'resourceTemplates',
    itemsOf: (catalog: Catalog, revision: Revision) =>
      [...tables.of(catalog, 'template').values()].map((served) => listedEntry(served, {}, revision)),
  } as const
  return {
    capabilities: { resources: { listChanged: true } },
    methods: [
      ['resources/list', ALL_REVISIONS, (params, exchange) => resources.list(params, exchange)],
      ['resources/templates/list', ALL_REVISIONS, listMethod(services, envelopes, templates)],
      ['resources/read', ALL_REVISIONS, (params, exchange) => resources.read(params, exchange)],
    ],
  }
}

class Resources {
  readonly #services: McpServices
  readonly #envelopes: ResultEnvelopes
  readonly #calls: ToolCalls
  readonly #tables: EntryTables

  constructor(services: McpServices, envelopes: ResultEnvelopes, { calls, tables }: ResourceParts) {
    this.#services = services
    this.#envelopes = envelopes
    this.#calls = calls
    this.#tables = tables
  }

  /** The first pages of all sources together; the cursor says where the lists of some go on (MCP-113). */
  async list(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal, revision } = exchange
    const catalog = this.#services.gateway.catalogFor(principal)
    const cursors = this.#openCursor(isJsonObject(params) ? params.cursor : undefined, principal)
    if (cursors === undefined) {
      const message = 'params.cursor is not a cursor of this list. List from the start.'
      return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
    }
    const sources = [...this.#tables.of(catalog, 'resources').values()].filter(
      ({ tool }) => cursors === 'start' || cursors.has(tool.parts.toolkit),
    )
    const pages = await Promise.all(
      sources.map(async (source) => {
        const { toolkit } = source.tool.parts
        const page = await this.#page(
          source,
          cursors === 'start' ? undefined : cursors.get(toolkit),
          exchange,
        )
        return { toolkit, ...page }
      }),
    )
    const own = cursors === 'start' ? [...this.#tables.of(catalog, 'resource').values()] : []
    const listed = [
      ...own.map((served) => listedEntry(served, {}, revision).json),
      ...pages.flatMap(({ items, toolkit }) =>
        items.map((item) => {
          const shown = withoutNews(item, revision)
          if (catalog.hasNativeNames || typeof item.uri !== 'string') return JSON.stringify(shown)
          return JSON.stringify({ ...shown, uri: outerUri(toolkit, item.uri) })
        }),
      ),
    ]
    const further = new Map(
      pages.flatMap(({ toolkit, next }) => (next === undefined ? [] : [[toolkit, next]])),
    )
    const members = {
      ...(further.size === 0 ? {} : { nextCursor: this.#cursor(further, principal) }),
      ...(TRAITS[revision].hasResultType ? CACHING : {}),
    }
    const rest = JSON.stringify(members).slice(1, -1)
    const json = `"resources":[${listed.join(',')}]${rest === '' ? '' : `,${rest}`}`
    return resultAnswer(id, this.#envelopes.of(revision).complete(json))
  }

  /** One page of a source; a source that fails has none. */
  async #page(source: ServedEntry, cursor: string | undefined, exchange: McpExchange) {
    const input = { method: 'resources/list', ...(cursor === undefined ? {} : { cursor }) }
    const { outcome } = await this.#calls.plainCall(exchange, source, input)
    const value = outcome.ok ? parseJson(outcome.valueJson) : undefined
    const { resources, nextCursor } = isJsonObject(value) ? value : {}
    return {
      items: Array.isArray(resources) ? resources.filter(isJsonObject) : [],
      next: typeof nextCursor === 'string' ? nextCursor : undefined,
    }
  }

  /** Reads from the entry that has the address; if several sources may have it, from the first that does (MCP-115). */
  async read(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal, revision } = exchange
    const uri = isJsonObject(params) ? params.uri : undefined
    if (typeof uri !== 'string')
      return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message: 'params.uri must be an address.' })
    const catalog = this.#services.gateway.catalogFor(principal)
    const page = catalog.hasNativeNames ? undefined : innerUri(uri)
    const owners =
      page?.toolkit === undefined ? this.#ownersOf(uri, catalog) : this.#pagesOf(page.toolkit, catalog)
    for (const owner of owners) {
      const input =
        owner.entry.kind === 'resources' ? { method: 'resources/read', uri: page?.uri ?? uri } : { uri }
      const method = { noun: 'resource', resolve: () => ({ name: uri, input, served: owner }) } as const
      const answer = await this.#calls.call(method, params, exchange)
      if (!isUnknown(answer)) return answer
    }
    const { resourceUnknownCode: code } = TRAITS[revision]
    return errorAnswer(id, { code, message: `Unknown resource: ${uri}`, data: { uri } })
  }

  /** The source of an app's page; its address names the source (MCP-146). */
  #pagesOf(toolkit: string, catalog: Catalog): readonly ServedEntry[] {
    const sources = [...this.#tables.of(catalog, 'resources').values()]
    return sources.filter(({ tool }) => tool.parts.toolkit === toolkit)
  }

  /** Entries that may have an address, the likeliest first. */
  #ownersOf(uri: string, catalog: Catalog): readonly ServedEntry[] {
    const own = [...this.#tables.of(catalog, 'resource').values()].filter(
      ({ entry }) => entry.definition.uri === uri,
    )
    const templates = [...this.#tables.of(catalog, 'template').values()]
      .map((served) => ({ served, matcher: templateMatcher(String(served.entry.definition.uriTemplate)) }))
      .filter(({ served, matcher }) => served.entry.hasAddress?.(uri) ?? matcher.matches(uri))
      .sort((left, right) => right.matcher.literals - left.matcher.literals)
      .map(({ served }) => served)
    return [...own, ...templates, ...this.#tables.of(catalog, 'resources').values()]
  }

  #cursor(further: ReadonlyMap<string, string>, principal: Principal): string {
    const text = Buffer.from(JSON.stringify([...further])).toString('base64url')
    return `${text}.${this.#signatureOf(text, principal)}`
  }

  /** `undefined` for a cursor that was not issued to this principal. */
  #openCursor(
    cursor: JsonValue | undefined,
    principal: Principal,
  ): 'start' | ReadonlyMap<string, string> | undefined {
    if (cursor === undefined) return 'start'
    const [text = '', signature = ''] = typeof cursor === 'string' ? cursor.split('.') : []
    if (text === '' || !isSameSecret(signature, this.#signatureOf(text, principal))) return undefined
    return new Map(JSON.parse(Buffer.from(text, 'base64url').toString()))
  }

  #signatureOf(text: string, { tenant, id }: Principal): string {
    return this.#services.sign(JSON.stringify(['mcp resources cursor', tenant, id, text]))
  }
}

const UNKNOWN_CODES: ReadonlySet<number> = new Set([MCP_CODES.resourceNotFound, JSON_RPC_CODES.badParams])

/** True for the error of an upstream that has no such resource: another source may have it. */
function isUnknown({ json = '' }: Answer): boolean {
  const code = /^\{"jsonrpc":"2\.0",(?:"id":(?:"(?:[^"\\]|\\.)*"|-?\d+),)?"error":\{"code":(-?\d+),/.exec(
    json,
  )?.[1]
  return code !== undefined && UNKNOWN_CODES.has(Number(code))
}

/** Members that a revision does not know. */
function withoutNews(item: JsonObject, revision: Revision): JsonObject {
  if (TRAITS[revision].hasIcons || item.icons === undefined) return item
  const { icons: _icons, ...rest } = item
  return rest
}

/** Finds out whether an address may come from a URI template (RFC 6570); the server that offers the template expands and checks it. */
interface TemplateMatcher {
  matches(uri: string): boolean
  /** Characters outside of expressions: of two templates that match, the one with more is the likelier. */
  readonly literals: number
}

const known = new Map<string, TemplateMatcher>()
const MAX_KNOWN = 10_000

function templateMatcher(template: string): TemplateMatcher {
  const found = known.get(template)
  if (found !== undefined) return found
  const made = makeMatcher(template)
  if (known.size >= MAX_KNOWN) known.clear()
  known.set(template, made)
  return made
}

/** The texts around the expressions must occur in their order, from the beginning to the end: no pattern, so never slow. */
function makeMatcher(template: string): TemplateMatcher {
  const [first = '', ...rest] = template.split(/\{[^{}]*\}/)
  const last = rest.pop()
  return {
    literals: template.replaceAll(/\{[^{}]*\}/g, '').length,
    matches(uri) {
      if (last === undefined) return uri === first
      if (!uri.startsWith(first)) return false
      let at = first.length
      for (const text of rest) {
        const found = uri.indexOf(text, at)
        if (found === -1) return false
        at = found + text.length
      }
      return uri.length - last.length >= at && uri.endsWith(last)
    },
  }
}
