import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { JsonRpcId } from '#protocols/json-rpc'

/*
 * Names, codes and shapes of the MCP wire format, and the differences between its revisions.
 * The server, the codecs and the MCP source import it, so it imports no server code.
 * Invariant: a difference between revisions is a member of `TRAITS`; other modules do not compare version strings.
 */

export const MCP_PATH = '/mcp'

/** Revisions with `initialize` and sessions, oldest first. */
export const LEGACY_REVISIONS = ['2025-06-18', '2025-11-25'] as const
/** The revision without sessions: every request carries its version and capabilities in `_meta`. */
export const NEW_REVISION = '2026-07-28'

export type LegacyRevision = (typeof LEGACY_REVISIONS)[number]
export type Revision = LegacyRevision | typeof NEW_REVISION

export const ALL_REVISIONS: readonly Revision[] = [...LEGACY_REVISIONS, NEW_REVISION]

/** The revision offered to clients that request one that is not served (MCP-22, MCP/T-8). */
export const NEWEST_LEGACY_REVISION: LegacyRevision = '2025-11-25'

export function isLegacyRevision(text: JsonValue | undefined): text is LegacyRevision {
  return LEGACY_REVISIONS.some((known) => known === text)
}

interface RevisionTraits {
  /** If true, a client that sets no level gets all log messages of its calls; otherwise it gets none (MCP-87). */
  readonly logsUnasked: boolean
  /** Results have a type and name the server (MCP-07, MCP-08); lists say how long they may be cached (MCP-45). */
  readonly hasResultType: boolean
  /** A call may be answered with questions, whose answers come in a later request (MCP-70). */
  readonly hasRounds: boolean
  /** Headers repeat the method, the name and annotated parameters (MCP-35, MCP-48). */
  readonly hasStandardHeaders: boolean
  /** Schemas may contain booleans, and values need not be objects (MCP-52, MCP-53, MCP-67). */
  readonly hasFullSchemas: boolean
  /** Elicitation may open a page, and forms have titled choices and defaults (MCP-71). */
  readonly hasUrlMode: boolean
  /** A question that opens a page has an id. */
  readonly hasElicitationId: boolean
  /** Definitions may have icons (MCP-56). */
  readonly hasIcons: boolean
  /** JSON-RPC error code for an unknown resource (MCP-115). */
  readonly resourceUnknownCode: number
  /** How a client gets a task: by a member of the call, or by declaring the extension (MCP-120, MCP-125). */
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

/** Error codes of MCP (MCP §1.5). The first three exist only in the newest revision. */
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
  /** Collet's own names have a prefix of one label, which is not reserved (MCP §1.3). */
  idempotencyKey: 'collet/idempotencyKey',
  callId: 'collet/callId',
  runId: 'collet/runId',
  contentTrust: 'collet/contentTrust',
  /** In a shortened or projected result: the address of the whole result (MCP-180). */
  shaped: 'collet/shaped',
  /** In a request: the number of bytes of the result that the caller wants at once, 0 for all (MCP-181). */
  modelBytes: 'collet/modelBytes',
  /** Marks the tool that reads recorded results, which only direct callers of its server can use (MCP-182). */
  readsResults: 'collet/readsResults',
  tool: 'collet/tool',
  /** In a question from a server with sessions: the key under which clients of the newest revision get it. */
  questionKey: 'collet/questionKey',
} as const

/** Capability of the newest revision: a call may be answered with a task (MCP-120). */
export const TASKS_EXTENSION = `${RESERVED}tasks`

/** Capability of clients that show the pages of tools (MCP-147). */
export const APPS_EXTENSION = `${RESERVED}ui`

/** Header names in lower case, as in parsed requests. */
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

/** The kinds of question and the extensions that the client declared (MCP-71, MCP/T-19). */
export interface ClientCapabilities {
  readonly form: boolean
  readonly url: boolean
  readonly sampling: boolean
  readonly roots: boolean
  /** The client shows app pages (the MCP Apps extension). */
  readonly apps: boolean
  /** In the newest revision only: a call may be answered with a task (MCP-120). */
  readonly tasks?: boolean
}

/** A message from a client whose envelope is valid. */
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
