import { isSameSecret } from '#kernel/base/hash'
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'

/*
 * `requestState` of revision 2026-07-28: the state that a client gets with questions and returns with its answers.
 * `multi-round-calls.ts` seals and opens it.
 * Invariant: a state opens only for the principal, tool and arguments it was sealed for.
 */

/** The state that a client returns with its answers (MCP-72). */
export interface RequestState {
  readonly callId: string
  /** `asked`: the run waits for answers. `page`: nothing ran yet; a person has to open a page first. */
  readonly waitsFor: 'asked' | 'page'
  /** Challenges that have to end before the call continues. */
  readonly challenges: readonly string[]
  readonly round: number
  readonly expiresAtMs: number
  /** Different in every round, and accepted only once (MCP/T-17). */
  readonly nonce: string
}

/** The principal and request that a state is bound to. */
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

/** `undefined` for a state that was not sealed for this owner, or has expired. */
export function openState(
  sealed: string,
  owner: StateOwner,
  { sign, nowMs }: { readonly sign: (text: string) => string; readonly nowMs: number },
): RequestState | undefined {
  const [version, payload = '', signature = '', ...more] = sealed.split('.')
  if (version !== VERSION || more.length > 0) return undefined
  if (!isSameSecret(signature, signatureOf(payload, owner, sign))) return undefined
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
