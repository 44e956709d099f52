import type { Leaving } from '#core/call'
import type { Principal } from '#core/principal'
import type { JsonRpcId } from '#protocols/json-rpc'
import type { Channel } from './channel.ts'
import type { RequestHeaders } from './codec-headers.ts'
import type { ClientCapabilities, Revision } from './wire.ts'

/** One request and everything known of who makes it; nothing is remembered from another (MCP-31). */
export interface McpExchange {
  readonly id: JsonRpcId
  readonly principal: Principal
  readonly revision: Revision
  readonly capabilities: ClientCapabilities
  readonly channel: Channel
  /** Absent on stdio, which has none. */
  readonly headers: RequestHeaders | undefined
  readonly traceId: string | undefined
  readonly traceparent: string | undefined
  /** The client, where its leaving cancels: the newest revision over HTTP (MCP-83). */
  readonly leaving: Leaving | undefined
  /** Gets the way to cancel what the request began, once there is something (MCP-85). */
  onBegun?(cancel: () => void): void
}
