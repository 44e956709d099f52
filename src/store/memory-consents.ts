import type { Consent, ConsentStore } from '#core/ports/vault-store'
import { MemoryConsentRuns, type MemoryConsentRunsParts } from './memory-consent-runs.ts'

/** The memory store's consents under way. */
export class MemoryConsents implements ConsentStore {
  readonly runs: MemoryConsentRuns
  readonly #byId = new Map<string, Consent>()

  constructor(parts: MemoryConsentRunsParts) {
    this.runs = new MemoryConsentRuns(parts)
  }

  begin(consent: Consent, most: number): void {
    this.#byId.set(consent.id, consent)
    const same = [...this.#byId.values()].filter(
      ({ challenge, stage }) => challenge === consent.challenge && stage === consent.stage,
    )
    for (const { id } of same.slice(0, Math.max(0, same.length - most))) this.#byId.delete(id)
  }

  find(id: string): Consent | undefined {
    return this.#byId.get(id)
  }

  take(id: string): boolean {
    return this.#byId.delete(id)
  }

  purge(nowMs: number): void {
    for (const { id, expiresAtMs } of this.#byId.values()) if (expiresAtMs < nowMs) this.#byId.delete(id)
  }
}
