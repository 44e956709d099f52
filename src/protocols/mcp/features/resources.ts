import { isSameSecret } from '#kernel/base/hash'
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Catalog } from '#kernel/tool/catalog'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from '#protocols/mcp/codec-message'
import { outerUri } from '#protocols/mcp/codec-tool'
import type { McpExchange, McpFeature, McpServices } from '#protocols/mcp/exchange'
import { listMethod, withOwnItems } from '#protocols/mcp/lists'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { ReadResults } from '#protocols/mcp/results/read-result'
import type { ToolCalls } from '#protocols/mcp/tool-calls'
import { ALL_REVISIONS, MCP_CODES, type Revision, TRAITS } from '#protocols/mcp/wire'
import { type EntryTables, listedEntry, type ServedEntry } from './entry-tables.ts'
import { findOwners } from './resource-owners.ts'
import type { SkillAddress, SkillTables } from './skills.ts'

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
  readonly skills: SkillTables
  readonly results: ReadResults
}

export function resourceFeature(
  services: McpServices,
  envelopes: ResultEnvelopes,
  parts: ResourceParts,
): McpFeature {
  const { tables, results } = parts
  const resources = new Resources(services, envelopes, parts)
  const templates = {
    member: 'resourceTemplates',
    itemsOf: (catalog: Catalog, revision: Revision) =>
      withOwnItems(
        distinctTemplates(tables.of(catalog, 'template')).map((served) => listedEntry(served, {}, revision)),
        results.listedTemplate(catalog),
      ),
  } as const
  return {
    capabilities: { resources: { listChanged: true, subscribe: true } },
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
  readonly #skills: SkillTables
  readonly #results: ReadResults

  constructor(services: McpServices, envelopes: ResultEnvelopes, parts: ResourceParts) {
    const { calls, tables, skills, results } = parts
    this.#services = services
    this.#envelopes = envelopes
    this.#calls = calls
    this.#tables = tables
    this.#skills = skills
    this.#results = results
  }

  /** A page contains one page of every source; its cursor contains the cursors of the sources that have more (MCP-113). */
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
        const servesSkills = source.entry.definition.skills === true
        const page = await this.#page(
          source,
          cursors === 'start' ? undefined : cursors.get(toolkit),
          exchange,
        )
        return { toolkit, servesSkills, ...page }
      }),
    )
    const own = cursors === 'start' ? [...this.#tables.of(catalog, 'resource').values()] : []
    const items = [
      ...own.map((served) => ({
        uri: served.entry.definition.uri,
        json: listedEntry(served, {}, revision).json,
      })),
      ...(cursors === 'start' ? this.#skills.ownResources(catalog) : []).map((item) => ({
        uri: item.uri,
        json: JSON.stringify(item),
      })),
      ...pages.flatMap(({ items: found, toolkit, servesSkills }) =>
        found.flatMap((item) => {
          const shown = withoutNewMembers(item, revision)
          if (typeof item.uri !== 'string') return { uri: undefined, json: JSON.stringify(shown) }
          const known = servesSkills ? this.#skills.listedUri(catalog, toolkit, item.uri) : item.uri
          if (known === undefined) return []
          const uri = catalog.hasNativeNames ? known : outerUri(toolkit, known)
          return { uri, json: JSON.stringify({ ...shown, uri }) }
        }),
      ),
    ]
    const listed = firstOfEach(items)
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

  /** One page of a source; empty if the source fails. */
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

  /** Reads from the first entry that has the address (MCP-115). */
  async read(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal } = exchange
    const uri = isJsonObject(params) ? params.uri : undefined
    if (typeof uri !== 'string')
      return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message: 'params.uri must be an address.' })
    const recorded = await this.#results.resource(uri, exchange)
    if (recorded !== undefined) return recorded
    const catalog = this.#services.gateway.catalogFor(principal)
    const skill = this.#skills.find(catalog, uri)
    if (skill !== undefined) return await this.#readSkillFile(skill, params, exchange)
    const { owners, nativeUri } = findOwners(uri, catalog, this.#tables)
    for (const owner of owners) {
      const input = owner.entry.kind === 'resources' ? { method: 'resources/read', uri: nativeUri } : { uri }
      const method = { noun: 'resource', resolve: () => ({ name: uri, input, served: owner }) } as const
      const answer = await this.#calls.call(method, params, exchange)
      if (!isUnknown(answer)) return answer
    }
    return unknownResource(uri, exchange)
  }

  /** A file of a skill is read from its skill only, which checks its digest (MCP-183). */
  async #readSkillFile(
    { served, inner, uri }: SkillAddress,
    params: JsonValue | undefined,
    exchange: McpExchange,
  ): Promise<Answer> {
    const input = { method: 'resources/read', uri: inner }
    const resolve = () => ({ name: uri, input, served })
    const answer = await this.#calls.call({ noun: 'resource', resolve }, params, exchange)
    return isUnknown(answer) ? unknownResource(uri, exchange) : answer
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

function unknownResource(uri: string, { id, revision }: McpExchange): Answer {
  const { resourceUnknownCode: code } = TRAITS[revision]
  return errorAnswer(id, { code, message: `Unknown resource: ${uri}`, data: { uri } })
}

const UNKNOWN_CODES: ReadonlySet<number> = new Set([MCP_CODES.resourceNotFound, JSON_RPC_CODES.badParams])

/** True for the error of an upstream that has no such resource: another source may have it. */
function isUnknown({ json = '' }: Answer): boolean {
  const code = /^\{"jsonrpc":"2\.0",(?:"id":(?:"(?:[^"\\]|\\.)*"|-?\d+),)?"error":\{"code":(-?\d+),/.exec(
    json,
  )?.[1]
  return code !== undefined && UNKNOWN_CODES.has(Number(code))
}

/** Removes the members that a revision does not have. */
function withoutNewMembers(item: JsonObject, revision: Revision): JsonObject {
  if (TRAITS[revision].hasIcons || item.icons === undefined) return item
  const { icons: _icons, ...rest } = item
  return rest
}

/** The first entry of each address, which also completes its parameters. Reading tries the other sources too. */
function distinctTemplates(served: ReadonlyMap<string, ServedEntry>): readonly ServedEntry[] {
  const byAddress = Map.groupBy(served.values(), ({ entry }) => entry.definition.uriTemplate)
  return [...byAddress.values()].flatMap(([first]) => first ?? [])
}

/** An address that several sources have is listed once, because only the first of them answers it (MCP-115). */
function firstOfEach(
  items: readonly { readonly uri: JsonValue | undefined; readonly json: string }[],
): readonly string[] {
  const seen = new Set<JsonValue>()
  return items.flatMap(({ uri, json }) => {
    if (uri === undefined) return json
    if (seen.has(uri)) return []
    seen.add(uri)
    return json
  })
}
