import { CONSENT_STAGES, type Consent, type ConsentStore } from '#core/ports/vault-store'
import { Secret } from '#core/secret'
import type { GroupQueue } from '#store/sql/group-queue'
import { integer, type Row, text, word } from '#store/sql/row'
import { type ConsentRunsParts, SqliteConsentRuns } from './consent-runs.ts'
import type { Database } from './database.ts'
import { storeErrorOf } from './sqlite-errors.ts'
import type { VaultParts } from './vault-entries.ts'
import type { VaultSealer } from './vault-sealer.ts'

/** Consents under way, in SQLite: any process may take the one that another began. */
export class SqliteConsents implements ConsentStore {
  readonly runs: SqliteConsentRuns
  readonly #database: Database
  readonly #queue: GroupQueue
  readonly #sealer: VaultSealer

  constructor({ database, queue, sealer, runs }: VaultParts & ConsentRunsParts) {
    this.runs = new SqliteConsentRuns({ database, queue, runs })
    this.#database = database
    this.#queue = queue
    this.#sealer = sealer
  }

  async begin(consent: Consent, most: number): Promise<void> {
    const { id, tenant, challenge, stage, browser, held, expiresAtMs } = consent
    this.#sealer.checkKey(tenant)
    await this.#queue.submit(id, () => {
      const key = this.#sealer.keyOf(tenant, expiresAtMs)
      const sealed = this.#sealer.seal(key, held.reveal(), placeOf(consent))
      this.#database.run('insertConsent', id, tenant, challenge, stage, browser, key.no, sealed, expiresAtMs)
      this.#database.run('trimConsents', challenge, stage, challenge, stage, most)
    })
  }

  find(id: string): Consent | undefined {
    try {
      const row = this.#database.get('findConsent', id)
      return row === undefined ? undefined : this.#consentOf(row)
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the consents')
    }
  }

  take(id: string): Promise<boolean> {
    return this.#queue.submit(id, () => this.#database.run('takeConsent', id) > 0)
  }

  async purge(nowMs: number): Promise<void> {
    await this.#queue.submit('', () => this.#database.run('deleteConsents', nowMs))
  }

  #consentOf(row: Row): Consent {
    const facts = {
      id: text(row, 'id'),
      tenant: text(row, 'tenant'),
      challenge: text(row, 'challenge'),
      stage: word(row, 'stage', CONSENT_STAGES),
      browser: text(row, 'browser'),
      expiresAtMs: integer(row, 'expires_at'),
    }
    const at = { tenant: facts.tenant, place: placeOf(facts) }
    return { ...facts, held: new Secret(this.#sealer.unseal(row, 'held', at)) }
  }
}

function placeOf({ id, tenant, challenge, stage, browser }: Omit<Consent, 'held'>): readonly string[] {
  return ['consent', id, tenant, challenge, stage, browser]
}
