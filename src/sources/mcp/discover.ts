import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import { hasSkills } from '#protocols/mcp/codec-skill'
import { META } from '#protocols/mcp/wire'
import { isWanted } from '#sources/common/options'
import {
  type Discovery,
  MissingPrerequisiteError,
  type OfferedTool,
  type SourceServices,
} from '#sources/kit/source'
import { isWireArray, isWireObject, type McpConnection, textOf } from './connection.ts'
import { type EntryLists, readEntries } from './entries.ts'
import { errorText, isCredentialRefusal, isStale, StaleConnection } from './errors.ts'
import type { McpOptions } from './options.ts'
import { readTool } from './read-tool.ts'
import type { Endpoint, Upstream } from './upstream.ts'

/**
 * Lists the tools and entries of an MCP server. `index.ts` makes it the source's `discover`; calls list a program's tools with it.
 * Invariant: a list is read within limits of time, pages, tools and bytes, and an unreadable tool does not affect the others.
 */

export interface DiscoverSetting {
  readonly key: string
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly services: SourceServices
  readonly upstream: Upstream
  /** Aborted when the source is closed. */
  readonly stopped: AbortSignal
}

export async function discover(setting: DiscoverSetting, signal: AbortSignal): Promise<Discovery> {
  const { options, upstream, stopped } = setting
  const late = AbortSignal.timeout(options.discoverTimeoutMs)
  const deadline = AbortSignal.any([signal, late, stopped])
  try {
    return await list(setting, deadline).catch((error: unknown) => {
      if (error instanceof StaleConnection) return list(setting, deadline)
      throw error
    })
  } catch (error) {
    const cause = error instanceof StaleConnection ? error.cause : error
    if (isCredentialRefusal(cause)) upstream.listingRefused()
    const explained = explainDiscovery(cause, setting, late)
    if (!signal.aborted && !stopped.aborted) upstream.unlisted(explained)
    throw explained
  }
}

async function list(setting: DiscoverSetting, deadline: AbortSignal): Promise<Discovery> {
  const { upstream } = setting
  const { connection, release } = await upstream.common(deadline)
  try {
    const listing = await listAll(connection, deadline)
    connection.hasListed = true
    upstream.listed()
    return await readListing(setting, connection, listing)
  } catch (error) {
    if (!isStale(error, connection)) throw error
    // For example, a restarted server does not know the session.
    upstream.refused(connection)
    throw new StaleConnection('the connection was refused', { cause: error })
  } finally {
    release()
  }
}

export async function readListing(
  setting: Pick<DiscoverSetting, 'options' | 'endpoint'>,
  connection: McpConnection,
  listing: Listing,
): Promise<Discovery> {
  const warnings = [...listing.warnings]
  const named = await readAll(listing.tools, setting, warnings)
  const entries = readEntries(connection, listing, setting, warnings).filter(({ nativeName }) =>
    isWanted(nativeName, setting.options),
  )
  const tools = [...named, ...entries]
  const leftOut = listing.tools.flatMap(({ name }) =>
    typeof name === 'string' && !isWanted(name, setting.options) ? [name] : [],
  )
  const { title, name } = connection.server.info
  const called = textOf(title) || textOf(name)
  return {
    identity: identityOf(setting.endpoint, connection),
    ...(called === undefined ? {} : { name: called }),
    ...{ tools, warnings, leftOut },
  }
}

async function readAll(
  written: readonly JsonObject[],
  { options, endpoint }: Pick<DiscoverSetting, 'options' | 'endpoint'>,
  warnings: string[],
): Promise<readonly OfferedTool[]> {
  const tools = new Map<string, OfferedTool>()
  const yielder = new EventLoopYielder()
  for (const definition of written) {
    if (yielder.isDue) await yielder.yieldNow()
    if (typeof definition.name === 'string' && !isWanted(definition.name, options)) continue
    if (readsResults(definition)) continue
    const read = readTool(definition, options, endpoint)
    if (!read.ok) warnings.push(read.problem)
    else if (tools.has(read.tool.nativeName)) warnings.push(`"${read.tool.nativeName}" is offered twice`)
    else tools.set(read.tool.nativeName, read.tool)
  }
  return [...tools.values()]
}

/** True for the tool with which another Collet's callers read its recorded results. This server records results itself. */
function readsResults({ _meta }: JsonObject): boolean {
  return isWireObject(_meta) && _meta[META.readsResults] === true
}

/** The origin of a server, or the command of a program with the name and version that it reports (rule 32). */
function identityOf(endpoint: Endpoint, { server }: McpConnection): JsonObject {
  if (endpoint.transport === 'http') return { origin: new URL(endpoint.url).origin }
  const { name, version } = server.info
  return { ...endpoint.pinned, server: { name: textOf(name) ?? '', version: textOf(version) ?? '' } }
}

function explainDiscovery(error: unknown, { key, options }: DiscoverSetting, late: AbortSignal): ToolError {
  if (isToolError(error)) return error
  if (isCredentialRefusal(error))
    return fault('upstream_failed', `The MCP server "${key}" requires a credential to list its tools.`, {
      developerMessage: `HTTP ${error.details.status}: add a credential that may list tools to sources.${key}.headers.`,
      cause: new MissingPrerequisiteError('credential', error.message, { cause: error }),
    })
  const why = late.aborted ? `no answer within ${options.discoverTimeoutMs} ms` : errorText(error)
  return fault('upstream_failed', `The tools of the MCP server "${key}" cannot be listed.`, {
    developerMessage: why,
    canRetry: true,
    cause: error,
  })
}

const MAX_PAGES = 1000
const MAX_TOOLS = 10_000
const MIB = 1_048_576
/** All pages are held in memory until the last one is read. */
const MAX_LISTING_BYTES = 16 * MIB

interface Listing extends EntryLists {
  readonly tools: readonly JsonObject[]
  readonly warnings: readonly string[]
}

/** Reads every list that the server declares. An unreadable list is left out with a warning, except that of the tools. */
export async function listAll(connection: McpConnection, signal: AbortSignal): Promise<Listing> {
  const { capabilities } = connection.server
  const warnings: string[] = []
  const read = async (capability: string, method: string, member: string): Promise<readonly JsonObject[]> => {
    if (capabilities[capability] === undefined) return []
    const list = await listPages(connection, { method, member, signal })
    warnings.push(...list.warnings)
    return list.items
  }
  const readFurther = (capability: string, method: string, member: string) =>
    read(capability, method, member).catch((error: unknown) => {
      if (signal.aborted || isStale(error, connection)) throw error
      warnings.push(`${method} cannot be read: ${errorText(error)}`)
      return []
    })
  if (!LISTED.some((capability) => capabilities[capability] !== undefined))
    warnings.push('the server declares no tools, prompts or resources')
  return {
    tools: await read('tools', 'tools/list', 'tools'),
    prompts: await readFurther('prompts', 'prompts/list', 'prompts'),
    resourceTemplates: await readFurther('resources', 'resources/templates/list', 'resourceTemplates'),
    skills: hasSkills(capabilities) ? await readFurther('extensions', 'skills/list', 'skills') : [],
    warnings,
  }
}

const LISTED = ['tools', 'prompts', 'resources'] as const

interface PagedList {
  readonly method: string
  /** The member of the result that holds the list. */
  readonly member: string
  readonly signal: AbortSignal
}

/** Reads every page of a list (MCP/T-12), up to the limits. */
async function listPages(
  connection: McpConnection,
  { method, member, signal }: PagedList,
): Promise<{ readonly items: readonly JsonObject[]; readonly warnings: readonly string[] }> {
  const items: JsonObject[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  let bytes = 0
  const yielder = new EventLoopYielder()
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const result = await connection.request(method, cursor === undefined ? {} : { cursor }, { signal })
    const page = result[member]
    if (!isWireArray(page)) throw new TypeError(`${method} returned no list of ${member}`)
    // Parsing the page may have taken long.
    await yielder.yieldNow()
    for (const item of page) {
      bytes += Buffer.byteLength(JSON.stringify(item))
      if (bytes > MAX_LISTING_BYTES)
        return { items, warnings: [`only the first ${MAX_LISTING_BYTES / MIB} MiB of ${method} are read`] }
      if (isWireObject(item)) items.push(item)
      if (yielder.isDue) await yielder.yieldNow()
    }
    if (items.length > MAX_TOOLS)
      return {
        items: items.slice(0, MAX_TOOLS),
        warnings: [`only the first ${MAX_TOOLS} ${member} are read`],
      }
    cursor = textOf(result.nextCursor)
    if (cursor === undefined) return { items, warnings: [] }
    if (seen.has(cursor)) return { items, warnings: [`the cursors of ${method} form a loop`] }
    seen.add(cursor)
  }
  return { items, warnings: [`only the first ${MAX_PAGES} pages of ${method} are read`] }
}
