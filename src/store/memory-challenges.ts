import type { ChallengeChanged } from '#core/journal/events'
import type { ChallengeNeed, ChallengeRecord, NewChallenge } from '#core/ports/store'
import { challengeKey } from './challenge-key.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** The memory store's challenges: at most one is open per need (rule 22). */
export class MemoryChallenges {
  readonly #byId = new Map<string, Mutable<ChallengeRecord>>()
  readonly #openByNeed = new Map<string, string>()
  readonly #append: (event: ChallengeChanged) => void

  constructor(append: (event: ChallengeChanged) => void) {
    this.#append = append
  }

  open(challenge: NewChallenge): ChallengeRecord {
    const key = challengeKey(challenge)
    const open = this.#byId.get(this.#openByNeed.get(key) ?? '')
    if (open?.status === 'pending') {
      if (open.expiresAtMs > challenge.atMs) return { ...open }
      open.status = 'failed'
    }
    this.#byId.set(challenge.id, { ...challenge, status: 'pending' })
    this.#openByNeed.set(key, challenge.id)
    const { id, tenant, principal, provider, atMs } = challenge
    this.#append({ type: 'challenge.opened', at: atMs, challenge: id, tenant, principal, provider })
    return { ...challenge, status: 'pending' }
  }

  find(id: string): ChallengeRecord | undefined {
    const found = this.#byId.get(id)
    return found === undefined ? undefined : { ...found }
  }

  end(need: ChallengeNeed, as: 'completed' | 'failed', atMs: number): void {
    const found = this.#byId.get(this.#openByNeed.get(challengeKey(need)) ?? '')
    if (found?.status !== 'pending') return
    found.status = as
    const { id, tenant, principal, provider } = found
    this.#append({ type: `challenge.${as}`, at: atMs, challenge: id, tenant, principal, provider })
  }

  forget(beforeMs: number): void {
    for (const [id, challenge] of this.#byId) {
      if (challenge.expiresAtMs >= beforeMs) continue
      this.#byId.delete(id)
      const key = challengeKey(challenge)
      if (this.#openByNeed.get(key) === id) this.#openByNeed.delete(key)
    }
  }
}
