import type { Settings } from '#config/settings'
import type { Gateway } from '#core/calls/gateway'
import type { Store } from '#core/ports/store'
import type { Clock } from '#core/runtime'
import type { McpServices } from '#protocols/mcp/exchange'
import { type McpServing, serveMcp } from '#protocols/mcp/routes'
import type { ServerLog } from './log.ts'
import { VERSION } from './version.ts'

export interface McpSurroundings {
  readonly store: Store
  readonly clock: Clock
  readonly log: ServerLog
  readonly metadataUrl?: () => string
}

/** `/mcp`, unless the operator turned it off. */
export function createMcpRoutes(
  gateway: Gateway,
  settings: Settings['mcp'],
  surroundings: McpSurroundings,
): McpServing {
  if (!settings.enabled) return { routes: [], close: () => undefined }
  return serveMcp(mcpServices(gateway, settings, surroundings))
}

/** What the protocol needs, over HTTP and on stdio. */
export function mcpServices(
  gateway: Gateway,
  { name, instructions, pageSize }: Settings['mcp'],
  { store, clock, log, metadataUrl }: McpSurroundings,
): McpServices {
  return {
    gateway,
    callers: store.callers,
    clock,
    log,
    sign: (text) => store.approvals.sign('mcp', text),
    options: { name, serverVersion: VERSION, instructions, pageSize, metadataUrl },
  }
}
