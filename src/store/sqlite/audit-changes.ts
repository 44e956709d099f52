import { denialEvent } from '#core/journal/append'
import {
  type AuditStore,
  DENIAL_REASONS,
  type Denial,
  type DenialFilter,
  type RecordedDenial,
} from '#core/ports/key-store'
import { integer, type Row, text, word } from '#store/sql/row'
import type { StoreWays } from './key-changes.ts'

/** The audit stream in SQLite: a row to read it by, and the journal's event, in one commit. */
export class SqliteAudit implements AuditStore {
  readonly #ways: StoreWays

  constructor(ways: StoreWays) {
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
