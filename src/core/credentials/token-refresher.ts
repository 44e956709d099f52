import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import type { Store } from '#core/ports/store'
import type { TokenBroker } from '#core/ports/token-broker'
import type { VaultEntry } from '#core/ports/vault-store'
import { packToken, unpackToken } from './token-value.ts'

/** Longer than a provider is ever waited for, so that a lease ends only under a process that died. */
const LEASE_MS = 12_000
const POLL_MS = 50

export type Refreshed = VaultEntry | 'refused' | 'unavailable'

export interface TokenRefresherOptions {
  readonly store: Pick<Store, 'vault'>
  readonly clock: Clock
  readonly log: Logger
  readonly broker: TokenBroker
}

/**
 * Renews tokens, one request for all who wait: in this process they share a promise, across processes a lease on the
 * version they have seen (rule 26). A provider that rotates refresh tokens would take a second request for theft.
 */
export class TokenRefresher {
  readonly #options: TokenRefresherOptions
  readonly #underWay = new Map<string, Promise<Refreshed>>()

  constructor(options: TokenRefresherOptions) {
    this.#options = options
  }

  refresh(entry: VaultEntry): Promise<Refreshed> {
    const name = `${entry.ref} ${entry.version}`
    const known = this.#underWay.get(name)
    if (known !== undefined) return known
    const begun = this.#refresh(entry).finally(() => this.#underWay.delete(name))
    this.#underWay.set(name, begun)
    return begun
  }

  async #refresh(entry: VaultEntry): Promise<Refreshed> {
    const { store, clock } = this.#options
    const value = entry.value === undefined ? undefined : unpackToken(entry.value)
    if (value?.refreshToken === undefined) return this.#spend(entry)
    const giveUpMs = clock.nowMs() + LEASE_MS + POLL_MS
    while (clock.nowMs() < giveUpMs) {
      const nowMs = clock.nowMs()
      if (await store.vault.lease(entry, nowMs, nowMs + LEASE_MS))
        return await this.#ask(entry, value.refreshToken)
      const current = await store.vault.find(entry)
      if (current?.value === undefined) return 'refused'
      if (current.version !== entry.version) return current
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    return 'unavailable'
  }

  async #ask(
    entry: VaultEntry,
    refreshToken: NonNullable<ReturnType<typeof unpackToken>['refreshToken']>,
  ): Promise<Refreshed> {
    const { store, clock, broker, log } = this.#options
    const answer = await broker.refresh(entry.provider, refreshToken, entry.scopes)
    if (answer.kind === 'unavailable') {
      await store.vault.unlease(entry)
      return 'unavailable'
    }
    if (answer.kind === 'refused') {
      log.info({ provider: entry.provider, ref: entry.ref }, 'a provider refused to renew a token')
      return await this.#spend(entry)
    }
    const { tokens } = answer
    const renewed = {
      value: packToken({ ...tokens, refreshToken: tokens.refreshToken ?? refreshToken }),
      scopes: tokens.scopes,
      expiresAtMs: tokens.expiresAtMs,
      atMs: clock.nowMs(),
    }
    // Set anew or removed while we asked: what is there now counts.
    if (!(await store.vault.renew(entry, renewed))) return (await store.vault.find(entry)) ?? 'refused'
    return { ...entry, ...renewed, version: entry.version + 1, updatedAtMs: renewed.atMs }
  }

  async #spend(entry: VaultEntry): Promise<Refreshed> {
    const { store, clock } = this.#options
    if (await store.vault.spend(entry, clock.nowMs())) return 'refused'
    const current = await store.vault.find(entry)
    return current?.value === undefined || current.version === entry.version ? 'refused' : current
  }
}
