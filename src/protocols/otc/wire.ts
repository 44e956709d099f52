import type { WireChallenges, WireMissing } from '#protocols/call-wire'

/*
 * Constants and types of OTC's wire format: paths, headers, schema ids, dialects and error bodies. The server codecs, the client
 * codecs and the client package share them, so this module imports no server code.
 * Invariant: members keep their wire spelling only here.
 */

/** The only supported protocol version; a newer minor version is not supported either (OTC/T-08). */
export const PROTOCOL_VERSION = '1.0'

export const OTC_SCHEMA_ID = 'otc://1.0'
export const OXP_SCHEMA_ID = 'urn:oxp:1.0'
export const ARCADE_SCHEMA_ID =
  'https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json'

/** `$schema` of every answer whose request named no version (OTC/C-16). */
export const DEFAULT_SCHEMA_ID = OTC_SCHEMA_ID

/** The version header, in lower case for requests and replies. */
export const OXP_VERSION_HEADER = 'oxp-version'

/** The published shapes of one operation, oldest first (OTC §1). */
export type Dialect = 'proto' | 'execute' | 'rfc-call' | 'otc-1.0' | 'oxp-1.0' | 'oxp-header' | 'uts'

/** Every path that runs a tool. Path and body together determine the dialect (OTC/C-01, OTC §3.1). */
export const CALL_PATHS = ['/tools/call', '/call', '/tools/execute', '/execute', '/uts/tools/call'] as const
export type CallPath = (typeof CALL_PATHS)[number]

/** Publisher of the shape that a `$schema` id names. */
export type SchemaFamily = 'arcade' | 'otc' | 'oxp'

const GITHUB_ID =
  /^https:\/\/github\.com\/(ArcadeAI\/OpenToolCalling|OpenToolCalling\/Specification|OpenExecProtocol\/Specification)\/(?:tree|blob|raw)\/[A-Za-z0-9._-]{1,64}\/spec(?:ification)?\/http\/1\.0\/openapi\.json$/
const GITHUB_REPOSITORY = /^https:\/\/github\.com\/([\w.-]{1,64}\/[\w.-]{1,64})\//

const GITHUB_FAMILIES: ReadonlyMap<string | undefined, SchemaFamily> = new Map([
  ['ArcadeAI/OpenToolCalling', 'arcade'],
  ['OpenToolCalling/Specification', 'otc'],
  ['OpenExecProtocol/Specification', 'oxp'],
])

/** The family of a `$schema` id of version 1.0; `undefined` for every other text (OTC/C-16, OTC-18). */
export function schemaFamily(schemaId: string): SchemaFamily | undefined {
  if (schemaId === OXP_SCHEMA_ID) return 'oxp'
  if (schemaId === OTC_SCHEMA_ID) return 'otc'
  return GITHUB_FAMILIES.get(GITHUB_ID.exec(schemaId)?.[1])
}

/** The served `$schema` id of each family, for requests that name an unserved version of the family. */
export const SERVED_SCHEMA_IDS = {
  otc: OTC_SCHEMA_ID,
  oxp: OXP_SCHEMA_ID,
  arcade: ARCADE_SCHEMA_ID,
} as const satisfies Record<SchemaFamily, string>

/** The family of a `$schema` id of any version; `undefined` for ids of no family. */
export function claimedFamily(schemaId: string): SchemaFamily | undefined {
  if (schemaId.startsWith('otc:')) return 'otc'
  if (schemaId.startsWith('urn:oxp:')) return 'oxp'
  return GITHUB_FAMILIES.get(GITHUB_REPOSITORY.exec(schemaId)?.[1])
}

/** Accepts `1.0` and `1.0.0`: the header must be a semantic version, but the only published sample is `1.0` (OTC-22). */
export function isSupportedVersion(version: string): boolean {
  return version === PROTOCOL_VERSION || version === '1.0.0'
}

/** Member of a list that has further facts about the tools, by tool id. */
export const FACTS_MEMBER = 'tool_facts'

/** A failure of the tool itself, inside a 200 (OTC-84). */
export interface WireToolError {
  readonly message: string
  readonly developer_message?: string
  readonly can_retry?: true
  readonly additional_prompt_content?: string
  readonly retry_after_ms?: number
}

/** Body of every 400, 401, 404, 405, 413 and 422. */
export interface WireErrorBody {
  readonly $schema?: string
  readonly message: string
  readonly developer_message?: string
  readonly parameter_errors?: Readonly<Record<string, string>>
  readonly missing_requirements?: WireMissing
  readonly challenges?: WireChallenges
  /** Only for `version_unsupported`: the served versions, as `$schema` ids or values of `OXP-Version`. */
  readonly supported?: readonly string[]
  /** Only while a call waits for approval (rule 6). */
  readonly call_id?: string
}

export type WireChallengeStatus = 'pending' | 'completed' | 'failed'
