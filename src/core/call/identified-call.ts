import { canonicalJson } from '#core/canonical-json'
import type { JsonValue } from '#core/json'
import type { ToolSet } from '#core/live-registry'
import type { CallAddress, Store } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { LATEST, type ToolRef } from '#core/tool-id'
import { type StepOrigin, stepRecord } from '#core/workflow/step-origin'
import type { CallRequest } from './call-request.ts'
import type { CallServices } from './call-services.ts'

const NO_INPUT: JsonValue = {}

/** A request with its place in the store: which call it is, and whether it is the same request again. */
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
  { store, registry }: Pick<CallServices, 'store' | 'registry'>,
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
 * Rule 5: the version is compared with the recorded one, so it is no part of this. Its place, and none for a session, are
 * what the form had before, so that what was recorded then is still found.
 */
export function fingerprintOf(
  store: Store,
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

export function recordOf(store: Store, principal: Principal, callId: string): string {
  return store.digest(JSON.stringify(['call', principal.tenant, principal.id, callId]))
}
