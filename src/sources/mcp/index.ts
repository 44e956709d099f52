import { fault, isToolError } from '#kernel/base/errors'
import type { SessionDefinition } from '#kernel/tool/define'
import { isWanted } from '#sources/common/options'
import type { Discovery, Invocation, OfferedTool, Source, SourceServices } from '#sources/kit/source'
import { discover } from './discover.ts'
import { invoke, SessionHold } from './invoke.ts'
import type { McpOptions } from './options.ts'
import type { ProcessLimit } from './pool.ts'
import { mcpPolicy, mcpShownHints } from './read-tool.ts'
import { endpointOf, Upstream } from './upstream.ts'

/** However often an upstream says that it changed, or callers meet definitions that are none any more. */
const NEWS_GAP_MS = 1000

/** Any MCP server as a source of tools: a command (stdio) or a URL (Streamable HTTP), old and new revisions. */
export function createMcpSource(
  key: string,
  options: McpOptions,
  services: SourceServices,
  /** Processes of all sources together; shared by all by default. */
  processes?: ProcessLimit,
): Source {
  const endpoint = endpointOf(options, services)
  const stopped = new AbortController()
  let tell: () => void = () => undefined
  const upstream = new Upstream({
    key,
    endpoint,
    options,
    services,
    ...(processes === undefined ? {} : { processes }),
    onChange: throttle(() => {
      if (!stopped.signal.aborted) tell()
    }, NEWS_GAP_MS),
  })
  const isStateful = options.stateful ?? endpoint.transport === 'stdio'
  const setting = { key, endpoint, options, services, upstream, stopped: stopped.signal }
  const source = {
    key,
    type: 'mcp',
    kind: 'mcp' as const,
    watch(onChange: () => void): void {
      tell = onChange
    },
    renew: () => upstream.renew(),
    discover: (signal: AbortSignal): Promise<Discovery> => discover(setting, signal),
    async invoke(invocation: Invocation): ReturnType<Source['invoke']> {
      try {
        const value = await invoke(setting, invocation)
        upstream.worked()
        return value
      } catch (error) {
        if (isToolError(error)) upstream.troubled(error)
        throw error
      }
    },
    sessionOf(_tool: OfferedTool): SessionDefinition | undefined {
      if (!isStateful) return undefined
      return {
        // Calls outside of sessions share the connection of their principal.
        isOptional: true,
        open: ({ sessionId }) => new SessionHold(sessionId, upstream),
        close: (state) => {
          if (state instanceof SessionHold) return state.close()
          throw fault('internal', 'This is not the state of a session of an MCP server.')
        },
      }
    },
    /** What the operator writes now holds for accepted definitions too. */
    ...(options.vendor === undefined ? {} : { vendor: options.vendor }),
    policyFor: (tool: OfferedTool) => mcpPolicy(tool, options),
    shownHintsFor: (tool: OfferedTool) => mcpShownHints(tool, options),
    wants: ({ nativeName }: OfferedTool) => isWanted(nativeName, options),
    health: () => upstream.health,
    async close() {
      stopped.abort()
      await upstream.close()
    },
  }
  return source
}

interface Throttled {
  (): void
  stop(): void
}

/** The same function, at most once per gap: at once, and once more at its end if it was asked for in between. */
export function throttle(run: () => void, gapMs: number): Throttled {
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
  const stop = (): void => clearTimeout(pausing)
  return Object.assign(go, { stop })
}
