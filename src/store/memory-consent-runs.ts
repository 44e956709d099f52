import type { ChallengeChanged } from '#core/journal/events'
import type { ChallengeNeed } from '#core/ports/store'
import type { AskedConsent, ConsentEnd, ConsentRunStore } from '#core/ports/vault-store'
import { askedConsentFacts, endedConsentFacts, labelOf, type WaitingConsent } from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import { challengeKey } from './challenge-key.ts'
import type { MemoryRuns } from './memory-runs.ts'

interface Waiting extends WaitingConsent {
  readonly need: string
  readonly tenant: string
  readonly run: string
  readonly expiresAtMs: number
}

export interface MemoryConsentRunsParts {
  readonly runs: MemoryRuns
  hasCall(record: string): boolean
  append(event: ChallengeChanged): void
}

/** What the memory store's runs tell of consents. */
export class MemoryConsentRuns implements ConsentRunStore {
  readonly #parts: MemoryConsentRunsParts
  readonly #waiting = new Map<string, Waiting>()

  constructor(parts: MemoryConsentRunsParts) {
    this.#parts = parts
  }

  isTold(challenge: string, record: string): boolean {
    return this.#waiting.has(keyOf(challenge, record))
  }

  tell(asked: AskedConsent): boolean {
    const { runs, append } = this.#parts
    const { tenant, record, principal, place, challenge, need, expiresAtMs, atMs } = asked
    const key = keyOf(challenge, record)
    if (this.#waiting.has(key)) return true
    if (this.#isRecorded(place.run, record) || !runs.open(place, atMs)) return false
    const { provider } = need
    const { run } = place
    this.#waiting.set(key, {
      record,
      challenge,
      provider,
      need: challengeKey(need),
      tenant,
      run,
      expiresAtMs,
    })
    const positions = askedConsentFacts(asked, labelOf(asked)).map((fact) => runs.append(run, fact, atMs))
    append({ type: 'challenge.asked', at: atMs, challenge, tenant, principal, provider, ...positions[0] })
    return true
  }

  resolve(need: ChallengeNeed, end: ConsentEnd): readonly string[] {
    const key = challengeKey(need)
    return this.#end((waiting) => waiting.need === key, end)
  }

  expire(nowMs: number): readonly string[] {
    const end = { as: 'failed', reason: 'timeout', atMs: nowMs } as const
    return this.#end(({ expiresAtMs }) => expiresAtMs <= nowMs, end)
  }

  #end(isMeant: (waiting: Waiting) => boolean, { atMs, ...end }: ConsentEnd): readonly string[] {
    const { runs } = this.#parts
    const told = new Set<string>()
    for (const [key, waiting] of this.#waiting) {
      if (!isMeant(waiting)) continue
      this.#waiting.delete(key)
      const found = runs.find(waiting)
      if (found === undefined || isRunEnded(found, atMs) || this.#isRecorded(waiting.run, waiting.record))
        continue
      for (const fact of endedConsentFacts(waiting, end)) runs.append(waiting.run, fact, atMs)
      told.add(waiting.run)
    }
    return [...told]
  }

  /** Whether the run is one of a call whose record tells the rest of it: nothing comes between. */
  #isRecorded(run: string, record: string): boolean {
    return run === record && this.#parts.hasCall(record)
  }
}

function keyOf(challenge: string, record: string): string {
  return JSON.stringify([challenge, record])
}
