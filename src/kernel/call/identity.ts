import { hash } from 'node:crypto'
import { inTimeOrder, LATEST, parseToolId, plainVersion, type ToolId, type ToolRef } from '#kernel/base/ids'
import { canonicalJson, isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import { isRunAs } from '#kernel/base/users'
import type { KernelStore } from '#kernel/store/store'
import type { ToolSet } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import type { CallRequest } from './call.ts'
import type { CallAddress } from './call-record.ts'
import { redactText } from './redact.ts'
import { type StepOrigin, stepRecord } from './step-origin.ts'

/**
 * The identity of a call: the record id its key stands for, the fingerprint of its request, and whether two requests are
 * equal. Look-up, approvals, recovery and the protocols' hash for display use it.
 * Record ids and fingerprints are keyed digests, so the store reveals nothing about what a caller wrote (rules 3 to 5).
 */

/** Keyed digests, and the tools that names stand for. */
export interface Identities {
  readonly store: Pick<KernelStore, 'digest'>
  readonly registry: ToolSet
}

const NO_INPUT: JsonValue = {}

/** A request as the store knows it. */
export interface IdentifiedCall extends CallAddress {
  readonly principal: Principal
  readonly callId: string
  /** False when the server made the key: no earlier request can have used it. */
  readonly keyed: boolean
  /** `Toolkit.Name` of the tool it names, or the name itself when no tool is known by it. */
  readonly base: string
  readonly fingerprint: string
  readonly input: JsonValue
  readonly inputJson: string
  readonly request: CallRequest
  /** Vault references of the credentials lent to the call, by `authorization:<id>` and `secrets:<id>`; absent = none. */
  readonly vaultRefs?: ReadonlyMap<string, string>
  /** The user that the request names is proven (OTC/T-27); absent = the caller only claims it, or names none. */
  readonly isUserProven?: true
  /** The workflow whose step this call is; only the server that runs a workflow makes such calls (rule 31). */
  readonly step?: StepOrigin | undefined
}

export function identifyCall(
  { store, registry }: Identities,
  caller: {
    readonly principal: Principal
    readonly request: CallRequest
    readonly freshId: () => string
    readonly step?: StepOrigin | undefined
  },
): IdentifiedCall {
  const { principal, request, step } = caller
  const callId = step?.callId ?? request.key ?? caller.freshId()
  const input = request.input === undefined ? NO_INPUT : request.input
  const inputJson = canonicalJson(input)
  const base = baseOf(registry, principal, request.tool)
  return {
    tenant: principal.tenant,
    record: step === undefined ? recordOf(store, principal, callId) : stepRecord(store, step),
    principal,
    callId,
    keyed: step !== undefined || request.key !== undefined,
    base,
    fingerprint: fingerprintOf(
      store,
      { base, userId: request.userId, sessionId: request.sessionId, principal },
      inputJson,
    ),
    input,
    inputJson,
    request,
    step,
  }
}

/** Only names that are no ids have to be looked up. */
function baseOf(registry: ToolSet, principal: Principal, { base, isOtherName }: ToolRef): string {
  if (isOtherName === undefined) return base
  return registry.catalogFor(principal).versionsOf(base)[0]?.parts.base ?? base
}

/** Rule 5: the version is compared with the recorded one, so it is not part of the fingerprint. */
function fingerprintOf(
  store: Pick<KernelStore, 'digest'>,
  about: {
    readonly base: string
    readonly userId: string | undefined
    readonly sessionId?: string | undefined
    readonly principal: Principal
  },
  inputJson: string,
): string {
  const { base, userId, sessionId, principal } = about
  const parts = ['fingerprint', base, userId ?? null, sessionId ?? null]
  // A caller neither resumes what the operator ran under its name, nor the other way round.
  const purpose = isRunAs(principal) ? 'run as ' : ''
  return store.digest(`${purpose}${JSON.stringify(parts)}${inputJson}`)
}

export function recordOf(store: Pick<KernelStore, 'digest'>, principal: Principal, callId: string): string {
  const digest = store.digest(JSON.stringify(['call', principal.tenant, principal.id, callId]))
  return inTimeOrder(digest, callId)
}

/** The call with its input as this tool reads it; the fingerprint is then equal on every protocol (rule 5). */
export function adaptInput(
  store: Pick<KernelStore, 'digest'>,
  call: IdentifiedCall,
  tool: Tool,
): IdentifiedCall {
  const { adapt } = call.request
  if (adapt === undefined) return call
  const input = adapt(tool, call.input)
  if (input === call.input) return call
  const inputJson = canonicalJson(input)
  const { userId, sessionId } = call.request
  const { base, principal } = call
  const fingerprint = fingerprintOf(store, { base, userId, sessionId, principal }, inputJson)
  return { ...call, input, inputJson, fingerprint }
}

/** The request that made a record, or a run of this process. */
export interface RecordedRequest {
  /** Full id of the version that was resolved. */
  readonly tool: string
  readonly toolId: string
  readonly fingerprint: string
}

/** Rule 5: the same tool by whichever name, the same input, user and session, and no other version than the recorded one. */
export function isSameRequest(
  identities: Identities,
  call: IdentifiedCall,
  recorded: RecordedRequest,
): boolean {
  if (!acceptsVersion(call, recorded)) return false
  return recorded.fingerprint === call.fingerprint || matchesOtherReading(identities, call, recorded)
}

/** Whether the request names the recorded tool, and not another version of it. */
export function namesRecorded(call: IdentifiedCall, recorded: RecordedRequest): boolean {
  return acceptsVersion(call, recorded) && namedTool(call, recorded) !== undefined
}

/** A request without a version accepts the recorded one. */
function acceptsVersion({ request }: IdentifiedCall, { tool }: RecordedRequest): boolean {
  const { version } = request.tool
  if (version === LATEST || tool.endsWith(`@${version}`)) return true
  return plainVersion(parseToolId(tool)?.version ?? '') === version
}

/** The recorded tool, if it is the one that the request names, or may have named before it went away (rule 1). */
function namedTool({ base, request }: IdentifiedCall, { tool, toolId }: RecordedRequest): ToolId | undefined {
  const named = parseToolId(tool)
  if (named === undefined) return undefined
  const names = request.tool.isOtherName === true ? [`${named.toolkit}_${named.name}`, toolId] : []
  return base === named.base || names.includes(base) ? named : undefined
}

/**
 * Whether a request with another fingerprint is the recorded one: its schema, its name or the whole tool may have changed
 * since, and a lost reply must still be found (rule 1).
 */
function matchesOtherReading(
  identities: Identities,
  call: IdentifiedCall,
  recorded: RecordedRequest,
): boolean {
  const { store, registry } = identities
  const { principal } = call
  const named = namedTool(call, recorded)
  if (named === undefined) return false
  return readings(registry, call).some(
    (inputJson) =>
      fingerprintOf(store, { ...call.request, principal, base: named.base }, inputJson) ===
      recorded.fingerprint,
  )
}

/** Candidate inputs: as sent, as the current tool reads it, and as a removed tool would have read it. */
function readings(registry: ToolSet, call: IdentifiedCall): readonly string[] {
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

/** Identifies equal inputs without revealing them: hex SHA-256 of the canonical input without its credentials (OWP-52). */
export function argsHash({ input, inputJson, request }: IdentifiedCall): string {
  const hasCredentials = request.tokens.size > 0 || request.secrets.size > 0
  const shown = hasCredentials
    ? canonicalJson(redacted(input, (text) => redactText(text, request)))
    : inputJson
  return hash('sha256', shown, 'hex')
}

/** Redacts the texts rather than the JSON around them, where a credential may be written with escapes. */
function redacted(value: JsonValue, clean: (text: string) => string): JsonValue {
  if (typeof value === 'string') return clean(value)
  if (typeof value !== 'object' || value === null) return value
  if (!isJsonObject(value)) return value.map((member) => redacted(member, clean))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [clean(name), redacted(member ?? null, clean)]),
  )
}
