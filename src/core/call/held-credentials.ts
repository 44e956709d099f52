import type { Secret } from '#core/secret'
import type { CallRequest } from './call-request.ts'
import type { IdentifiedCall } from './identified-call.ts'

interface Held {
  readonly ref: string
  readonly value: Secret
}

/** What the vault lends to one call. It lives in this call's memory alone (OWP-74). */
export class HeldCredentials {
  readonly tokens = new Map<string, Held>()
  readonly secrets = new Map<string, Held>()
  readonly #request: CallRequest

  constructor(request: CallRequest) {
    this.#request = request
  }

  /** The same call; its request is as if the caller had sent these, so they are handed out and cut out of texts alike. */
  equip(call: IdentifiedCall): IdentifiedCall {
    if (this.tokens.size === 0 && this.secrets.size === 0) return call
    const request = {
      ...this.#request,
      tokens: joined(this.#request.tokens, this.tokens),
      secrets: joined(this.#request.secrets, this.secrets),
    }
    const vaultRefs = new Map([...refsOf('authorization', this.tokens), ...refsOf('secrets', this.secrets)])
    return { ...call, request, vaultRefs }
  }
}

function joined(
  sent: ReadonlyMap<string, Secret>,
  lent: ReadonlyMap<string, Held>,
): ReadonlyMap<string, Secret> {
  return new Map([...sent, ...[...lent].map(([id, { value }]) => [id, value] as const)])
}

function refsOf(kind: string, lent: ReadonlyMap<string, Held>): readonly (readonly [string, string])[] {
  return [...lent].map(([id, { ref }]) => [`${kind}:${id}`, ref] as const)
}
