import { isJsonObject, type JsonValue } from '#core/json'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { readCapabilities } from './codec-capabilities.ts'
import {
  type ClientCapabilities,
  isOldRevision,
  NEWEST_OLD_REVISION,
  type OldRevision,
  type WireError,
} from './wire.ts'

export type ReadInitialize =
  | { readonly ok: true; readonly revision: OldRevision; readonly capabilities: ClientCapabilities }
  | { readonly ok: false; readonly error: WireError }

/** MCP-22: the revision that was asked for if we serve it, else our newest of that era (T-8, T-29). */
export function readInitialize(params: JsonValue | undefined): ReadInitialize {
  if (!isJsonObject(params) || typeof params.protocolVersion !== 'string') {
    const message = 'initialize needs params.protocolVersion, params.capabilities and params.clientInfo.'
    return { ok: false, error: { code: JSON_RPC_CODES.badParams, message } }
  }
  const asked = params.protocolVersion
  const revision = isOldRevision(asked) ? asked : NEWEST_OLD_REVISION
  return { ok: true, revision, capabilities: readCapabilities(params.capabilities, revision) }
}
