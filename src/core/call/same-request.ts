import { canonicalJson } from '#core/canonical-json'
import { isJsonObject, type JsonValue } from '#core/json'
import type { CallRecord } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { LATEST, parseToolId, plainVersion, type ToolId } from '#core/tool-id'
import type { CallServices } from './call-services.ts'
import { fingerprintOf, type IdentifiedCall } from './identified-call.ts'

/** What a record, or a run of this process, says of the request that made it. */
export interface RecordedRequest {
  /** Full id of the version that was resolved. */
  readonly tool: string
  /** Catalog id. */
  readonly toolId: string
  readonly fingerprint: string
}

/** Whether a recorded tool is served, but not to this principal: then its calls are none either (rules 1 and 2). */
export function isHidden({ registry }: CallServices, principal: Principal, tool: string): boolean {
  return registry.has(tool) && registry.catalogFor(principal).get(tool) === undefined
}

/** Rule 5: the same tool by whichever name, the same input, user and session, and no other version than the recorded one. */
export function isSameRequest(
  services: CallServices,
  call: IdentifiedCall,
  recorded: RecordedRequest,
): boolean {
  if (!meansVersion(call, recorded)) return false
  return recorded.fingerprint === call.fingerprint || isReadAgain(services, call, recorded)
}

/**
 * Rule 9: what failed with its author's word that nothing took effect may be tried again with other input, by the same
 * user and in the same session, if one is named.
 */
export function mayCorrect(call: IdentifiedCall, record: CallRecord): boolean {
  const { userId, sessionId } = call.request
  const isSamePlace = sessionId === undefined || sessionId === record.sessionId
  return record.state === 'released' && !record.expired && isSamePlace && userId === record.userId
    ? meansVersion(call, record) && meantTool(call, record) !== undefined
    : false
}

/** A request without a version means whichever is recorded. */
function meansVersion({ request }: IdentifiedCall, { tool }: RecordedRequest): boolean {
  const { version } = request.tool
  if (version === LATEST || tool.endsWith(`@${version}`)) return true
  return plainVersion(parseToolId(tool)?.version ?? '') === version
}

/** The recorded tool, if it is the one that the request names, or may have named before it went away (rule 1). */
function meantTool({ base, request }: IdentifiedCall, { tool, toolId }: RecordedRequest): ToolId | undefined {
  const meant = parseToolId(tool)
  if (meant === undefined) return undefined
  const names = request.tool.isOtherName === true ? [`${meant.toolkit}_${meant.name}`, toolId] : []
  return base === meant.base || names.includes(base) ? meant : undefined
}

/**
 * Whether a request of another fingerprint is the recorded one, read in another way: a schema, a name or a whole tool
 * may have changed since, and a lost reply must still be found (rule 1). Records of before held the version that was
 * asked for in their fingerprints.
 */
function isReadAgain(services: CallServices, call: IdentifiedCall, recorded: RecordedRequest): boolean {
  const { store } = services
  const meant = meantTool(call, recorded)
  if (meant === undefined) return false
  const inputs = readings(services, call)
  return [LATEST, plainVersion(meant.version)].some((version) =>
    inputs.some(
      (inputJson) =>
        fingerprintOf(store, { ...call.request, base: meant.base, version }, inputJson) ===
        recorded.fingerprint,
    ),
  )
}

/** The input as it is, as the tool takes it now, and as one that is gone may have taken it. */
function readings({ registry }: CallServices, call: IdentifiedCall): readonly string[] {
  const { principal, request, input, inputJson } = call
  if (request.adapt === undefined) return [inputJson]
  const now = registry.catalogFor(principal).resolve(request.tool)
  const adapted = now === undefined ? input : request.adapt(now, input)
  return [inputJson, canonicalJson(adapted), canonicalJson(withoutNulls(input))]
}

function withoutNulls(input: JsonValue): JsonValue {
  if (!isJsonObject(input)) return input
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null))
}
