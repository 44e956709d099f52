import { canonicalJson } from '#core/canonical-json'
import type { JsonValue } from '#core/json'
import type { CallAddress, Store } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { type StepOrigin, stepRecord } from '#core/workflow/step-origin'
import type { CallRequest } from './call-request.ts'

const NO_INPUT: JsonValue = {}

/** A request with its place in the store: which call it is, and whether it is the same request again. */
export interface IdentifiedCall extends CallAddress {
  readonly principal: Principal
  readonly callId: string
  /** False when we made the key: nobody can have used it before. */
  readonly keyed: boolean
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
  store: Store,
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
  return {
    tenant: principal.tenant,
    record: step === undefined ? recordOf(store, principal, callId) : stepRecord(store, step),
    principal,
    callId,
    keyed: step !== undefined || request.key !== undefined,
    fingerprint: fingerprintOf(store, request, inputJson),
    input,
    inputJson,
    request,
    ...(step === undefined ? {} : { step }),
  }
}

/** Rule 5; calls outside a session keep the form they had before there were any. */
export function fingerprintOf(
  store: Store,
  { tool, userId, sessionId }: Pick<CallRequest, 'tool' | 'userId' | 'sessionId'>,
  inputJson: string,
): string {
  const base = ['fingerprint', tool.base, tool.version, userId ?? null]
  return store.digest(`${JSON.stringify(sessionId === undefined ? base : [...base, sessionId])}${inputJson}`)
}

export function recordOf(store: Store, principal: Principal, callId: string): string {
  return store.digest(JSON.stringify(['call', principal.tenant, principal.id, callId]))
}
