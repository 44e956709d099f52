import { isJsonObject, type JsonValue } from '#core/json'
import { ARCADE_SCHEMA_ID, DEFAULT_SCHEMA_ID, OTC_SCHEMA_ID, PROTOCOL_VERSION } from './wire.ts'

/** Dialects a client can speak; `proto` defined no endpoint, so it is only read (T-30). */
export const CLIENT_DIALECTS = ['otc-1.0', 'oxp-1.0', 'oxp-header', 'rfc-call', 'execute', 'uts'] as const
export type ClientDialect = (typeof CLIENT_DIALECTS)[number]

export const VERSION_HEADER = 'OXP-Version'

/** Every path a call has had, newest first (C-01). */
const CALL_PATHS = ['/tools/call', '/call', '/tools/execute', '/execute'] as const
export type CallPath = (typeof CALL_PATHS)[number]

/** How one server wants to be spoken to. */
export interface ServerWire {
  readonly dialect: ClientDialect
  /** `$schema` to repeat in requests; absent when the server showed none (C-16). */
  readonly schemaId?: string
  /** Call paths in the order in which they are tried. */
  readonly paths: readonly CallPath[]
}

/** What a server's answer to `GET /tools` says about its dialect (C-02, §3.2). */
export function detectWire(list: JsonValue, versionHeader: string | null): ServerWire {
  if (!isJsonObject(list)) return { dialect: 'uts', paths: CALL_PATHS }
  const schemaId = list.$schema
  if (typeof schemaId === 'string') {
    return { dialect: dialectOfSchema(schemaId), schemaId, paths: CALL_PATHS }
  }
  return { dialect: versionHeader === null ? 'oxp-1.0' : 'oxp-header', paths: CALL_PATHS }
}

const PINNED = {
  'otc-1.0': { dialect: 'otc-1.0', schemaId: OTC_SCHEMA_ID, paths: CALL_PATHS },
  'oxp-1.0': { dialect: 'oxp-1.0', schemaId: DEFAULT_SCHEMA_ID, paths: CALL_PATHS },
  'oxp-header': { dialect: 'oxp-header', paths: CALL_PATHS },
  'rfc-call': { dialect: 'rfc-call', schemaId: ARCADE_SCHEMA_ID, paths: startingAt('/call') },
  execute: {
    dialect: 'execute',
    schemaId: ARCADE_SCHEMA_ID,
    paths: startingAt('/tools/execute', '/execute'),
  },
  uts: { dialect: 'uts', paths: CALL_PATHS },
} satisfies Record<ClientDialect, ServerWire>

export function pinnedWire(dialect: ClientDialect): ServerWire {
  return PINNED[dialect]
}

/** Headers that carry the protocol version where the body does not (OTC-20); `1.0` is what every sample shows (OTC-22). */
export function versionHeaders(dialect: ClientDialect | undefined): Readonly<Record<string, string>> {
  return dialect === 'oxp-header' ? { [VERSION_HEADER]: PROTOCOL_VERSION } : {}
}

export const API_KEY_HEADERS = ['OXP-API-Key', 'OTC-API-Key', 'X-API-Key'] as const
export type ApiKeyHeader = (typeof API_KEY_HEADERS)[number]

const KEY_HEADER_OF = {
  'otc-1.0': 'OTC-API-Key',
  'oxp-1.0': 'OXP-API-Key',
  'oxp-header': 'OXP-API-Key',
  'rfc-call': 'X-API-Key',
  execute: 'X-API-Key',
  uts: 'OXP-API-Key',
} satisfies Record<ClientDialect, ApiKeyHeader>

/** The header an API key travels in (C-25). */
export function apiKeyHeaderOf(dialect: ClientDialect | undefined): ApiKeyHeader {
  return dialect === undefined ? 'OXP-API-Key' : KEY_HEADER_OF[dialect]
}

function dialectOfSchema(schemaId: string): ClientDialect {
  if (schemaId.includes('ArcadeAI/OpenToolCalling')) return 'rfc-call'
  if (schemaId.startsWith('otc:') || schemaId.includes('OpenToolCalling/Specification')) return 'otc-1.0'
  return 'oxp-1.0'
}

function startingAt(...own: readonly CallPath[]): readonly CallPath[] {
  return [...own, ...CALL_PATHS.filter((path) => !own.includes(path))]
}
