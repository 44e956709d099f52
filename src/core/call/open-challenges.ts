import type { NewChallenge } from '#core/ports/store'

/** More than this are forgotten here, oldest first; they then simply expire. */
const MOST_REMEMBERED = 10_000

type Need = Pick<NewChallenge, 'tenant' | 'principal' | 'user' | 'provider'>

/** Challenges this process opened and nobody has met yet: a call that brings the token completes them (OTC-78). */
export class OpenChallenges {
  readonly #ids = new Map<string, string>()

  note(need: Need, id: string): void {
    this.#ids.set(keyOf(need), id)
    if (this.#ids.size > MOST_REMEMBERED) this.#ids.delete(this.#ids.keys().next().value ?? '')
  }

  /** The challenge this need had, once. */
  take(need: Need): string | undefined {
    if (this.#ids.size === 0) return undefined
    const key = keyOf(need)
    const id = this.#ids.get(key)
    if (id !== undefined) this.#ids.delete(key)
    return id
  }
}

function keyOf({ tenant, principal, user, provider }: Need): string {
  return JSON.stringify([tenant, principal, user, provider])
}
