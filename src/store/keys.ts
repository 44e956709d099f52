import { StoreError } from '#core/errors'
import { denialEvent, keyEvent, principalEndedEvent } from '#core/journal/append'
import {
  type AuditStore,
  DENIAL_REASONS,
  type Denial,
  type DenialFilter,
  type KeyChange,
  type KeyFilter,
  type KeyOwner,
  type KeyRecord,
  type KeyRotation,
  type KeyStore,
  type KeyUse,
  type NewKey,
  type RecordedDenial,
  type StoredKey,
} from '#core/ports/key-store'
import type { Database } from '#store/sqlite/database'
import type { CommitGroup } from './engine.ts'
import { integer, optionalInteger, optionalText, text, word } from './rows.ts'
import type { Row } from './steps.ts'

/** The audit stream in SQLite: a row to read it by, and the journal's event, in one commit. */
export class SqliteAudit implements AuditStore {
  readonly #ways: StoreContext

  constructor(ways: StoreContext) {
    this.#ways = ways
  }

  async recordDenials(denials: readonly Denial[]): Promise<void> {
    const { database, submit } = this.#ways
    await submit('', (group) => {
      if (denials.length === 0) {
        // A row that was never there: SQLite writes nothing for a change that changes nothing.
        database.run('insertDenial', 0, '', '', '', '', DENIAL_REASONS[0], 0)
        database.run('deleteLastDenial')
      }
      for (const denial of denials) {
        const { atMs, tenant, principal, action, resource, reason, count } = denial
        database.run('insertDenial', atMs, tenant, principal, action, resource, reason, count)
        group.append(denialEvent(denial))
      }
    })
  }

  readDenials({ tenant, after, limit }: DenialFilter): readonly RecordedDenial[] {
    const { database, read } = this.#ways
    return read(() =>
      (tenant === undefined
        ? database.all('denialsAfter', after, limit)
        : database.all('denialsOfTenantAfter', tenant, after, limit)
      ).map(denialFromRow),
    )
  }
}

function denialFromRow(row: Row): RecordedDenial {
  return {
    no: integer(row, 'no'),
    atMs: integer(row, 'at'),
    tenant: text(row, 'tenant'),
    principal: text(row, 'principal'),
    action: text(row, 'action'),
    resource: text(row, 'resource'),
    reason: word(row, 'reason', DENIAL_REASONS),
    count: integer(row, 'count'),
  }
}

/** How a part of the store reads and writes: in a commit group, or with the store's own errors. */
export interface StoreContext {
  readonly database: Database
  submit<T>(key: string, apply: (group: CommitGroup) => T): Promise<T>
  read<T>(read: () => T): T
}

/** API keys in SQLite; each change and its epoch are one transaction with the journal. */
export class SqliteKeys implements KeyStore {
  readonly #ways: StoreContext

  constructor(ways: StoreContext) {
    this.#ways = ways
  }

  createKey(key: NewKey): Promise<'created' | 'exists' | 'ended'> {
    const { database } = this.#ways
    return this.#ways.submit(orderOf(key), (group) => {
      const owner = database.get('findKeyOwner', key.tenant, key.name)
      if (owner !== undefined) return owner.ended_at === null ? 'exists' : 'ended'
      database.run('insertKeyOwner', key.tenant, key.name, key.atMs)
      database.sealOwner(key.tenant, key.name)
      this.#insert(key)
      this.#raise()
      group.append(keyEvent('key.created', key))
      return 'created'
    })
  }

  rotateKey(rotation: KeyRotation): Promise<'rotated' | 'not_found' | 'ended'> {
    const { database } = this.#ways
    const { tenant, name, oldEndAtMs } = rotation
    return this.#ways.submit(orderOf(rotation), (group) => {
      const owner = database.get('findKeyOwner', tenant, name)
      if (owner === undefined) return 'not_found'
      if (owner.ended_at !== null) return 'ended'
      const mine = database.all('keysOf', tenant, name).map(keyFromRow)
      const model = mine.find(({ revokedAtMs }) => revokedAtMs === undefined) ?? mine[0]
      if (model === undefined) return 'not_found'
      if (oldEndAtMs !== undefined) {
        database.run('shortenKeys', oldEndAtMs, oldEndAtMs, tenant, name)
        for (const { keyId } of mine) database.sealKey(keyId)
      }
      this.#insert({ ...rotation, scopes: model.scopes, roles: model.roles, tools: model.tools })
      this.#raise()
      group.append(keyEvent('key.rotated', rotation))
      return 'rotated'
    })
  }

  revokeKey(key: { readonly tenant: string; readonly keyId: string } & KeyChange): Promise<boolean> {
    return this.#ways.submit(`keys ${key.tenant}`, (group) => this.#revoke(group, key))
  }

  endPrincipal(owner: KeyOwner & KeyChange): Promise<boolean> {
    const { database } = this.#ways
    const { tenant, name, by, atMs } = owner
    return this.#ways.submit(orderOf(owner), (group) => {
      if (database.run('endKeyOwner', atMs, tenant, name) === 0) return false
      database.sealOwner(tenant, name)
      for (const row of database.all('keysOf', tenant, name)) {
        this.#revoke(group, { tenant, keyId: text(row, 'id'), by, atMs })
      }
      this.#raise()
      group.append(principalEndedEvent(owner))
      return true
    })
  }

  isEnded({ tenant, name }: KeyOwner): boolean {
    const row = this.#ways.read(() => this.#ways.database.get('findKeyOwner', tenant, name))
    return row !== undefined && row.ended_at !== null
  }

  listKeys(filter: KeyFilter): readonly KeyRecord[] {
    const { database, read } = this.#ways
    const tenant = filter.tenant ?? null
    return read(() =>
      database.all('listKeys', tenant, tenant, filter.limit).map(keyFromRow).map(withoutDigest),
    )
  }

  keysOf({ tenant, name }: KeyOwner): readonly KeyRecord[] {
    const { database, read } = this.#ways
    return read(() => database.all('keysOf', tenant, name).map(keyFromRow).map(withoutDigest))
  }

  findKey(keyId: string): StoredKey | undefined {
    const { database, read } = this.#ways
    return read(() => {
      const row = database.get('findKey', keyId)
      return row === undefined ? undefined : keyFromRow(row)
    })
  }

  epoch(): number {
    const { database, read } = this.#ways
    const row = read(() => database.get('readMeta', 'key_epoch'))
    return row === undefined ? 0 : Number(text(row, 'value'))
  }

  async noteUses(uses: readonly KeyUse[]): Promise<void> {
    const { database, submit } = this.#ways
    await submit('', () => {
      for (const { keyId, atMs } of uses) database.run('noteKeyUse', atMs, keyId)
    })
  }

  #revoke(group: CommitGroup, key: { readonly tenant: string; readonly keyId: string } & KeyChange): boolean {
    const row = this.#ways.database.get('revokeKey', key.atMs, key.keyId, key.tenant)
    if (row === undefined) return false
    this.#ways.database.sealKey(key.keyId)
    this.#raise()
    group.append(keyEvent('key.revoked', { ...key, name: text(row, 'name') }))
    return true
  }

  #insert(key: NewKey): void {
    this.#ways.database.run(
      'insertKey',
      key.keyId,
      key.digest,
      key.tenant,
      key.name,
      key.label ?? null,
      JSON.stringify(key.scopes),
      JSON.stringify(key.roles),
      key.tools === undefined ? null : JSON.stringify(key.tools),
      key.atMs,
      key.expiresAtMs ?? null,
    )
    this.#ways.database.sealKey(key.keyId)
  }

  #raise(): void {
    this.#ways.database.run('raiseKeyEpoch')
  }
}

function orderOf({ tenant, name }: KeyOwner): string {
  return `keys ${tenant} ${name}`
}

export function keyFromRow(row: Row): StoredKey {
  return {
    tenant: text(row, 'tenant'),
    name: text(row, 'name'),
    keyId: text(row, 'id'),
    digest: text(row, 'digest'),
    label: optionalText(row, 'label'),
    scopes: texts(text(row, 'scopes')),
    roles: texts(text(row, 'roles')),
    tools: row.tools === null ? undefined : texts(text(row, 'tools')),
    createdAtMs: integer(row, 'created_at'),
    expiresAtMs: optionalInteger(row, 'expires_at'),
    revokedAtMs: optionalInteger(row, 'revoked_at'),
    lastUsedAtMs: optionalInteger(row, 'used_at'),
  }
}

export function withoutDigest({ digest: _digest, ...record }: StoredKey): KeyRecord {
  return record
}

/** A grant that cannot be read is damage, never an empty one: an absent allow-list would mean every tool. */
function texts(json: string): readonly string[] {
  const value: unknown = JSON.parse(json)
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw new StoreError('unreadable', 'the database holds an API key whose grant is not a list of texts')
}
