import type { Gateway } from '#core/calls/gateway'
import type { CallerStore } from '#core/ports/protocol-store'
import type { Clock, Logger } from '#core/runtime'

/** What an operator may choose about this protocol. */
export interface McpOptions {
  /** `serverInfo.name` (MCP-08). */
  readonly name: string
  readonly serverVersion: string
  /** Text for models about the server as a whole. */
  readonly instructions?: string | undefined
  /** Tools on one page of a list; many clients read only the first (MCP-44). */
  readonly pageSize?: number | undefined
  /** `resource_metadata` of a challenge; absent without an issuer (MCP-96). */
  readonly metadataUrl?: (() => string) | undefined
}

/** What the protocol needs from outside. */
export interface McpServices {
  readonly gateway: Gateway
  readonly callers: CallerStore
  readonly clock: Clock
  readonly log: Logger
  /** Keyed signature of this server's store: what we hand out comes back unchanged, or not at all (MCP-72). */
  sign(text: string): string
  readonly options: McpOptions
}
