import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { JsonRpcId } from '#protocols/json-rpc'

export const MCP_PATH = '/mcp'

/** Revisions with `initialize` and sessions; the newest last. */
export const LEGACY_REVISIONS = ['2025-06-18', '2025-11-25'] as const
/** The revision without either: every request says everything. */
export const NEW_REVISION = '2026-07-28'

export type LegacyRevision = (typeof LEGACY_REVISIONS)[number]
export type Revision = LegacyRevision | typeof NEW_REVISION

/** What we offer to clients that name a revision we do not serve (MCP-22, MCP/T-8). */
export const NEWEST_LEGACY_REVISION: LegacyRevision = '2025-11-25'

export function isLegacyRevision(text: JsonValue | undefined): text is LegacyRevision {
  return LEGACY_REVISIONS.some((known) => known === text)
}

/** MCP §1.5; the first three exist in the new era only. */
export const MCP_CODES = {
  headerMismatch: -32_020,
  missingCapability: -32_021,
  unsupportedVersion: -32_022,
  /** 2025-11-25 only. */
  urlElicitationRequired: -32_042,
} as const

const RESERVED = 'io.modelcontextprotocol/'

export const META = {
  protocolVersion: `${RESERVED}protocolVersion`,
  clientCapabilities: `${RESERVED}clientCapabilities`,
  clientInfo: `${RESERVED}clientInfo`,
  logLevel: `${RESERVED}logLevel`,
  serverInfo: `${RESERVED}serverInfo`,
  subscriptionId: `${RESERVED}subscriptionId`,
  /** Ours (MCP §1.3): one label, so not reserved. */
  idempotencyKey: 'collet/idempotencyKey',
  callId: 'collet/callId',
  runId: 'collet/runId',
  contentTrust: 'collet/contentTrust',
  tool: 'collet/tool',
} as const

/** In lower case, as requests are read. */
export const HEADERS = {
  version: 'mcp-protocol-version',
  session: 'mcp-session-id',
  method: 'mcp-method',
  name: 'mcp-name',
  paramPrefix: 'mcp-param-',
} as const

export const JSON_TYPE = 'application/json'
export const STREAM_TYPE = 'text/event-stream'

/** A JSON-RPC error as it leaves. */
export interface WireError {
  readonly code: number
  readonly message: string
  readonly data?: JsonObject
}

/** What a client may be asked, by what it declared (MCP-71, MCP/T-19). */
export interface ClientCapabilities {
  readonly form: boolean
  readonly url: boolean
  readonly sampling: boolean
  readonly roots: boolean
}

/** One message of a client, its envelope checked. */
export type Message =
  | {
      readonly kind: 'request'
      readonly id: JsonRpcId
      readonly method: string
      readonly params: JsonValue | undefined
    }
  | { readonly kind: 'notification'; readonly method: string; readonly params: JsonValue | undefined }
  | {
      readonly kind: 'response'
      readonly id: JsonRpcId
      /** Absent for an error. */
      readonly result: JsonValue | undefined
    }
