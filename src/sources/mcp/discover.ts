import { setTimeout as pause } from 'node:timers/promises'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { EventLoopYielder } from '#kernel/base/long-work'
import { isWanted } from '#sources/common/options'
import { type Discovery, type OfferedTool, type SourceServices, UpstreamLacks } from '#sources/kit/source'
import { isWireArray, isWireObject, type McpConnection, textOf } from './connection.ts'
import { errorText, isCredentialRefusal, isStale, StaleConnection } from './errors.ts'
import type { McpOptions } from './options.ts'
import { readTool } from './read-tool.ts'
import { CALL_BOUNDS } from './transport.ts'
import type { Endpoint, Upstream } from './upstream.ts'

/**
 * Lists the tools of an MCP server, and subscribes to changes of the list. Invariant: a list is read within bounds of
 * time, pages, tools and bytes, and an unreadable tool does not affect the others.
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

const LISTENING = new WeakSet<McpConnection>()

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
    // A server that was restarted does not know the session.
    upstream.refused(connection)
    throw new StaleConnection('the connection was refused', { cause: error })
  } finally {
    release()
  }
}

export async function readListing(
  setting: Pick<DiscoverSetting, 'options' | 'endpoint'>,
  connection: McpConnection,
  listing: ToolListing,
): Promise<Discovery> {
  const warnings = [...listing.warnings]
  const tools = await readAll(listing.tools, setting, warnings)
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
    const read = readTool(definition, options, endpoint)
    if (!read.ok) warnings.push(read.problem)
    else if (tools.has(read.tool.nativeName)) warnings.push(`"${read.tool.nativeName}" is offered twice`)
    else tools.set(read.tool.nativeName, read.tool)
  }
  return [...tools.values()]
}

/** Rule 32: the origin, or the command and the name and version that the program reports. */
function identityOf(endpoint: Endpoint, { server }: McpConnection): JsonObject {
  if (endpoint.transport === 'http') return { origin: new URL(endpoint.url).origin }
  const { name, version } = server.info
  return { ...endpoint.pinned, server: { name: textOf(name) ?? '', version: textOf(version) ?? '' } }
}

function listen({ services, upstream, stopped }: DiscoverSetting, connection: McpConnection): void {
  if (!connection.isModern || !connection.hasToolChanges || LISTENING.has(connection)) return
  LISTENING.add(connection)
  const onMissed = (): void => upstream.outdated()
  void listenForChanges(connection, { log: services.log, signal: stopped, onMissed })
}

function explainDiscovery(error: unknown, { key, options }: DiscoverSetting, late: AbortSignal): ToolError {
  if (isToolError(error)) return error
  if (isCredentialRefusal(error))
    return fault('upstream_failed', `The MCP server "${key}" wants a credential before it lists its tools.`, {
      developerMessage: `HTTP ${error.details.status}: write one that may list to sources.${key}.headers.`,
      cause: new UpstreamLacks('credential', error.message, { cause: error }),
    })
  const why = late.aborted ? `no answer within ${options.discoverTimeoutMs} ms` : errorText(error)
  return fault('upstream_failed', `The tools of the MCP server "${key}" cannot be listed.`, {
    developerMessage: why,
    canRetry: true,
    cause: error,
  })
}

const FIRST_PAUSE_MS = 1000
const MAX_PAUSE_MS = 60_000
const ACKNOWLEDGED_MS = 10_000

/** 2026-07-28 reports changes only on a stream that was subscribed to (MCP-47); it is opened again whenever it ends. */
async function listenForChanges(
  connection: McpConnection,
  { log, signal, onMissed }: { readonly log: Logger; readonly signal: AbortSignal; onMissed(): void },
): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS
  let wasOpen = false
  while (connection.isOpen && !signal.aborted) {
    const unacknowledged = new AbortController()
    const timer = setTimeout(() => unacknowledged.abort(new Error('not acknowledged')), ACKNOWLEDGED_MS)
    const onAcknowledged = (): void => {
      clearTimeout(timer)
      pauseMs = FIRST_PAUSE_MS
      // Changes between two streams are not reported.
      if (wasOpen) onMissed()
      wasOpen = true
    }
    pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)
    const options = {
      signal: AbortSignal.any([signal, unacknowledged.signal]),
      // On stdio the bounds hold for the answers of calls beside it.
      bounds: CALL_BOUNDS,
      onAcknowledged,
    }
    await connection
      .request('subscriptions/listen', { notifications: { toolsListChanged: true } }, options)
      .catch((err: unknown) => log.debug({ err }, 'The subscription to the MCP server ended'))
    clearTimeout(timer)
    await pause(pauseMs, undefined, { signal, ref: false }).catch(() => undefined)
  }
}

const MAX_PAGES = 1000
const MAX_TOOLS = 10_000
const MIB = 1_048_576
/** All pages are held in memory until the last one is read. */
const MAX_LISTING_BYTES = 16 * MIB

interface ToolListing {
  readonly tools: readonly JsonObject[]
  readonly warnings: readonly string[]
}

/** Reads every page of `tools/list` (MCP/T-12), up to the bounds. */
export async function listTools(connection: McpConnection, signal: AbortSignal): Promise<ToolListing> {
  if (connection.server.capabilities.tools === undefined)
    return { tools: [], warnings: ['the server declares that it has no tools'] }
  const tools: JsonObject[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  let bytes = 0
  const yielder = new EventLoopYielder()
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const result = await connection.request('tools/list', cursor === undefined ? {} : { cursor }, { signal })
    if (!isWireArray(result.tools)) throw new TypeError('tools/list gave no list of tools')
    // Parsing the page was a long step.
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
    if (seen.has(cursor)) return { tools, warnings: ['the cursors of tools/list form a loop'] }
    seen.add(cursor)
  }
  return { tools, warnings: [`only the first ${MAX_PAGES} pages of tools/list are read`] }
}
