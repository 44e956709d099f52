import type { Leaving } from '#core/call'
import type { Gateway } from '#core/calls/gateway'
import { isJsonObject, type JsonValue } from '#core/json'
import type { ProtocolSessionStore } from '#core/ports/protocol-store'
import type { Principal } from '#core/principal'
import type { Clock, Logger } from '#core/runtime'
import { JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import type { ProtocolServices } from '#protocols/protocol'
import { type RequestHeaders, readCapabilities } from './codec-message.ts'
import {
  type ClientCapabilities,
  isLegacyRevision,
  LEGACY_REVISIONS,
  type LegacyRevision,
  MCP_CODES,
  MCP_PATH,
  NEW_REVISION,
  NEWEST_LEGACY_REVISION,
  type Revision,
  type WireError,
} from './wire.ts'

type ReadInitialize =
  | { readonly ok: true; readonly revision: LegacyRevision; readonly capabilities: ClientCapabilities }
  | { readonly ok: false; readonly error: WireError }

/** MCP-22: the revision that was asked for if we serve it, else our newest of that era (MCP/T-8, MCP/T-29). */
export function readInitialize(params: JsonValue | undefined): ReadInitialize {
  if (!isJsonObject(params) || typeof params.protocolVersion !== 'string') {
    const message = 'initialize needs params.protocolVersion, params.capabilities and params.clientInfo.'
    return { ok: false, error: { code: JSON_RPC_CODES.badParams, message } }
  }
  const asked = params.protocolVersion
  const revision = isLegacyRevision(asked) ? asked : NEWEST_LEGACY_REVISION
  return { ok: true, revision, capabilities: readCapabilities(params.capabilities, revision) }
}

/** MCP/T-8: only what can be used this way; older ones are named in the text (MCP-34). */
export function unsupportedVersion(requested: string): WireError {
  return {
    code: MCP_CODES.unsupportedVersion,
    message: `Unsupported protocol version. ${LEGACY_REVISIONS.join(' and ')} are served after initialize.`,
    data: { supported: [NEW_REVISION], requested },
  }
}

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
  readonly callers: ProtocolSessionStore
  readonly clock: Clock
  readonly log: Logger
  /** Keyed signature of this server's store: what we hand out comes back unchanged, or not at all (MCP-72). */
  sign(text: string): string
  readonly options: McpOptions
}

/** What the protocol needs of the server, over HTTP and on stdio. */
export function mcpServices(
  { name, instructions, pageSize }: Omit<McpOptions, 'serverVersion' | 'metadataUrl'>,
  server: Pick<ProtocolServices, 'gateway' | 'store' | 'clock' | 'log' | 'serverVersion' | 'metadataUrl'>,
): McpServices {
  const { gateway, store, clock, log, serverVersion, metadataUrl } = server
  return {
    ...{ gateway, clock, log },
    callers: store.callers,
    sign: (text) => store.approvals.sign('mcp', text),
    options: {
      ...{ name, serverVersion, instructions, pageSize },
      metadataUrl: metadataUrl === undefined ? undefined : () => metadataUrl(MCP_PATH),
    },
  }
}

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
  /** Called just before the outcome of its call is written. */
  onRecording?(): void
}

/** The way back to one client while its request is being answered. */
export interface Channel {
  /** Whether anything may be sent before the answer. */
  readonly canSend: boolean
  /** News may be left out for a slow reader; questions never are. */
  send(json: string, what: 'news' | 'question'): void
}
