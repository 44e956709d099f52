import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { JsonRpcId } from '#protocols/json-rpc'

/*
 * Names, codes and shapes of the MCP wire, and the differences between its revisions.
 * The server, the codecs and our own MCP client import it, so it imports no server code.
 * A difference between revisions is a member of `TRAITS`; other modules do not compare version strings.
 */

export const MCP_PATH = '/mcp'

/** Revisions with `initialize` and sessions; the newest last. */
export const LEGACY_REVISIONS = ['2025-06-18', '2025-11-25'] as const
/** The revision without sessions: every request carries its version and capabilities in `_meta`. */
export const NEW_REVISION = '2026-07-28'

export type LegacyRevision = (typeof LEGACY_REVISIONS)[number]
export type Revision = LegacyRevision | typeof NEW_REVISION

export const ALL_REVISIONS: readonly Revision[] = [...LEGACY_REVISIONS, NEW_REVISION]

/** Offered to clients that ask for a revision we do not serve (MCP-22, MCP/T-8). */
export const NEWEST_LEGACY_REVISION: LegacyRevision = '2025-11-25'

export function isLegacyRevision(text: JsonValue | undefined): text is LegacyRevision {
  return LEGACY_REVISIONS.some((known) => known === text)
}

interface RevisionTraits {
  /** Without a level, the client gets all log messages of its calls; elsewhere none (MCP-87). */
  readonly logsUnasked: boolean
  /** Results name their kind and the server (MCP-07, MCP-08); lists say how long to cache them (MCP-45). */
  readonly hasResultType: boolean
  /** A call may be answered with questions, and a later request brings the answers (MCP-70). */
  readonly hasRounds: boolean
  /** Headers repeat the method, the name and annotated parameters (MCP-35, MCP-48). */
  readonly hasStandardHeaders: boolean
  /** Schemas may hold booleans, and values may be other than objects (MCP-52, MCP-53, MCP-67). */
  readonly hasFullSchemas: boolean
  /** Elicitation may open a page, and forms have titled choices and defaults (MCP-71). */
  readonly hasUrlMode: boolean
  /** A question for a page carries an id of its own. */
  readonly hasElicitationId: boolean
  /** Definitions may have icons (MCP-56). */
  readonly hasIcons: boolean
  /** Code of the error for an unknown resource (MCP-115). */
  readonly resourceUnknownCode: number
  /** How a client gets a task: it asks for one in the call, or it declares the extension (MCP-120, MCP-125). */
  readonly tasks: 'none' | 'requested' | 'extension'
  /** HTTP status of an unknown method (MCP §1.5). */
  readonly unknownMethodStatus: 200 | 404
}

const SESSION_TRAITS = {
  logsUnasked: true,
  hasResultType: false,
  hasRounds: false,
  hasStandardHeaders: false,
  hasFullSchemas: false,
  resourceUnknownCode: -32_002,
  unknownMethodStatus: 200,
} as const

export const TRAITS: Readonly<Record<Revision, RevisionTraits>> = {
  '2025-06-18': {
    ...SESSION_TRAITS,
    hasUrlMode: false,
    hasElicitationId: false,
    hasIcons: false,
    tasks: 'none',
  },
  '2025-11-25': {
    ...SESSION_TRAITS,
    hasUrlMode: true,
    hasElicitationId: true,
    hasIcons: true,
    tasks: 'requested',
  },
  [NEW_REVISION]: {
    logsUnasked: false,
    hasResultType: true,
    hasRounds: true,
    hasStandardHeaders: true,
    hasFullSchemas: true,
    hasUrlMode: true,
    hasElicitationId: false,
    hasIcons: true,
    resourceUnknownCode: -32_602,
    tasks: 'extension',
    unknownMethodStatus: 404,
  },
}

/** Codes of MCP (MCP §1.5); revisions with sessions know only the last one. */
export const MCP_CODES = {
  headerMismatch: -32_020,
  missingCapability: -32_021,
  unsupportedVersion: -32_022,
  /** 2025-11-25 only. */
  urlElicitationRequired: -32_042,
  /** Revisions with sessions only. */
  resourceNotFound: -32_002,
} as const

const RESERVED = 'io.modelcontextprotocol/'

export const META = {
  protocolVersion: `${RESERVED}protocolVersion`,
  clientCapabilities: `${RESERVED}clientCapabilities`,
  clientInfo: `${RESERVED}clientInfo`,
  logLevel: `${RESERVED}logLevel`,
  serverInfo: `${RESERVED}serverInfo`,
  subscriptionId: `${RESERVED}subscriptionId`,
  /** 2025-11-25 only: the task that a message belongs to. */
  relatedTask: `${RESERVED}related-task`,
  /** Our own names have a prefix of one label, which is not reserved (MCP §1.3). */
  idempotencyKey: 'collet/idempotencyKey',
  callId: 'collet/callId',
  runId: 'collet/runId',
  contentTrust: 'collet/contentTrust',
  /** Of a result that is shortened or projected: where the whole is (MCP-180). */
  shaped: 'collet/shaped',
  /** Of a request: how many bytes of the result the caller takes at once, 0 for all (MCP-181). */
  modelBytes: 'collet/modelBytes',
  /** Of the tool that reads recorded results: it is of use only to the callers of its own server (MCP-182). */
  readsResults: 'collet/readsResults',
  tool: 'collet/tool',
  /** The key under which clients of the newest revision get a question of a server with sessions. */
  questionKey: 'collet/questionKey',
} as const

/** Capability of the newest revision: a call may be answered with a task (MCP-120). */
export const TASKS_EXTENSION = `${RESERVED}tasks`

/** Header names in lower case, as requests are read. */
export const HEADERS = {
  version: 'mcp-protocol-version',
  session: 'mcp-session-id',
  method: 'mcp-method',
  name: 'mcp-name',
  paramPrefix: 'mcp-param-',
} as const

/** The parameter that `Mcp-Name` repeats, by method (MCP-35). */
export const NAMED_BY: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
])

export const JSON_TYPE = 'application/json'
export const STREAM_TYPE = 'text/event-stream'

export interface WireError {
  readonly code: number
  readonly message: string
  readonly data?: JsonObject
}

/** Questions that the client accepts, as it declared (MCP-71, MCP/T-19). */
export interface ClientCapabilities {
  readonly form: boolean
  readonly url: boolean
  readonly sampling: boolean
  readonly roots: boolean
  /** It shows pages of servers (the extension MCP Apps). */
  readonly apps: boolean
  /** The newest revision only: a call may be answered with a task (MCP-120). */
  readonly tasks?: boolean
}

/** One message of a client whose envelope is valid. */
export type Message =
  | RequestMessage
  | { readonly kind: 'notification'; readonly method: string; readonly params: JsonValue | undefined }
  | {
      readonly kind: 'response'
      readonly id: JsonRpcId
      /** Absent for an error. */
      readonly result: JsonValue | undefined
    }

export interface RequestMessage {
  readonly kind: 'request'
  readonly id: JsonRpcId
  readonly method: string
  readonly params: JsonValue | undefined
}
