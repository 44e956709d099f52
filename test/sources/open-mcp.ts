import { createGuardedFetch } from '#egress/guarded-fetch'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { MAX_TIMER_MS, plainValue, type StatefulContext } from '#kernel/tool/tool'
import type { Discovery, Source, SourceServices } from '#sources/kit/source'
import { createMcpSource } from '#sources/mcp/index'
import { MCP_OPTIONS } from '#sources/mcp/options'
import type { ProcessLimit } from '#sources/mcp/pool'
import { callContext } from './call-context.ts'

/** Tests connect only to loopback. */
const egress = createGuardedFetch({ allow: ['127.0.0.0/8', '::1'], timeoutMs: MAX_TIMER_MS })

export const SERVICES: SourceServices = {
  fetch,
  send: egress.send,
  clock: SYSTEM_CLOCK,
  log: SILENT_LOGGER,
  folder: process.cwd(),
}

export interface OpenedMcp {
  readonly source: Source
  discover(): Promise<Discovery>
  /** Calls a tool from the latest discovery. */
  call(
    name: string,
    input?: JsonObject,
    context?: Partial<StatefulContext<unknown>>,
  ): Promise<JsonValue | undefined>
}

/** An MCP source on real parts. */
export function openMcp(
  options: Record<string, unknown>,
  changes: { readonly services?: Partial<SourceServices>; readonly processes?: ProcessLimit } = {},
): OpenedMcp {
  const services = { ...SERVICES, ...changes.services }
  const source = createMcpSource(
    'Up',
    MCP_OPTIONS.parse({ type: 'mcp', ...options }),
    services,
    changes.processes,
  )
  let known: Discovery | undefined
  const discover = async (): Promise<Discovery> => {
    known = await source.discover(AbortSignal.timeout(30_000))
    return known
  }
  return {
    source,
    discover,
    async call(name, input = {}, context = {}) {
      known ??= await discover()
      const tool = known.tools.find(({ nativeName }) => nativeName === name)
      if (tool === undefined) throw new Error(`the upstream offers no ${name}`)
      const { binding } = tool
      return plainValue(
        await source.invoke({ nativeName: name, binding, input, context: callContext(context) }),
      )
    },
  }
}
