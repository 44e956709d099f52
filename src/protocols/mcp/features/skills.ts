import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from '#protocols/mcp/codec-message'
import {
  innerSkillUri,
  outerSkill,
  outerSkillUri,
  SKILL_SCHEME,
  SKILLS_EXTENSION,
  skillFiles,
  skillFolder,
  skillRoot,
} from '#protocols/mcp/codec-skill'
import type { McpExchange, McpFeature, McpServices } from '#protocols/mcp/exchange'
import { listMethod } from '#protocols/mcp/lists'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { ToolCalls } from '#protocols/mcp/tool-calls'
import { ALL_REVISIONS, TRAITS } from '#protocols/mcp/wire'
import type { EntryTables, ServedEntry } from './entry-tables.ts'

/*
 * Skills (SEP-2640): `skills/list`, `skills/get` and `resources/directory/read`; their files are read by `resources/read`, which
 * finds a file's skill here (MCP-200 to MCP-206). `methods.ts` lists the feature.
 * Invariant: a skill is listed as the operator accepted it, and reading it or one of its files is a durable call of its entry.
 */

const CACHING = { ttlMs: 5_000, cacheScope: 'private' } as const

/** A skill and the form of it that clients see. */
interface ServedSkill {
  readonly served: ServedEntry
  /** Its definition with the addresses that clients use. */
  readonly shown: JsonObject
}

/** A skill, and the address of one of its files. */
export interface SkillAddress extends ServedSkill {
  /** As the client wrote it, without a fragment. */
  readonly uri: string
  /** The address at the skill's source. */
  readonly inner: string
}

/** The skills of each catalog by the addresses of their folders. */
export class SkillTables {
  readonly #tables: EntryTables
  readonly #byCatalog = new WeakMap<Catalog, ReadonlyMap<string, ServedSkill>>()

  constructor(tables: EntryTables) {
    this.#tables = tables
  }

  of(catalog: Catalog): ReadonlyMap<string, ServedSkill> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const found = [...this.#tables.of(catalog, 'skill').values()].flatMap(
      (served): readonly [string, ServedSkill][] => {
        const { definition } = served.entry
        const shown = catalog.hasNativeNames ? definition : outerSkill(served.tool.parts.toolkit, definition)
        const root = skillRoot(String(shown.uri))
        return root === undefined ? [] : [[root, { served, shown }]]
      },
    )
    const made = new Map(found)
    this.#byCatalog.set(catalog, made)
    return made
  }

  /** The skill whose folder holds an address; `undefined` if the principal sees none. */
  find(catalog: Catalog, uri: string): SkillAddress | undefined {
    const skills = this.of(catalog)
    const url = skills.size === 0 ? null : URL.parse(uri)
    if (url === null) return undefined
    url.hash = ''
    const address = url.href.replace(/\/+$/, '')
    for (let end = address.length; end > 0; end = address.lastIndexOf('/', end - 1)) {
      const skill = skills.get(address.slice(0, end))
      if (skill !== undefined)
        return { ...skill, uri: address, inner: catalog.hasNativeNames ? address : innerSkillUri(address) }
    }
    return undefined
  }

  /** The skills written as code, as `resources/list` shows them; MCP servers list theirs themselves. */
  ownResources(catalog: Catalog): readonly JsonObject[] {
    const own = [...this.of(catalog).values()].filter(({ served }) => served.tool.source !== 'mcp')
    return own.map(({ shown: { uri = '', frontmatter, ...skill } }) => {
      const { name = '', description = '' } = isJsonObject(frontmatter) ? frontmatter : {}
      const size = skillFiles(skill)?.find((file) => file.uri === uri)?.size ?? 0
      return { uri, name, description, mimeType: 'text/markdown', size }
    })
  }

  /** The address in `resources/list` for one of a source that serves skills; `undefined` for a file of a hidden skill. */
  listedUri(catalog: Catalog, toolkit: string, uri: string): string | undefined {
    if (!uri.startsWith(SKILL_SCHEME)) return uri
    const shown = catalog.hasNativeNames ? uri : outerSkillUri(toolkit, uri)
    return this.find(catalog, shown) === undefined ? undefined : shown
  }
}

interface SkillParts {
  readonly calls: ToolCalls
  readonly skills: SkillTables
}

export function skillFeature(
  services: McpServices,
  envelopes: ResultEnvelopes,
  { calls, skills }: SkillParts,
): McpFeature {
  const { gateway } = services
  const list = {
    member: 'skills',
    itemsOf: (catalog: Catalog) =>
      [...skills.of(catalog).values()].map(({ served, shown }) => ({
        name: served.name,
        json: JSON.stringify(shown),
      })),
  } as const
  const get = (params: JsonValue | undefined, exchange: McpExchange): Answer | Promise<Answer> => {
    const uri = uriOf(params)
    if (uri === undefined) return badUri(exchange)
    const found = skills.find(gateway.catalogFor(exchange.principal), uri)
    const isManifest = found !== undefined && skillRoot(uri) === skillRoot(String(found.shown.uri))
    if (!isManifest) return unknown(exchange, `Unknown skill: ${uri}`)
    const resolve = () => ({ name: uri, input: { method: 'skills/get' }, served: found.served })
    return calls.call({ noun: 'skill', resolve }, params, exchange)
  }
  const readFolder = (params: JsonValue | undefined, exchange: McpExchange): Answer | Promise<Answer> => {
    const uri = uriOf(params)
    if (uri === undefined) return badUri(exchange)
    const found = skills.find(gateway.catalogFor(exchange.principal), uri)
    if (found === undefined) return unknown(exchange, `Not a folder: ${uri}`)
    if (skillFiles(found.shown) === undefined) return readDynamicFolder(found, params, exchange)
    const resources = skillFolder(found.shown, uri)
    if (resources === undefined) return unknown(exchange, `Not a folder: ${uri}`)
    const caching = TRAITS[exchange.revision].hasResultType ? CACHING : {}
    const json = JSON.stringify({ resources, ...caching }).slice(1, -1)
    return resultAnswer(exchange.id, envelopes.of(exchange.revision).complete(json))
  }
  /** Asks the source, because the files of a dynamic skill are not known here. */
  const readDynamicFolder = (
    { served, inner }: SkillAddress,
    params: JsonValue | undefined,
    exchange: McpExchange,
  ): Promise<Answer> => {
    const { uri = '', cursor } = isJsonObject(params) ? params : {}
    const input = {
      method: 'resources/directory/read',
      uri: inner,
      ...(cursor === undefined ? {} : { cursor }),
    }
    return calls.call(
      { noun: 'folder', resolve: () => ({ name: String(uri), input, served }) },
      params,
      exchange,
    )
  }
  return {
    capabilities: { extensions: { [SKILLS_EXTENSION]: { directoryRead: true } } },
    methods: [
      ['skills/list', ALL_REVISIONS, listMethod(services, envelopes, list)],
      ['skills/get', ALL_REVISIONS, get],
      ['resources/directory/read', ALL_REVISIONS, readFolder],
    ],
  }
}

function uriOf(params: JsonValue | undefined): string | undefined {
  const uri = isJsonObject(params) ? params.uri : undefined
  return typeof uri === 'string' ? uri : undefined
}

function badUri({ id }: McpExchange): Answer {
  return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message: 'params.uri must be an address.' })
}

/** A hidden skill is unknown (rule 2). */
function unknown({ id }: McpExchange, message: string): Answer {
  return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
}
