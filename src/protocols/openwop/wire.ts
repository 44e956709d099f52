import type { JsonObject } from '#kernel/base/json'
import type { RunEvent } from '#kernel/run/events'
import type { Approval, Egress, Hint, ReplayPolicy, SafetyTier, SourceKind } from '#kernel/tool/tool'

/*
 * Paths, headers and JSON shapes of openwop's wire format. The codecs, the routes and the client package share them.
 * Invariant: the descriptor and error types are closed like their schemas, so a new member needs a new schema.
 */

export const PROTOCOL_VERSION = '1.0'

export const DISCOVERY_PATH = '/.well-known/openwop'
/** Every path below this root belongs to this protocol, so every error there has its shape (OWP-95). */
export const API_ROOT = '/v1'
export const OPENAPI_PATH = '/v1/openapi.json'
export const SCHEMAS_PATH = '/v1/schemas'
export const SCHEMA_PATH = '/v1/schemas/:name'
export const TOOLS_PATH = '/v1/tools'
export const TOOL_PATH = '/v1/tools/:toolId'
export const RUN_PATH = '/v1/runs/:runId'
export const RUN_EVENTS_PATH = '/v1/runs/:runId/events'
export const RUN_POLL_PATH = '/v1/runs/:runId/events/poll'
export const INTERRUPT_PATH = '/v1/runs/:runId/interrupts/:nodeId'
export const INTERRUPT_TOKEN_PATH = '/v1/interrupts/:token'
export const SESSIONS_PATH = '/v1/sessions'
/** Set on a replayed answer (OWP-92). */
export const IDEMPOTENT_REPLAY_HEADER = 'openwop-Idempotent-Replay'
export const SESSION_PATH = '/v1/sessions/:sessionId'

const SOURCES = {
  'node-pack': true,
  workflow: true,
  mcp: true,
  connector: true,
  'host-extension': true,
} satisfies Record<SourceKind, true>

/** The closed vocabulary of `source`, in the order of the schema. */
export const SOURCE_KINDS: readonly string[] = Object.keys(SOURCES)

export function isSourceKind(text: string): text is SourceKind {
  return Object.hasOwn(SOURCES, text)
}

/** The closed descriptor of RFC 0078 §C (OWP-30). */
export interface WireToolDescriptor {
  readonly toolId: string
  readonly source: SourceKind
  readonly title?: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly outputSchema?: JsonObject
  readonly auth: { readonly scopes: readonly string[]; readonly credentialRef: boolean }
  readonly egress?: Egress
  readonly approval: Approval
  readonly replayPolicy: ReplayPolicy
  readonly safetyTier: SafetyTier
  readonly costHint?: Hint
  readonly latencyHint?: Hint
}

/** The closed compact descriptor of RFC 0112 (OWP-25). */
export type WireCompactToolDescriptor = Pick<
  WireToolDescriptor,
  'toolId' | 'source' | 'safetyTier' | 'title' | 'description'
> &
  Partial<Pick<WireToolDescriptor, 'inputSchema'>>

/** The type of each event of a run on the wire (OWP §6.3). */
export const RUN_EVENT_TYPES = {
  called: 'agent.toolCalled',
  returned: 'agent.toolReturned',
  'session.opened': 'tool.session.opened',
  'session.closed': 'tool.session.closed',
  'interrupt.requested': 'interrupt.requested',
  'node.suspended': 'node.suspended',
  'approval.granted': 'approval.granted',
  'approval.rejected': 'approval.rejected',
  'approval.overridden': 'approval.overridden',
  'interrupt.resolved': 'interrupt.resolved',
  'consent.requested': 'interrupt.requested',
  'consent.suspended': 'node.suspended',
  'consent.resolved': 'interrupt.resolved',
  'connector.authorized': 'connector.authorized',
  'connector.auth_expired': 'connector.auth_expired',
} as const satisfies Record<RunEvent['type'], string>

/** One event of a run, closed (OWP §6.3). */
export interface WireRunEvent {
  readonly eventId: string
  readonly runId: string
  readonly type: (typeof RUN_EVENT_TYPES)[keyof typeof RUN_EVENT_TYPES]
  readonly sequence: number
  readonly timestamp: string
  readonly nodeId?: string
  readonly payload: JsonObject
}

/** Every body that is not a 2xx, flat and closed (OWP §6.6, OWP-95). */
export interface WireError {
  readonly error: string
  readonly message: string
  readonly details?: JsonObject
}

/** The discovery document, with every family at its root (OWP/C4, OWP-03). */
export interface WireDiscovery {
  readonly protocolVersion: string
  readonly supportedEnvelopes: readonly string[]
  readonly schemaVersions: Readonly<Record<string, number>>
  readonly limits: {
    readonly clarificationRounds: number
    readonly schemaRounds: number
    readonly envelopesPerTurn: number
  }
  readonly implementation: { readonly name: string; readonly version: string; readonly vendor: string }
  readonly toolCatalog?: {
    readonly supported: true
    readonly sources: readonly SourceKind[]
    readonly sessionLifecycle?: true
    readonly compactView?: true
  }
  readonly [family: string]: unknown
}
