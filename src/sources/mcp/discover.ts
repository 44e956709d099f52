import { setTimeout as pause } from 'node:timers/promises'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { EventLoopYielder } from '#kernel/base/long-work'
import { isWanted } from '#sources/common/options'
import { type Discovery, type OfferedTool, type SourceServices, UpstreamLacks } from '#sources/kit/source'
import { type Connection, isWireArray, isWireObject, textOf } from './connection.ts'
import { isRefusal, isStale, reasonOf, StaleConnection } from './errors.ts'
import type { McpOptions } from './options.ts'
import { readTool } from './read-tool.ts'
import { type Endpoint, endpointJson, type Upstream } from './upstream.ts'

interface DiscoverSetting {
  readonly key: string
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly services: SourceServices
  readonly upstream: Upstream
  /** Aborted when the source is closed. */
  readonly stopped: AbortSignal
}

const LISTENING = new WeakSet<Connection>()

/** What the upstream offers now, within its time. */
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
    const explained = explainDiscovery(cause, setting, late)
    if (!signal.aborted && !stopped.aborted) upstream.unlisted(explained)
    throw explained
  }
}

async function list(setting: DiscoverSetting, deadline: AbortSignal): Promise<Discovery> {
  const { upstream } = setting
  const { connection, release } = await upstream.common(deadline)
  try {
    const listing = await listTools(connection, deadline)
    connection.hasListed = true
    upstream.listed()
    listen(setting, connection)
    return await readListing(setting, connection, listing)
  } catch (error) {
    if (!isStale(error, connection)) throw error
    // Pain 7: an upstream that was restarted knows nothing of the session before.
    upstream.refused(connection)
    throw new StaleConnection('the connection was refused', { cause: error })
  } finally {
    release()
  }
}

/** In pieces: what a list makes of it is for the upstream to say. */
export async function readListing(
  setting: Pick<DiscoverSetting, 'options' | 'endpoint'>,
  connection: Connection,
  listing: ToolListing,
): Promise<Discovery> {
  const warnings = [...listing.warnings]
  const tools = await readAll(listing.tools, setting, warnings)
  const leftOut = listing.tools.flatMap(({ name }) =>
    typeof name === 'string' && !isWanted(name, setting.options) ? [name] : [],
  )
  const { title, name } = connection.client.getServerVersion() ?? {}
  const called = title || name
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
    const read = readTool(definition, options, endpoint)
    if (!read.ok) warnings.push(read.problem)
    else if (tools.has(read.tool.nativeName)) warnings.push(`"${read.tool.nativeName}" is offered twice`)
    else tools.set(read.tool.nativeName, read.tool)
  }
  return [...tools.values()]
}

/** Rule 32: the origin, or the command and the version that the program says it has. */
function identityOf(endpoint: Endpoint, { client }: Connection): JsonObject {
  if (endpoint.transport === 'http') return { origin: new URL(endpoint.url).origin }
  const { name, version } = client.getServerVersion() ?? {}
  return { ...endpointJson(endpoint), server: { name: name ?? '', version: version ?? '' } }
}

function listen({ services, upstream, stopped }: DiscoverSetting, connection: Connection): void {
  const canTell = connection.client.getServerCapabilities()?.tools?.listChanged === true
  if (!connection.isModern || !canTell || LISTENING.has(connection)) return
  LISTENING.add(connection)
  const onMissed = (): void => upstream.outdated()
  void listenForChanges(connection, { log: services.log, signal: stopped, onMissed })
}

function explainDiscovery(error: unknown, { key, options }: DiscoverSetting, late: AbortSignal): ToolError {
  if (isToolError(error)) return error
  if (isRefusal(error))
    return fault('upstream_failed', `The MCP server "${key}" wants a credential before it lists its tools.`, {
      developerMessage: `HTTP ${error.status}: write one that may list to sources.${key}.headers.`,
      cause: new UpstreamLacks('credential', error.message, { cause: error }),
    })
  const why = late.aborted ? `no answer within ${options.discoverTimeoutMs} ms` : reasonOf(error)
  return fault('upstream_failed', `The tools of the MCP server "${key}" cannot be listed.`, {
    developerMessage: why,
    canRetry: true,
    cause: error,
  })
}

const FIRST_PAUSE_MS = 1000
const MAX_PAUSE_MS = 60_000
const ACKNOWLEDGED_MS = 10_000

/** 2026-07-28 tells of changes only on a stream that was asked for; it is asked for again whenever it ends. */
async function listenForChanges(
  connection: Connection,
  { log, signal, onMissed }: { readonly log: Logger; readonly signal: AbortSignal; onMissed(): void },
): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS
  let isAgain = false
  while (connection.isOpen && !signal.aborted) {
    try {
      const subscription = await connection.client.listen(
        { toolsListChanged: true },
        { timeout: ACKNOWLEDGED_MS },
      )
      pauseMs = FIRST_PAUSE_MS
      // Nobody heard what changed between two streams.
      if (isAgain) onMissed()
      isAgain = true
      await subscription.closed
    } catch (error) {
      log.debug({ err: error }, 'The MCP server does not take our subscription')
      pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)
    }
    await pause(pauseMs, undefined, { signal, ref: false }).catch(() => undefined)
  }
}

const MAX_PAGES = 1000
const MAX_TOOLS = 10_000
const MIB = 1_048_576
/** They are held until all are here. */
const MAX_LISTING_BYTES = 16 * MIB

interface ToolListing {
  readonly tools: readonly JsonObject[]
  readonly warnings: readonly string[]
}

/** Every page of `tools/list` (MCP/T-12), but no endless ones. */
export async function listTools(connection: Connection, signal: AbortSignal): Promise<ToolListing> {
  if (connection.client.getServerCapabilities()?.tools === undefined)
    return { tools: [], warnings: ['the server says that it has no tools'] }
  const tools: JsonObject[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  let bytes = 0
  const yielder = new EventLoopYielder()
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const result = await connection.request('tools/list', cursor === undefined ? {} : { cursor }, signal)
    if (!isWireArray(result.tools)) throw new TypeError('tools/list gave no list of tools')
    // Reading the page was a long step already.
    await yielder.yieldNow()
    for (const tool of result.tools) {
      bytes += Buffer.byteLength(JSON.stringify(tool))
      if (bytes > MAX_LISTING_BYTES)
        return {
          tools,
          warnings: [`only the first ${MAX_LISTING_BYTES / MIB} MiB of tools/list are read`],
        }
      if (isWireObject(tool)) tools.push(tool)
      if (yielder.isDue) await yielder.yieldNow()
    }
    if (tools.length > MAX_TOOLS)
      return { tools: tools.slice(0, MAX_TOOLS), warnings: [`only the first ${MAX_TOOLS} tools are read`] }
    cursor = textOf(result.nextCursor)
    if (cursor === undefined) return { tools, warnings: [] }
    if (seen.has(cursor)) return { tools, warnings: ['the pages of tools/list run in a circle'] }
    seen.add(cursor)
  }
  return { tools, warnings: [`only the first ${MAX_PAGES} pages of tools/list are read`] }
}
