import { fault, isToolError, type ToolError } from '#core/errors'
import type { JsonObject } from '#core/json'
import type { Discovery, OfferedTool, SourceServices } from '#core/ports/source'
import { Breather } from '#core/runtime'
import { isWanted } from '#sources/common/policy-options'
import type { Connection } from './connection.ts'
import { type Endpoint, endpointJson } from './endpoint.ts'
import { isRefusal, isStale, reasonOf, StaleConnection } from './explain.ts'
import { listTools, type ToolListing } from './list-tools.ts'
import { listenForChanges } from './listen.ts'
import type { McpOptions } from './options.ts'
import { readTool } from './read-tool.ts'
import type { Upstream } from './upstream.ts'

export interface DiscoverSetting {
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
  return { identity: identityOf(setting.endpoint, connection), tools, warnings, leftOut }
}

async function readAll(
  written: readonly JsonObject[],
  { options, endpoint }: Pick<DiscoverSetting, 'options' | 'endpoint'>,
  warnings: string[],
): Promise<readonly OfferedTool[]> {
  const tools = new Map<string, OfferedTool>()
  const breather = new Breather()
  for (const definition of written) {
    if (breather.isDue) await breather.breathe()
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
      cause: error,
    })
  const why = late.aborted ? `no answer within ${options.discoverTimeoutMs} ms` : reasonOf(error)
  return fault('upstream_failed', `The tools of the MCP server "${key}" cannot be listed.`, {
    developerMessage: why,
    canRetry: true,
    cause: error,
  })
}
