import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { readCapabilities } from './codec-capabilities.ts'
import { metaOf } from './codec-envelope.ts'
import { type ClientCapabilities, META, NEW_REVISION, OLD_REVISIONS, type WireError } from './wire.ts'

/** What a new-era request says of itself (MCP-32). */
export interface Claim {
  readonly version: string
  readonly capabilities: ClientCapabilities
}

export type ReadClaim =
  | { readonly kind: 'none' }
  | { readonly kind: 'claim'; readonly claim: Claim }
  | { readonly kind: 'bad'; readonly error: WireError }

const LOG_LEVELS: ReadonlySet<JsonValue | undefined> = new Set([
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
])

/** A claim is there when its version is, whatever its type (§1.1); row 9 of the ladder. */
export function readClaim(params: JsonValue | undefined): ReadClaim {
  const meta = metaOf(params)
  if (!Object.hasOwn(meta, META.protocolVersion)) return { kind: 'none' }
  const problem = problemOf(meta)
  if (problem !== undefined) {
    const message = `Bad params._meta: ${problem}`
    return { kind: 'bad', error: { code: JSON_RPC_CODES.badParams, message } }
  }
  const capabilities = readCapabilities(meta[META.clientCapabilities], NEW_REVISION)
  return { kind: 'claim', claim: { version: String(meta[META.protocolVersion]), capabilities } }
}

function problemOf(meta: JsonObject): string | undefined {
  if (typeof meta[META.protocolVersion] !== 'string') return `${META.protocolVersion} must be a string.`
  if (!isJsonObject(meta[META.clientCapabilities])) return `${META.clientCapabilities} must be an object.`
  const info = meta[META.clientInfo]
  if (info !== undefined && !isClientInfo(info)) return `${META.clientInfo} needs a name and a version.`
  const level = meta[META.logLevel]
  if (level !== undefined && !LOG_LEVELS.has(level)) return `${META.logLevel} is not a level.`
  return undefined
}

function isClientInfo(info: JsonValue): boolean {
  return isJsonObject(info) && typeof info.name === 'string' && typeof info.version === 'string'
}

/** Row 8: the header says the new era, the body does not. */
export const CLAIM_MISSING: WireError = {
  code: JSON_RPC_CODES.badParams,
  message: `params._meta must have ${META.protocolVersion} and ${META.clientCapabilities}. Served this way: ${NEW_REVISION}; with initialize: ${OLD_REVISIONS.join(', ')}.`,
}
