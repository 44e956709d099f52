import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { Principal } from '#core/principal'
import { isSameSignature } from './same-signature.ts'

/** What a request that was answered with questions goes on with (MCP-72). */
export interface RequestState {
  readonly callId: string
  /** `asked`: its run waits for answers. `page`: nothing ran, a person has to do something first. */
  readonly waitsFor: 'asked' | 'page'
  /** Challenges whose end is waited for. */
  readonly challenges: readonly string[]
  readonly round: number
  readonly expiresAtMs: number
  /** Good once, and different every round (T-17). */
  readonly nonce: string
}

/** What a state is bound to: nobody else, and no other request, can use it. */
export interface StateOwner {
  readonly principal: Principal
  readonly name: string
  readonly input: JsonObject
}

const VERSION = 'v1'

export function sealState(state: RequestState, owner: StateOwner, sign: (text: string) => string): string {
  const payload = Buffer.from(JSON.stringify(state)).toString('base64url')
  return `${VERSION}.${payload}.${signatureOf(payload, owner, sign)}`
}

/** `undefined` for anything but what we sealed for this owner and has not expired. */
export function openState(
  sealed: string,
  owner: StateOwner,
  { sign, nowMs }: { readonly sign: (text: string) => string; readonly nowMs: number },
): RequestState | undefined {
  const [version, payload = '', signature, ...more] = sealed.split('.')
  if (version !== VERSION || more.length > 0) return undefined
  if (!isSameSignature(signature, signatureOf(payload, owner, sign))) return undefined
  const state = readState(JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')))
  return state !== undefined && state.expiresAtMs > nowMs ? state : undefined
}

function signatureOf(payload: string, owner: StateOwner, sign: (text: string) => string): string {
  const { principal, name, input } = owner
  return sign(
    JSON.stringify(['mcp state', principal.tenant, principal.id, name, canonicalJson(input), payload]),
  )
}

function readState(json: JsonValue): RequestState | undefined {
  if (!isJsonObject(json)) return undefined
  const { callId, waitsFor, challenges, round, expiresAtMs, nonce } = json
  if (typeof callId !== 'string' || typeof nonce !== 'string') return undefined
  if (typeof round !== 'number' || typeof expiresAtMs !== 'number') return undefined
  if (waitsFor !== 'asked' && waitsFor !== 'page') return undefined
  const ids = Array.isArray(challenges) ? challenges.filter((id) => typeof id === 'string') : []
  return { callId, waitsFor, challenges: ids, round, expiresAtMs, nonce }
}
