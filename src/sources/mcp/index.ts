import { fault } from '#kernel/base/errors'
import { isWanted } from '#sources/common/options'
import type { OfferedTool, Source, SourceServices, UpstreamList } from '#sources/kit/source'
import { createInvoke } from './call-tool.ts'
import { discover } from './discover.ts'
import { entryPolicy } from './entries.ts'
import type { McpOptions } from './options.ts'
import type { ProcessLimit } from './pool.ts'
import { mcpPolicy, mcpSchemas, mcpShownHints } from './read-tool.ts'
import { endpointOf, SessionConnection, Upstream } from './upstream.ts'

/**
 * An MCP server as a source of tools: a command (stdio) or a URL (Streamable HTTP), in all revisions. The table of source types
 * opens it.
 * Invariant: after `close` the source reports no changes and has no connections.
 */

/** Minimum time between two reports that tools have changed. */
const CHANGE_GAP_MS = 1000

export function createMcpSource(
  key: string,
  given: McpOptions,
  services: SourceServices,
  /** Default: the limit that all sources share. */
  processes?: ProcessLimit,
): Source {
  const options = withProvider(given, key)
  const endpoint = endpointOf(options, services)
  const stopped = new AbortController()
  let report: (lists: readonly UpstreamList[]) => void = () => undefined
  const changed = new Set<UpstreamList>()
  const reportAll = throttle(() => {
    const lists = [...changed]
    changed.clear()
    if (!stopped.signal.aborted) report(lists)
  }, CHANGE_GAP_MS)
  const upstream = new Upstream({
    ...{ key, endpoint, options, services },
    ...(processes === undefined ? {} : { processes }),
    onChange: (lists = []) => {
      for (const list of lists) changed.add(list)
      reportAll()
    },
  })
  const isStateful = options.stateful ?? endpoint.transport === 'stdio'
  const setting = { key, endpoint, options, services, upstream, stopped: stopped.signal }
  return {
    key,
    type: 'mcp',
    kind: 'mcp',
    ...(options.vendor === undefined ? {} : { vendor: options.vendor }),
    watch(onChange) {
      report = onChange
    },
    renew: () => upstream.renew(),
    discover: (signal) => discover(setting, signal),
    invoke: createInvoke(setting),
    watchResource: (uri, principal, onUpdated) => upstream.subscriptions.watch(uri, principal, onUpdated),
    sessionOf({ binding }) {
      if (!isStateful || binding.entry !== undefined) return undefined
      return {
        isOptional: true,
        open: ({ sessionId }) => new SessionConnection(sessionId, upstream),
        close: (state) => {
          if (state instanceof SessionConnection) return state.close()
          throw fault('internal', 'The session state does not belong to an MCP source.')
        },
      }
    },
    policyFor: (tool: OfferedTool) =>
      tool.binding.entry === undefined ? mcpPolicy(tool, options) : entryPolicy(tool.nativeName, options),
    shownHintsFor: (tool: OfferedTool) => mcpShownHints(tool, options),
    authoredFor: (tool: OfferedTool) => (tool.entry === undefined ? mcpSchemas(tool) : undefined),
    wants: ({ nativeName }) => isWanted(nativeName, options),
    health: () => upstream.health,
    async close() {
      stopped.abort()
      await upstream.close()
    },
  }
}

/** A source that names no provider uses the one that has the key of the source. */
function withProvider(options: McpOptions, key: string): McpOptions {
  const { authorization } = options
  if (authorization === undefined || authorization.provider !== '') return options
  return { ...options, authorization: { ...authorization, provider: key } }
}

/** Runs a function at most once per gap: immediately, and again at the end of the gap if it was called meanwhile. */
export function throttle(run: () => void, gapMs: number): () => void {
  let pausing: NodeJS.Timeout | undefined
  let isWanted = false
  const go = (): void => {
    if (pausing !== undefined) {
      isWanted = true
      return
    }
    isWanted = false
    pausing = setTimeout(() => {
      pausing = undefined
      if (isWanted) go()
    }, gapMs)
    pausing.unref()
    run()
  }
  return go
}
