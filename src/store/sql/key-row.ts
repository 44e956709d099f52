import { StoreError } from '#core/errors'
import type { KeyRecord, StoredKey } from '#core/ports/key-store'
import { integer, optionalInteger, optionalText, type Row, text } from './row.ts'

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
