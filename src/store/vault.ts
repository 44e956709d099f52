import { StoreError } from '#core/errors'
import type { VaultChanged } from '#core/journal/events'
import type {
  CredentialKind,
  NewCredential,
  RenewedCredential,
  VaultAddress,
  VaultEntry,
  VaultFacts,
  VaultStore,
} from '#core/ports/vault-store'
import { Secret } from '#core/secret'
import { type Database, storeErrorOf } from '#store/sqlite/database'
import type { CommitQueue } from './commit-queue.ts'
import { newDataKey, sealOnce, unseal } from './encryption.ts'
import { bytes, integer, optionalBytes, optionalInteger, text, word } from './rows.ts'
import type { Row } from './steps.ts'

const KINDS = ['secret', 'token'] as const satisfies readonly CredentialKind[]

export interface VaultParts {
  readonly database: Database
  readonly queue: CommitQueue
  readonly sealer: VaultSealer
}

/** The vault in SQLite. Every change is one conditional statement with its event, durable before it is told. */
export class SqliteVault implements VaultStore {
  readonly #database: Database
  readonly #queue: CommitQueue
  readonly #sealer: VaultSealer

  constructor({ database, queue, sealer }: VaultParts) {
    this.#database = database
    this.#queue = queue
    this.#sealer = sealer
  }

  async put(credential: NewCredential): Promise<void> {
    const { ref, scopes, expiresAtMs, atMs } = credential
    this.#read(() => this.#sealer.checkKey(credential.tenant))
    await this.#queue.submit(ref, (group) => {
      const key = this.#sealer.keyOf(credential.tenant, atMs)
      const sealed = this.#sealer.seal(key, credential.value.reveal(), placeOf(credential))
      const content = [key.no, sealed, JSON.stringify(scopes), expiresAtMs ?? null, atMs, atMs] as const
      this.#database.run('putCredential', ref, ...columnsOf(credential), ...content)
      group.append(vaultChanged('vault.set', credential, atMs))
    })
  }

  find(address: VaultAddress): VaultEntry | undefined {
    const row = this.#read(() => this.#database.get('findCredential', ...columnsOf(address)))
    return row === undefined ? undefined : this.#entryOf(row)
  }

  lease(seen: VaultFacts, nowMs: number, untilMs: number): Promise<boolean> {
    return this.#change(
      seen,
      () => this.#database.run('leaseCredential', untilMs, ...versionOf(seen), nowMs) > 0,
    )
  }

  async unlease(seen: VaultFacts): Promise<void> {
    await this.#change(seen, () => this.#database.run('unleaseCredential', ...versionOf(seen)))
  }

  async renew(seen: VaultFacts, renewed: RenewedCredential): Promise<boolean> {
    const { value, scopes, expiresAtMs, atMs } = renewed
    this.#read(() => this.#sealer.checkKey(seen.tenant))
    return await this.#queue.submit(seen.ref, (group) => {
      const key = this.#sealer.keyOf(seen.tenant, atMs)
      const sealed = this.#sealer.seal(key, value.reveal(), placeOf(seen))
      const content = [key.no, sealed, JSON.stringify(scopes), expiresAtMs ?? null, atMs] as const
      if (this.#database.run('renewCredential', ...content, ...versionOf(seen)) === 0) return false
      group.append(vaultChanged('vault.renewed', { ...seen, scopes }, atMs))
      return true
    })
  }

  spend(seen: VaultFacts, atMs: number): Promise<boolean> {
    return this.#queue.submit(seen.ref, (group) => {
      if (this.#database.run('spendCredential', atMs, ...versionOf(seen)) === 0) return false
      group.append(vaultChanged('vault.spent', seen, atMs))
      return true
    })
  }

  remove(entry: VaultAddress & Pick<VaultFacts, 'ref'>, by: string, atMs: number): Promise<boolean> {
    return this.#queue.submit(entry.ref, (group) => {
      if (this.#database.run('deleteCredential', ...columnsOf(entry), entry.ref) === 0) return false
      group.append(vaultChanged('vault.removed', { ...entry, by }, atMs))
      return true
    })
  }

  list({
    tenant = null,
    limit,
  }: {
    readonly tenant?: string | null
    readonly limit: number
  }): readonly VaultFacts[] {
    return this.#read(() => this.#database.all('listCredentials', tenant, tenant, limit)).map(factsOf)
  }

  findByRef(ref: string): VaultFacts | undefined {
    const row = this.#read(() => this.#database.get('findCredentialByRef', ref))
    return row === undefined ? undefined : factsOf(row)
  }

  /** All in one transaction: whoever reads sees old keys with old values, or new with new. Consents under way begin again. */
  rotate(by: string, atMs: number): Promise<{ readonly tenants: number; readonly entries: number }> {
    return this.#queue.submit('', (group) => {
      const tenants = this.#database.all('vaultTenants').map((row) => text(row, 'tenant'))
      let entries = 0
      for (const tenant of tenants) {
        const rows = this.#database.all('credentialsOfTenant', tenant)
        const key = this.#sealer.makeKey(tenant, atMs)
        for (const row of rows) {
          const plain = this.#open(row)
          this.#database.run(
            'resealCredential',
            key.no,
            this.#sealer.seal(key, plain, placeOf(factsOf(row))),
            integer(row, 'no'),
          )
        }
        this.#database.run('deleteConsentsOfTenant', tenant)
        this.#database.run('deleteQuestionsOfTenant', tenant)
        this.#database.run('deleteVaultKeys', tenant, key.no)
        entries += rows.length
      }
      group.append({ type: 'vault.rotated', at: atMs, by, tenants: tenants.length, entries })
      return { tenants: tenants.length, entries }
    })
  }

  #entryOf(row: Row): VaultEntry {
    return { ...factsOf(row), value: row.value === null ? undefined : new Secret(this.#open(row)) }
  }

  #open(row: Row): string {
    const facts = factsOf(row)
    return this.#sealer.unseal(row, 'value', { tenant: facts.tenant, place: placeOf(facts) })
  }

  #change<T>(seen: VaultFacts, change: () => T): Promise<T> {
    return this.#queue.submit(seen.ref, change)
  }

  #read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the vault')
    }
  }
}

type AddressColumns = readonly [string, string, string, string, string]

function columnsOf({ tenant, principal, user, provider, kind }: VaultAddress): AddressColumns {
  return [tenant, principal, user, provider, kind]
}

function versionOf(seen: VaultFacts): readonly [...AddressColumns, string, number] {
  return [...columnsOf(seen), seen.ref, seen.version]
}

/** What a sealed value is bound to: it cannot be moved to another owner, provider or kind. */
function placeOf(address: VaultAddress): readonly string[] {
  return ['vault', ...columnsOf(address)]
}

function factsOf(row: Row): VaultFacts {
  const scopes: readonly string[] = JSON.parse(text(row, 'scopes'))
  return {
    tenant: text(row, 'tenant'),
    principal: text(row, 'principal'),
    user: text(row, 'user'),
    provider: text(row, 'provider'),
    kind: word(row, 'kind', KINDS),
    ref: text(row, 'ref'),
    version: integer(row, 'version'),
    scopes,
    expiresAtMs: optionalInteger(row, 'expires_at'),
    isSpent: row.value === null,
    createdAtMs: integer(row, 'created_at'),
    updatedAtMs: integer(row, 'updated_at'),
  }
}

/** A data key of one tenant, ready for use. */
export interface VaultKey {
  readonly no: number
  readonly key: Buffer
}

/** The vault's envelope: values under a random key of their tenant, that key under one derived from `COLLET_KEY`. */
export class VaultSealer {
  readonly #database: Database
  readonly #wrapKey: Buffer

  constructor(database: Database, wrapKey: Buffer) {
    this.#database = database
    this.#wrapKey = wrapKey
  }

  /** The key new values are sealed under, made with the first one; inside a transaction, so there is one. */
  keyOf(tenant: string, atMs: number): VaultKey {
    const row = this.#database.get('newestVaultKey', tenant)
    return row === undefined
      ? this.makeKey(tenant, atMs)
      : { no: integer(row, 'no'), key: this.#unwrap(row, tenant) }
  }

  /** Outside a commit: an unreadable key is the trouble of its own tenant, not of all who are committed together. */
  checkKey(tenant: string): void {
    const row = this.#database.get('newestVaultKey', tenant)
    if (row !== undefined) this.#unwrap(row, tenant)
  }

  makeKey(tenant: string, atMs: number): VaultKey {
    const key = newDataKey()
    const wrapped = sealOnce(this.#wrapKey, key, keyPlace(tenant))
    const row = this.#database.get('insertVaultKey', tenant, wrapped, atMs) ?? {}
    return { no: integer(row, 'no'), key }
  }

  seal({ key }: VaultKey, plain: string, place: readonly string[]): Buffer {
    return sealOnce(key, Buffer.from(plain), JSON.stringify(place))
  }

  /** Under the key of something that is sealed already. */
  sealBeside(
    row: Row,
    plain: string,
    at: { readonly tenant: string; readonly place: readonly string[] },
  ): Buffer {
    return sealOnce(this.#unwrap(row, at.tenant), Buffer.from(plain), JSON.stringify(at.place))
  }

  /** `row` holds the sealed column and its key; what does not fit its place is unreadable (rule 14). */
  unseal(
    row: Row,
    column: string,
    at: { readonly tenant: string; readonly place: readonly string[] },
  ): string {
    return unseal(this.#unwrap(row, at.tenant), bytes(row, column), JSON.stringify(at.place)).toString('utf8')
  }

  #unwrap(row: Row, tenant: string): Buffer {
    const wrapped = optionalBytes(row, 'wrapped')
    if (wrapped === null)
      throw new StoreError('unreadable', `the data key of something in the vault of tenant ${tenant} is gone`)
    return unseal(this.#wrapKey, wrapped, keyPlace(tenant))
  }
}

function keyPlace(tenant: string): string {
  return JSON.stringify(['vault key', tenant])
}

/** What a change of the vault writes to the journal: the reference, never the value, and not the user (rule 15). */
export function vaultChanged(
  type: VaultChanged['type'],
  changed: VaultAddress & Pick<VaultFacts, 'ref'> & Partial<Pick<NewCredential, 'scopes' | 'by'>>,
  atMs: number,
): VaultChanged {
  const { ref, tenant, principal, provider, kind, scopes, by } = changed
  const names = scopes === undefined || scopes.length === 0 ? {} : { scopes }
  const who = by === undefined ? {} : { by }
  return { type, at: atMs, ref, tenant, principal, provider, kind, ...who, ...names }
}
