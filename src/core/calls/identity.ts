import { hash } from 'node:crypto'
import type { CallRequest } from '#core/call'
import { fault, type ToolError } from '#core/errors'
import { LATEST, parseToolId, plainVersion, type ToolId, type ToolRef } from '#core/ids'
import { canonicalJson, isJsonObject, type JsonValue } from '#core/json'
import type { CallAddress, CallRecord, Store } from '#core/ports/store'
import type { Principal } from '#core/principal'
import type { Tool } from '#core/tool'
import type { ToolSet } from '#core/tools/catalog'
import { type StepOrigin, stepRecord } from '#core/workflow/step'
import { redactText } from './redact.ts'

/** What tells calls apart: keyed digests, and the tools that names stand for. */
export interface Identities {
  readonly store: Pick<Store, 'digest'>
  readonly registry: ToolSet
}

/** What a record, or a run of this process, says of the request that made it. */
export interface RecordedRequest {
  /** Full id of the version that was resolved. */
  readonly tool: string
  /** Catalog id. */
  readonly toolId: string
  readonly fingerprint: string
}

/** Whether a recorded tool is served, but not to this principal: then its calls are none either (rules 1 and 2). */
export function isHidden(registry: ToolSet, principal: Principal, tool: string): boolean {
  return registry.has(tool) && registry.catalogFor(principal).get(tool) === undefined
}

/** Rule 5: the same tool by whichever name, the same input, user and session, and no other version than the recorded one. */
export function isSameRequest(
  identities: Identities,
  call: IdentifiedCall,
  recorded: RecordedRequest,
): boolean {
  if (!meansVersion(call, recorded)) return false
  return recorded.fingerprint === call.fingerprint || isSameInOtherWords(identities, call, recorded)
}

/**
 * Rule 9: what failed with its author's word that nothing took effect may be tried again with other input, by the same
 * user and in the same session, if one is named.
 */
export function mayCorrect(call: IdentifiedCall, record: CallRecord): boolean {
  const { userId, sessionId } = call.request
  const isSameSession = sessionId === undefined || sessionId === record.sessionId
  return record.state === 'released' && !record.expired && isSameSession && userId === record.userId
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
function isSameInOtherWords(
  identities: Identities,
  call: IdentifiedCall,
  recorded: RecordedRequest,
): boolean {
  const { store, registry } = identities
  const meant = meantTool(call, recorded)
  if (meant === undefined) return false
  const inputs = readings(registry, call)
  return [LATEST, plainVersion(meant.version)].some((version) =>
    inputs.some(
      (inputJson) =>
        fingerprintOf(store, { ...call.request, base: meant.base, version }, inputJson) ===
        recorded.fingerprint,
    ),
  )
}

/** The input as it is, as the tool takes it now, and as one that is gone may have taken it. */
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

export function keyConflict(): ToolError {
  return fault(
    'key_conflict',
    'This call id was already used for a different request. Use a new call id for a new call.',
  )
}

/** Tells equal inputs without telling them: hex SHA-256 of the canonical input, its call's credentials cut out (OWP-52). */
export function argsHash({ input, inputJson, request }: IdentifiedCall): string {
  const hasCredentials = request.tokens.size > 0 || request.secrets.size > 0
  const shown = hasCredentials
    ? canonicalJson(redacted(input, (text) => redactText(text, request)))
    : inputJson
  return hash('sha256', shown, 'hex')
}

/** In the texts and not in the JSON around them, where a credential may be written with escapes. */
function redacted(value: JsonValue, clean: (text: string) => string): JsonValue {
  if (typeof value === 'string') return clean(value)
  if (typeof value !== 'object' || value === null) return value
  if (!isJsonObject(value)) return value.map((member) => redacted(member, clean))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [clean(name), redacted(member ?? null, clean)]),
  )
}

const NO_INPUT: JsonValue = {}

/** A request as the store knows it: which call it is, and whether it is the same request again. */
export interface IdentifiedCall extends CallAddress {
  readonly principal: Principal
  readonly callId: string
  /** False when we made the key: nobody can have used it before. */
  readonly keyed: boolean
  /** `Toolkit.Name` of the tool it names, or the name itself when no tool is known by it. */
  readonly base: string
  readonly fingerprint: string
  readonly input: JsonValue
  readonly inputJson: string
  readonly request: CallRequest
  /** Vault references of the credentials it was equipped with, by `authorization:<id>` and `secrets:<id>`; absent = none. */
  readonly vaultRefs?: ReadonlyMap<string, string>
  /** The user that the request names is proven (T-27); absent = it is the caller's word, or there is none. */
  readonly isUserProven?: true
  /** Whose step it is; only a workflow's own server makes such calls (rule 31). */
  readonly step?: StepOrigin
}

/** Rules 3 to 5: key and fingerprint are keyed digests, so the store tells nothing about what a caller wrote. */
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
      { base, userId: request.userId, sessionId: request.sessionId },
      inputJson,
    ),
    input,
    inputJson,
    request,
    ...(step === undefined ? {} : { step }),
  }
}

/** Only names that are no ids have to be looked up. */
function baseOf(registry: ToolSet, principal: Principal, { base, isOtherName }: ToolRef): string {
  if (isOtherName === undefined) return base
  return registry.catalogFor(principal).versionsOf(base)[0]?.parts.base ?? base
}

/**
 * Rule 5: the version is compared with the recorded one, so it is no part of this. The text it had there, and none for a session, are
 * what the form had before, so that what was recorded then is still found.
 */
function fingerprintOf(
  store: Pick<Store, 'digest'>,
  about: {
    readonly base: string
    readonly userId: string | undefined
    readonly sessionId?: string | undefined
    readonly version?: string
  },
  inputJson: string,
): string {
  const { base, version = LATEST, userId, sessionId } = about
  const parts = ['fingerprint', base, version, userId ?? null]
  return store.digest(
    `${JSON.stringify(sessionId === undefined ? parts : [...parts, sessionId])}${inputJson}`,
  )
}

export function recordOf(store: Pick<Store, 'digest'>, principal: Principal, callId: string): string {
  return store.digest(JSON.stringify(['call', principal.tenant, principal.id, callId]))
}

/** The call with its input as this tool takes it: what it is found under is what other protocols would send (rule 5). */
export function adaptInput(store: Pick<Store, 'digest'>, call: IdentifiedCall, tool: Tool): IdentifiedCall {
  const { adapt } = call.request
  if (adapt === undefined) return call
  const input = adapt(tool, call.input)
  if (input === call.input) return call
  const inputJson = canonicalJson(input)
  const { userId, sessionId } = call.request
  const fingerprint = fingerprintOf(store, { base: call.base, userId, sessionId }, inputJson)
  return { ...call, input, inputJson, fingerprint }
}
