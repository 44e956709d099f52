import { StoreError } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import type { ChallengeNeed } from '#kernel/call/stages'
import type { CredentialKind, VaultChanged } from '#kernel/journal/events'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import { type KeyRing, newDataKey, type ResealableRows, sealOnce, unseal } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, optionalBytes, optionalInteger, text, word } from '#kernel/store/rows'
import { type Attribution, mapped, type TenantPage, texts } from './steps.ts'

/**
 * The vault: stored tokens and secrets, and the tenants' data keys that seal them. The credentials stage, the consent pages
 * and `collet vault` use it; other modules seal their own values under the same data keys.
 * Every change is one conditional statement with its event. An entry is found only by its address (rule 24).
 */

const { get, all, write } = statements<
  keyof typeof queries | 'deleteConsentsOfTenant' | 'deleteQuestionsOfTenant'
>()

const KINDS = ['secret', 'token'] as const satisfies readonly CredentialKind[]

/** The owner of a credential, and the requirement that it is for. The `provider` of a secret is the secret's name. */
export interface VaultAddress extends Omit<ChallengeNeed, 'scopes'> {
  readonly kind: CredentialKind
}

export type VaultOwner = Pick<VaultAddress, 'tenant' | 'principal' | 'user'>

/** An entry without its value. */
export interface VaultFacts extends VaultAddress {
  /** Opaque name of this entry (OWP-74). It reveals nothing about the value, and changes when the entry is replaced. */
  readonly ref: string
  /** Raised with every change; changes are conditional on it. */
  readonly version: number
  /** Scopes of a token; empty for secrets. */
  readonly scopes: readonly string[]
  /** `undefined`: the credential does not expire. */
  readonly expiresAtMs: number | undefined
  /** The provider refused to renew it: its value is removed, and its scopes are requested again (OWP-78). */
  readonly isSpent: boolean
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

export interface VaultEntry extends VaultFacts {
  /** `undefined` once the entry is spent. */
  readonly value: Secret | undefined
}

/** `by` is an operator, or `consent`. */
export interface NewCredential
  extends VaultAddress,
    Pick<VaultFacts, 'ref' | 'scopes' | 'expiresAtMs'>,
    Attribution {
  readonly value: Secret
}

type RenewedCredential = Pick<NewCredential, 'value' | 'scopes' | 'expiresAtMs' | 'atMs'>

export function openVault({ exclusive, read, keys }: StoreContext) {
  const order = ({ ref }: { readonly ref: string }) => ref
  const checkKey = read((tenant: string) => checkVaultKey(keys, tenant))
  const put = exclusive(order, putCredential)
  const renew = exclusive(order, renewCredential)
  return {
    /** Replaces the entry at this address. */
    async put(credential: NewCredential) {
      await checkKey(credential.tenant)
      await put(credential)
    },
    /** Throws `unreadable` if the entry exists but cannot be decrypted (rule 14). */
    find: read((address: VaultAddress) => findCredential(keys, address)),
    /** Lets only one caller across all processes refresh this version until `untilMs`; `false` for the others (rule 26). */
    lease: exclusive(order, (_group: CommitGroup, previous: VaultFacts, nowMs: number, untilMs: number) =>
      mapped(write('leaseCredential', untilMs, ...versionOf(previous), nowMs), Boolean),
    ),
    unlease: exclusive(order, (_group: CommitGroup, previous: VaultFacts) =>
      write('unleaseCredential', ...versionOf(previous)),
    ),
    /** `false` if the entry has changed in the meantime; it then stays as it is. */
    async renew(previous: VaultFacts, renewed: RenewedCredential) {
      await checkKey(previous.tenant)
      return await renew(previous, renewed)
    },
    /** Removes the value and keeps the scopes; `false` if the entry has changed in the meantime. */
    spend: exclusive(order, spendCredential),
    /** Removes only the entry with this reference, not an entry that replaced it. */
    remove: exclusive(order, removeCredential),
    /** Newest first, without values; absent tenant: all tenants. */
    list: read(({ tenant = null, limit }: TenantPage) =>
      mapped(all('listCredentials', tenant, tenant, limit), (rows) => rows.map(factsOf)),
    ),
    listOf: read(({ tenant, principal, user }: VaultOwner) =>
      mapped(all('credentialsOf', tenant, principal, user), (rows) => rows.map(factsOf)),
    ),
    findByRef: read((ref: string) => mapped(get('findCredentialByRef', ref), (row) => row && factsOf(row))),
    /** Gives every tenant a new data key and seals all values under it. */
    rotate: exclusive(() => '', rotateKeys),
  }
}

export type VaultStore = ReturnType<typeof openVault>

function* putCredential(group: CommitGroup, credential: NewCredential): Steps<void> {
  const { ref, tenant, scopes, expiresAtMs, atMs } = credential
  const { no, key } = yield* vaultKeyOf(group, tenant, atMs)
  const sealed = sealUnder(key, credential.value.reveal(), sealContext(credential))
  const content = [no, sealed, JSON.stringify(scopes), expiresAtMs ?? null, atMs, atMs] as const
  yield* write('putCredential', ref, ...columnsOf(credential), ...content)
  group.append(vaultChanged('vault.set', credential, atMs))
}

function* findCredential(keys: KeyRing, address: VaultAddress): Steps<VaultEntry | undefined> {
  const row = yield* get('findCredential', ...columnsOf(address))
  if (row === undefined) return undefined
  const value = row.value === null ? undefined : new Secret(openValue(keys, row))
  return { ...factsOf(row), value }
}

function* renewCredential(
  group: CommitGroup,
  previous: VaultFacts,
  renewed: RenewedCredential,
): Steps<boolean> {
  const { value, scopes, expiresAtMs, atMs } = renewed
  const { no, key } = yield* vaultKeyOf(group, previous.tenant, atMs)
  const sealed = sealUnder(key, value.reveal(), sealContext(previous))
  const content = [no, sealed, JSON.stringify(scopes), expiresAtMs ?? null, atMs] as const
  if ((yield* write('renewCredential', ...content, ...versionOf(previous))) === 0) return false
  group.append(vaultChanged('vault.renewed', { ...previous, scopes }, atMs))
  return true
}

function* spendCredential(group: CommitGroup, previous: VaultFacts, atMs: number): Steps<boolean> {
  if ((yield* write('spendCredential', atMs, ...versionOf(previous))) === 0) return false
  group.append(vaultChanged('vault.spent', previous, atMs))
  return true
}

function* removeCredential(
  group: CommitGroup,
  entry: VaultAddress & Pick<VaultFacts, 'ref'>,
  by: string,
  atMs: number,
): Steps<boolean> {
  if ((yield* write('deleteCredential', ...columnsOf(entry), entry.ref)) === 0) return false
  group.append(vaultChanged('vault.removed', { ...entry, by }, atMs))
  return true
}

/** Uses one transaction, so that readers see matching keys and values. Consents in progress must start again. */
function* rotateKeys(
  group: CommitGroup,
  by: string,
  atMs: number,
): Steps<{ readonly tenants: number; readonly entries: number }> {
  const tenants = (yield* all('vaultTenants')).map((row) => text(row, 'tenant'))
  let entries = 0
  for (const tenant of tenants) entries += yield* rotateTenant(group, tenant, atMs)
  group.append({ type: 'vault.rotated', at: atMs, by, tenants: tenants.length, entries })
  return { tenants: tenants.length, entries }
}

/** Returns the number of resealed entries. */
function* rotateTenant(group: CommitGroup, tenant: string, atMs: number): Steps<number> {
  const rows = yield* all('credentialsOfTenant', tenant)
  const { no, key } = yield* makeVaultKey(group, tenant, atMs)
  for (const row of rows) {
    const sealed = sealUnder(key, openValue(group.keys, row), sealContext(factsOf(row)))
    yield* write('resealCredential', no, sealed, integer(row, 'no'))
  }
  yield* write('deleteConsentsOfTenant', tenant)
  yield* write('deleteQuestionsOfTenant', tenant)
  yield* write('deleteVaultKeys', tenant, no)
  return rows.length
}

/** A tenant's values get a new data key, because a holder of the old master key may know the old data key. */
const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'vaults', page: 'vaultsAfter', start: [''] },
    after: (row) => [text(row, 'tenant')],
    isDue: (row, keys) => !keys.isCurrent(bytes(row, 'wrapped')),
    *reseal(group, row, atMs) {
      yield* rotateTenant(group, text(row, 'tenant'), atMs)
    },
  },
]

function openValue(keys: KeyRing, row: Row): string {
  return openSealed(keys, row, 'value', sealContext(factsOf(row)))
}

function columnsOf({ tenant, principal, user, provider, kind }: VaultAddress) {
  return [tenant, principal, user, provider, kind] as const
}

function versionOf(previous: VaultFacts) {
  return [...columnsOf(previous), previous.ref, previous.version] as const
}

/** Binds a sealed value to its address, so that it cannot be moved to another owner, provider or kind. */
function sealContext(address: VaultAddress): readonly string[] {
  return ['vault', ...columnsOf(address)]
}

function factsOf(row: Row): VaultFacts {
  return {
    ...texts(row, 'tenant', 'principal', 'provider', 'ref'),
    user: text(row, 'user_id'),
    kind: word(row, 'kind', KINDS),
    version: integer(row, 'version'),
    scopes: JSON.parse(text(row, 'scopes')),
    expiresAtMs: optionalInteger(row, 'expires_at'),
    isSpent: row.value === null,
    createdAtMs: integer(row, 'created_at'),
    updatedAtMs: integer(row, 'updated_at'),
  }
}

/** The event contains the reference, but neither the value nor the user (rule 15). */
function vaultChanged(
  type: VaultChanged['type'],
  changed: VaultAddress & Pick<VaultFacts, 'ref'> & Partial<Pick<NewCredential, 'scopes' | 'by'>>,
  atMs: number,
): VaultChanged {
  const { ref, tenant, principal, provider, kind, scopes, by } = changed
  const scopeList = scopes === undefined || scopes.length === 0 ? {} : { scopes }
  const who = by === undefined ? {} : { by }
  return { type, at: atMs, ref, tenant, principal, provider, kind, ...who, ...scopeList }
}

/** A data key of one tenant, unwrapped. It seals values, and a key derived from `COLLET_KEY` seals it. */
interface VaultKey {
  readonly no: number
  readonly key: Buffer
}

/** The key that seals new values, created with the first value. The transaction ensures that there is only one. */
export function* vaultKeyOf(group: CommitGroup, tenant: string, atMs: number): Steps<VaultKey> {
  const row = yield* get('newestVaultKey', tenant)
  return row === undefined
    ? yield* makeVaultKey(group, tenant, atMs)
    : { no: integer(row, 'no'), key: dataKeyOf(group.keys, row) }
}

/** Called before a commit, so that an unreadable key fails only its own tenant's change, not the whole group. */
export function* checkVaultKey(keys: KeyRing, tenant: string): Steps<void> {
  const row = yield* get('newestVaultKey', tenant)
  if (row !== undefined) dataKeyOf(keys, row)
}

function* makeVaultKey({ keys }: CommitGroup, tenant: string, atMs: number): Steps<VaultKey> {
  const key = newDataKey()
  const wrapped = keys.seal('vault keys', key, keyContext(tenant))
  const row = (yield* get('insertVaultKey', tenant, wrapped, atMs)) ?? {}
  return { no: integer(row, 'no'), key }
}

export function sealUnder(key: Buffer, plain: string, context: readonly string[]): Buffer {
  return sealOnce(key, Buffer.from(plain), JSON.stringify(context))
}

/** `row` contains the sealed column and its wrapped key. Throws `unreadable` for another context (rule 14). */
export function openSealed(keys: KeyRing, row: Row, column: string, context: readonly string[]): string {
  return unseal(dataKeyOf(keys, row), bytes(row, column), JSON.stringify(context)).toString('utf8')
}

/** The data key that a row was sealed under. */
export function dataKeyOf(keys: KeyRing, row: Row): Buffer {
  const tenant = text(row, 'tenant')
  const wrapped = optionalBytes(row, 'wrapped')
  if (wrapped === null)
    throw new StoreError('unreadable', `the data key of an entry in the vault of tenant ${tenant} is gone`)
  return keys.open('vault keys', wrapped, keyContext(tenant))
}

function keyContext(tenant: string): string {
  return JSON.stringify(['vault key', tenant])
}

const AT = 'tenant = ? AND principal = ? AND user_id = ? AND provider = ? AND kind = ?'

const queries = {
  insertVaultKey: 'INSERT INTO vault_keys (tenant, wrapped, created_at) VALUES (?, ?, ?) RETURNING no',
  newestVaultKey: 'SELECT no, tenant, wrapped FROM vault_keys WHERE tenant = ? ORDER BY no DESC LIMIT 1',
  vaultTenants: 'SELECT DISTINCT tenant FROM vault_keys',
  vaultsAfter: `SELECT k.tenant, k.wrapped FROM vault_keys k WHERE k.tenant > ?
    AND k.no = (SELECT max(n.no) FROM vault_keys n WHERE n.tenant = k.tenant) ORDER BY k.tenant LIMIT ?`,
  deleteVaultKeys: 'DELETE FROM vault_keys WHERE tenant = ? AND no <> ?',
  putCredential: `INSERT INTO vault (ref, tenant, principal, user_id, provider, kind, version, data_key, value, scopes, expires_at,
      lease_until, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, 0, ?, ?)
    ON CONFLICT (tenant, principal, user_id, provider, kind) DO UPDATE SET ref = excluded.ref, version = vault.version + 1,
      data_key = excluded.data_key, value = excluded.value, scopes = excluded.scopes, expires_at = excluded.expires_at,
      lease_until = 0, created_at = excluded.created_at, updated_at = excluded.updated_at`,
  findCredential: `SELECT v.*, k.wrapped FROM vault v LEFT JOIN vault_keys k ON k.no = v.data_key AND k.tenant = v.tenant
    WHERE v.tenant = ? AND v.principal = ? AND v.user_id = ? AND v.provider = ? AND v.kind = ?`,
  findCredentialByRef: 'SELECT * FROM vault WHERE ref = ?',
  listCredentials:
    'SELECT * FROM vault WHERE (CAST(? AS TEXT) IS NULL OR tenant = ?) ORDER BY no DESC LIMIT ?',
  credentialsOf: 'SELECT * FROM vault WHERE tenant = ? AND principal = ? AND user_id = ? ORDER BY no DESC',
  leaseCredential: `UPDATE vault SET lease_until = ? WHERE ${AT} AND ref = ? AND version = ? AND lease_until <= ?`,
  unleaseCredential: `UPDATE vault SET lease_until = 0 WHERE ${AT} AND ref = ? AND version = ?`,
  renewCredential: `UPDATE vault SET version = version + 1, data_key = ?, value = ?, scopes = ?, expires_at = ?, lease_until = 0,
      updated_at = ? WHERE ${AT} AND ref = ? AND version = ?`,
  spendCredential: `UPDATE vault SET version = version + 1, value = NULL, lease_until = 0, updated_at = ?
    WHERE ${AT} AND ref = ? AND version = ? AND value IS NOT NULL`,
  deleteCredential: `DELETE FROM vault WHERE ${AT} AND ref = ?`,
  credentialsOfTenant: `SELECT v.*, k.wrapped FROM vault v LEFT JOIN vault_keys k ON k.no = v.data_key AND k.tenant = v.tenant
    WHERE v.tenant = ? AND v.value IS NOT NULL`,
  resealCredential: 'UPDATE vault SET data_key = ?, value = ? WHERE no = ?',
} as const

/** A row names its data key, so that a rotation by another process is unambiguous. */
const tables = `
CREATE TABLE vault_keys (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  wrapped BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX vault_keys_tenant ON vault_keys (tenant, no);

CREATE TABLE vault (
  no INTEGER PRIMARY KEY,
  ref TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  user_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  kind TEXT NOT NULL,
  version INTEGER NOT NULL,
  data_key INTEGER NOT NULL,
  value BLOB,
  scopes TEXT NOT NULL,
  expires_at INTEGER,
  lease_until INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (tenant, principal, user_id, provider, kind)
) STRICT;
`

export const vaultModule: StoreModule = { name: 'vault', tables, queries, resealing }
