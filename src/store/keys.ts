import { StoreError } from '#kernel/base/errors'
import { principalIdOf } from '#kernel/base/principal'
import { DENIAL_REASONS, type Denial, type KeyChanged } from '#kernel/journal/events'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { GuardedTable, StoreModule } from '#kernel/store/module'
import { sealRow } from '#kernel/store/row-mac'
import { integer, optionalInteger, optionalText, readEpoch, text, word } from '#kernel/store/rows'
import { type Attribution, mapped, type TenantPage, texts } from './steps.ts'

/**
 * API keys with the principals that own them, and the audit stream of denials. Authentication and `collet keys` use the keys.
 * Rows of keys and owners are never deleted, so a principal's name is never reused (rule 3). Every change raises the
 * epoch in its own transaction, and is journaled.
 */

const { get, all, write } = statements<keyof typeof queries>()

export interface RecordedDenial extends Denial {
  /** Increasing number; readers use it as their cursor. */
  readonly no: number
}

/** The owner of keys: the principal `key:<name>` of one tenant. */
export interface KeyOwner {
  readonly tenant: string
  readonly name: string
}

export interface KeyGrant {
  readonly scopes: readonly string[]
  readonly roles: readonly string[]
  /** Allow-list of catalog ids; `undefined`: every tool that the scopes allow (OWP-57). */
  readonly tools: readonly string[] | undefined
}

interface KeySecret {
  /** Public id of the key in lists, in the journal and inside the key itself. */
  readonly keyId: string
  /** SHA-256 of the whole key. The key has 256 random bits, so a slow hash would gain nothing. */
  readonly digest: string
  readonly label: string | undefined
  /** `undefined`: the key does not expire. */
  readonly expiresAtMs: number | undefined
}

export interface NewKey extends KeyOwner, KeyGrant, KeySecret, Attribution {}

export interface KeyRotation extends KeyOwner, KeySecret, Attribution {
  /** Existing keys expire at this time, unless they expire earlier; `undefined`: their expiry stays unchanged. */
  readonly oldEndAtMs: number | undefined
}

export interface KeyRecord extends KeyOwner, KeyGrant, Omit<KeySecret, 'digest'> {
  readonly createdAtMs: number
  readonly revokedAtMs: number | undefined
  /** Approximate, because not every use is written. */
  readonly lastUsedAtMs: number | undefined
}

/** A key with the digest that a presented key is compared with. */
export interface StoredKey extends KeyRecord {
  readonly digest: string
}

const EPOCH = 'key_epoch'

export function openKeys({ exclusive, read }: StoreContext) {
  return {
    /** Creates a principal with its first key. `ended`: the name belonged to a principal that has been removed. */
    createKey: exclusive(orderOf, createKey),
    /** Adds a key with the grant of the newest key that is not revoked, or else of the newest key. */
    rotateKey: exclusive(orderOf, rotateKey),
    revokeKey: exclusive(({ tenant }) => `keys ${tenant}`, revokeKey),
    /** Revokes all keys of a principal for good; `false` if the principal does not exist or has already ended. */
    endPrincipal: exclusive(orderOf, endPrincipal),
    noteUses: exclusive(() => '', noteUses),
    isEnded: read(({ tenant, name }: KeyOwner) =>
      mapped(get('findKeyOwner', tenant, name), (row) => row !== undefined && row.ended_at !== null),
    ),
    /** Newest first. */
    listKeys: read(({ tenant = null, limit }: TenantPage) =>
      mapped(all('listKeys', tenant, tenant, limit), keyRecords),
    ),
    keysOf: read(({ tenant, name }: KeyOwner) => mapped(all('keysOf', tenant, name), keyRecords)),
    /** For authentication: the tenant comes from the key (rule 3). */
    findKey: read((keyId: string) => mapped(get('findKey', keyId), (row) => row && keyFromRow(row))),
    /** Raised by every change in any process; 0 before the first key is created (rule 26). */
    epoch: read(() => readEpoch(EPOCH)),
  }
}

export type KeyStore = ReturnType<typeof openKeys>

function* createKey(group: CommitGroup, key: NewKey): Steps<'created' | 'exists' | 'ended'> {
  const { tenant, name, atMs } = key
  const owner = yield* get('findKeyOwner', tenant, name)
  if (owner !== undefined) return owner.ended_at === null ? 'exists' : 'ended'
  yield* write('insertKeyOwner', tenant, name, atMs)
  yield* sealRow(group.keys, OWNERS, tenant, name)
  yield* insertKey(group, key)
  group.append(keyEvent('key.created', key))
  return 'created'
}

function* rotateKey(group: CommitGroup, rotation: KeyRotation): Steps<'rotated' | 'not_found' | 'ended'> {
  const { tenant, name, oldEndAtMs } = rotation
  const owner = yield* get('findKeyOwner', tenant, name)
  if (owner === undefined) return 'not_found'
  if (owner.ended_at !== null) return 'ended'
  const existing = (yield* all('keysOf', tenant, name)).map(keyFromRow)
  const newest = existing.find(({ revokedAtMs }) => revokedAtMs === undefined) ?? existing[0]
  if (newest === undefined) return 'not_found'
  if (oldEndAtMs !== undefined) {
    yield* write('shortenKeys', oldEndAtMs, oldEndAtMs, tenant, name)
    for (const { keyId } of existing) yield* sealRow(group.keys, API_KEYS, keyId)
  }
  yield* insertKey(group, { ...rotation, scopes: newest.scopes, roles: newest.roles, tools: newest.tools })
  group.append(keyEvent('key.rotated', rotation))
  return 'rotated'
}

function* revokeKey(
  group: CommitGroup,
  key: { readonly tenant: string; readonly keyId: string } & Attribution,
): Steps<boolean> {
  const row = yield* get('revokeKey', key.atMs, key.keyId, key.tenant)
  if (row === undefined) return false
  yield* sealRow(group.keys, API_KEYS, key.keyId)
  yield* write('raiseEpoch', EPOCH)
  group.append(keyEvent('key.revoked', { ...key, name: text(row, 'name') }))
  return true
}

function* endPrincipal(group: CommitGroup, owner: KeyOwner & Attribution): Steps<boolean> {
  const { tenant, name, by, atMs } = owner
  if ((yield* write('endKeyOwner', atMs, tenant, name)) === 0) return false
  yield* sealRow(group.keys, OWNERS, tenant, name)
  for (const row of yield* all('keysOf', tenant, name)) {
    yield* revokeKey(group, { tenant, keyId: text(row, 'id'), by, atMs })
  }
  yield* write('raiseEpoch', EPOCH)
  group.append({ type: 'principal.ended', at: atMs, tenant, principal: principalIdOf(name), by })
  return true
}

function* insertKey(group: CommitGroup, key: NewKey): Steps<void> {
  const { keyId, digest, tenant, name, label, scopes, roles, tools, atMs, expiresAtMs } = key
  const allowList = tools === undefined ? null : JSON.stringify(tools)
  const grant = [JSON.stringify(scopes), JSON.stringify(roles), allowList]
  yield* write('insertKey', keyId, digest, tenant, name, label ?? null, ...grant, atMs, expiresAtMs ?? null)
  yield* sealRow(group.keys, API_KEYS, keyId)
  yield* write('raiseEpoch', EPOCH)
}

function* noteUses(
  _group: CommitGroup,
  uses: readonly { readonly keyId: string; readonly atMs: number }[],
): Steps<void> {
  for (const { keyId, atMs } of uses) yield* write('noteKeyUse', atMs, keyId)
}

function keyEvent(
  type: KeyChanged['type'],
  key: KeyOwner & Attribution & { readonly keyId: string },
): KeyChanged {
  const { tenant, name, keyId, by, atMs } = key
  return { type, at: atMs, tenant, principal: principalIdOf(name), key: keyId, by }
}

function orderOf({ tenant, name }: KeyOwner): string {
  return `keys ${tenant} ${name}`
}

function keyFromRow(row: Row): StoredKey {
  return {
    ...texts(row, 'tenant', 'name', 'digest'),
    keyId: text(row, 'id'),
    label: optionalText(row, 'label'),
    scopes: parseGrant(text(row, 'scopes')),
    roles: parseGrant(text(row, 'roles')),
    tools: row.tools === null ? undefined : parseGrant(text(row, 'tools')),
    createdAtMs: integer(row, 'created_at'),
    expiresAtMs: optionalInteger(row, 'expires_at'),
    revokedAtMs: optionalInteger(row, 'revoked_at'),
    lastUsedAtMs: optionalInteger(row, 'used_at'),
  }
}

function keyRecords(rows: readonly Row[]): readonly KeyRecord[] {
  return rows.map(keyFromRow).map(({ digest: _digest, ...record }) => record)
}

/** A grant that cannot be read is an error, because an absent allow-list would mean every tool. */
function parseGrant(json: string): readonly string[] {
  const value: unknown = JSON.parse(json)
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw new StoreError('unreadable', 'the database contains an API key whose grant is not a list of strings')
}

/** The audit stream (rule 30a), kept as long as the journal, which contains every denial too. */
export function openAudit({ exclusive, read }: StoreContext) {
  return {
    /** Commits even an empty list, so that timing does not reveal whether there was a denial (OWP-22). */
    recordDenials: exclusive(() => '', recordDenials),
    /** Oldest first. */
    readDenials: read(readDenials),
  }
}

export type AuditStore = ReturnType<typeof openAudit>

function* recordDenials(group: CommitGroup, denials: readonly Denial[]): Steps<void> {
  if (denials.length === 0) {
    // Inserts and deletes a row, because a database writes nothing for a change without effect.
    const row = (yield* get('insertDenial', 0, '', '', '', '', DENIAL_REASONS[0], 0)) ?? {}
    yield* write('deleteDenial', integer(row, 'no'))
  }
  for (const denial of denials) {
    const { atMs, ...facts } = denial
    const { tenant, principal, action, resource, reason, count } = facts
    yield* write('insertDenial', atMs, tenant, principal, action, resource, reason, count)
    group.append({ type: 'authorization.decided', at: atMs, ...facts, allowed: false })
  }
}

function* readDenials({
  tenant,
  after,
  limit,
}: TenantPage & { readonly after: number }): Steps<readonly RecordedDenial[]> {
  const rows =
    tenant === undefined
      ? yield* all('denialsAfter', after, limit)
      : yield* all('denialsOfTenantAfter', tenant, after, limit)
  return rows.map((row) => ({
    ...texts(row, 'tenant', 'principal', 'action', 'resource'),
    no: integer(row, 'no'),
    atMs: integer(row, 'at'),
    reason: word(row, 'reason', DENIAL_REASONS),
    count: integer(row, 'count'),
  }))
}

const OWNERS: GuardedTable = {
  table: 'key_owners',
  label: 'owners of keys',
  columns: ['tenant', 'name', 'created_at', 'ended_at'],
  names: ['tenant', 'name'],
  checkedReads: ['findKeyOwner'],
  endOf: (row) => (row.ended_at === null ? undefined : 'ended'),
  endedBy: ({ type, tenant = '', principal = '' }) =>
    type === 'principal.ended'
      ? { row: { tenant, name: principal.replace(/^key:/, '') }, state: 'ended' }
      : undefined,
}

/** The MAC does not cover the time of a key's last use, because no decision depends on it. */
export const API_KEYS: GuardedTable = {
  table: 'api_keys',
  label: 'API keys',
  columns: [
    ...['id', 'digest', 'tenant', 'name', 'label', 'scopes', 'roles', 'tools', 'created_at', 'expires_at'],
    'revoked_at',
  ],
  names: ['id'],
  checkedReads: ['findKey', 'keysOf', 'listKeys'],
  endOf: (row) => (row.revoked_at === null ? undefined : 'revoked'),
  endedBy: ({ type, key = '' }) =>
    type === 'key.revoked' ? { row: { id: key }, state: 'revoked' } : undefined,
}

const queries = {
  insertKeyOwner: 'INSERT INTO key_owners (tenant, name, created_at) VALUES (?, ?, ?)',
  findKeyOwner: 'SELECT * FROM key_owners WHERE tenant = ? AND name = ?',
  endKeyOwner: 'UPDATE key_owners SET ended_at = ? WHERE tenant = ? AND name = ? AND ended_at IS NULL',
  insertKey: `INSERT INTO api_keys (id, digest, tenant, name, label, scopes, roles, tools, created_at, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  findKey: 'SELECT * FROM api_keys WHERE id = ?',
  keysOf: 'SELECT * FROM api_keys WHERE tenant = ? AND name = ? ORDER BY no DESC',
  listKeys: 'SELECT * FROM api_keys WHERE (CAST(? AS TEXT) IS NULL OR tenant = ?) ORDER BY no DESC LIMIT ?',
  shortenKeys: `UPDATE api_keys SET expires_at = min(coalesce(expires_at, ?), ?)
    WHERE tenant = ? AND name = ? AND revoked_at IS NULL`,
  revokeKey:
    'UPDATE api_keys SET revoked_at = ? WHERE id = ? AND tenant = ? AND revoked_at IS NULL RETURNING name',
  noteKeyUse: 'UPDATE api_keys SET used_at = max(coalesce(used_at, 0), ?) WHERE id = ?',
  deleteDenial: 'DELETE FROM denials WHERE no = ?',
  insertDenial: `INSERT INTO denials (at, tenant, principal, action, resource, reason, count)
    VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING no`,
  denialsAfter: 'SELECT * FROM denials WHERE no > ? ORDER BY no LIMIT ?',
  // Hides denials for other tenants' tools from a tenant's auditors, who would learn the tools' names (OWP-22).
  denialsOfTenantAfter: `SELECT * FROM denials WHERE tenant = ? AND no > ? AND (reason <> 'tenant' OR tenant = 'default')
    ORDER BY no LIMIT ?`,
  deleteDenials: 'DELETE FROM denials WHERE no IN (SELECT no FROM denials WHERE at < ? LIMIT ?)',
} as const

const tables = `
CREATE TABLE key_owners (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  mac TEXT,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  label TEXT,
  scopes TEXT NOT NULL,
  roles TEXT NOT NULL,
  tools TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  used_at INTEGER,
  mac TEXT
) STRICT;

CREATE INDEX api_keys_owner ON api_keys (tenant, name);

CREATE TABLE denials (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL
) STRICT;

CREATE INDEX denials_at ON denials (at);
CREATE INDEX denials_tenant ON denials (tenant, no);
`

export const keyModule: StoreModule = {
  name: 'keys',
  ...{ tables, queries, guarded: [OWNERS, API_KEYS] },
  *forget({ nowMs, policy, limit }) {
    return yield* write('deleteDenials', nowMs - policy.journalMs, limit)
  },
}
