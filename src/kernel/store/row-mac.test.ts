import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '#store/collet-store'
import type { PinRecord } from '#store/imports'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleParking } from '../../../test/contracts/approval-store-contract.ts'
import { sampleCall } from '../../../test/contracts/samples.ts'

const masterKey = randomBytes(32)
const AT = Date.UTC(2026, 0, 1)
const KEY = {
  ...{ tenant: 'acme', name: 'agent', keyId: 'key-1', digest: 'd', label: undefined, roles: [] },
  ...{ scopes: ['a:b'], tools: undefined, expiresAtMs: undefined, by: 'cli:root', atMs: AT },
}
const OFFERED = {
  ...{ nativeName: 'write_file', description: 'Writes.', inputSchema: {}, outputSchema: {} },
  ...{ policy: { approval: 'always' as const }, binding: {} },
}
const PIN: PinRecord = {
  ...{ nativeName: 'write_file', local: 'write_file', isServed: true, waiting: undefined },
  accepted: { hash: 'h', offered: OFFERED, identity: {}, version: '1.0.0', atMs: AT, by: 'first sight' },
}

let folder: string
let path: string
let store: Store
let foreign: string[]

function open(): Store {
  foreign = []
  return openSqliteStore({ path, masterKey, onForeign: (row) => foreign.push(row) })
}

/** A change by a process that can write to the file but does not have the key. */
function tamper(sql: string): void {
  const database = new DatabaseSync(path)
  database.exec(sql)
  database.close()
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-macs-'))
  path = join(folder, 'collet.db')
  store = open()
  await store.approvals.park(sampleCall(), sampleParking({ expiresAtMs: AT + 9e9, quorum: 2 }))
  await store.keys.createKey(KEY)
  await store.pins.write({ source: 'Fs', seen: 0, pins: [PIN], changesServed: true, events: [] })
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

const YES = { tenant: 'default', id: 'approval-1', action: 'grant', reason: undefined, opaque: 'o' } as const

describe('guarded rows', () => {
  it('stay valid through every change by Collet', async () => {
    await store.approvals.decide({ ...YES, by: 'key:bob', atMs: AT + 1 })
    await store.approvals.decide({ ...YES, by: 'key:eve', atMs: AT + 2 })
    await store.keys.rotateKey({ ...KEY, keyId: 'key-2', oldEndAtMs: AT + 5 })
    await store.keys.noteUses([{ keyId: 'key-1', atMs: AT + 3 }])
    await store.keys.revokeKey({ tenant: 'acme', keyId: 'key-1', by: 'cli:root', atMs: AT + 4 })
    await store.pins.write({
      ...{ source: 'Fs', seen: 1, changesServed: true, events: [] },
      pins: [{ ...PIN, isServed: false }],
    })
    expect(store.approvals.findById('approval-1')).toMatchObject({ state: 'granted', decisions: [{}, {}] })
    expect(store.keys.listKeys({ limit: 10 })).toHaveLength(2)
    expect((await store.pins.read('Fs')).pins).toHaveLength(1)
    expect(store.verify()).toMatchObject({ ok: true, rows: 7, badRows: [] })
    expect(foreign).toEqual([])
  })

  it.each([
    ['a grant without an approver', "UPDATE approvals SET state = 'granted'", 'approvals approval-1'],
    ['a smaller quorum', 'UPDATE approvals SET quorum = 1', 'approvals approval-1'],
    ['more time', 'UPDATE approvals SET expires_at = expires_at + 1', 'approvals approval-1'],
    ['another call', "UPDATE approvals SET binding = 'x'", 'approvals approval-1'],
    ['more scopes', `UPDATE api_keys SET scopes = '["*"]'`, 'api_keys key-1'],
    ['another secret', "UPDATE api_keys SET digest = 'mine'", 'api_keys key-1'],
    ['another tenant', "UPDATE api_keys SET tenant = 'rival'", 'api_keys key-1'],
    [
      'a pin that asks for nothing',
      `UPDATE pins SET accepted = '${JSON.stringify({ hash: 'h', version: '1.0.0', identity: {} })}'`,
      'pins Fs write_file',
    ],
    ['a row of their own', 'UPDATE pins SET mac = NULL', 'pins Fs write_file'],
  ])('are refused and named when changed without the key: %s', async (_what, sql, row) => {
    await store.close()
    tamper(sql)
    store = open()
    if (row.startsWith('approvals')) {
      expect(() => store.approvals.findById('approval-1')).toThrow(
        expect.objectContaining({ code: 'unreadable' }),
      )
      const decided = async () => store.approvals.decide({ ...YES, by: 'key:bob', atMs: AT + 1 })
      await expect(decided).rejects.toThrow('without the key')
      expect(store.approvals.list({ limit: 10 })).toEqual([])
      // A foreign row does not hide the others.
      expect(await store.approvals.expire(AT + 10e9)).toEqual([])
    } else if (row.startsWith('api_keys')) {
      expect(() => store.keys.findKey('key-1')).toThrow(expect.objectContaining({ code: 'unreadable' }))
    } else {
      expect((await store.pins.read('Fs')).pins).toEqual([])
    }
    expect(foreign).toEqual([row])
    const { ok, badRows } = await store.verify()
    expect([ok, badRows]).toEqual([false, [{ row, reason: 'was changed by someone without the key' }]])
  })

  it('decisions that no approver made are not counted', async () => {
    await store.approvals.decide({ ...YES, by: 'key:bob', atMs: AT + 1 })
    await store.close()
    tamper(`INSERT INTO approval_decisions (approval, principal, action, at, n, mac)
      SELECT approval, 'key:eve', action, at, 1, mac FROM approval_decisions`)
    store = open()
    expect((await store.approvals.findById('approval-1'))?.decisions).toMatchObject([{ by: 'key:bob' }])
    expect(foreign).toEqual(['approval_decisions approval-1 key:eve'])
  })

  it('that were set back to an earlier state are detected by their end in the journal', async () => {
    const database = new DatabaseSync(path)
    const [key, approval] = ['api_keys', 'approvals'].map((table) =>
      database.prepare(`SELECT * FROM ${table}`).get(),
    )
    await store.keys.revokeKey({ tenant: 'acme', keyId: 'key-1', by: 'cli:root', atMs: AT + 4 })
    await store.approvals.decide({ ...YES, action: 'reject', by: 'key:bob', atMs: AT + 1 })
    const back = (table: string, column: string, row: typeof key) =>
      database
        .prepare(
          `UPDATE ${table} SET ${column} = ?, mac = ?${table === 'approvals' ? ', decided_at = NULL' : ''}`,
        )
        .run(row?.[column] ?? null, row?.mac ?? null)
    back('api_keys', 'revoked_at', key)
    back('approvals', 'state', approval)
    database.close()
    const { ok, badRows } = await store.verify()
    expect([ok, badRows]).toEqual([
      false,
      [
        { row: 'approvals approval-1', reason: 'was set back: the journal says that it is rejected' },
        { row: 'api_keys key-1', reason: 'was set back: the journal says that it is revoked' },
      ],
    ])
  })

  /** Every final state of every guarded table: how it is reached, and the columns that contain it. */
  const ENDS: readonly (readonly [string, string, (now: Store) => unknown])[] = [
    [
      'approvals',
      'rejected',
      (now) => now.approvals.decide({ ...YES, action: 'reject', by: 'key:b', atMs: AT + 1 }),
    ],
    ['approvals', 'expired', (now) => now.approvals.expire(AT + 10e9)],
    [
      'approvals',
      'cancelled',
      (now) => now.approvals.cancel({ tenant: 'default', record: 'record-1' }, 'key:a', AT + 1),
    ],
    [
      'approvals',
      'used',
      async (now) => {
        for (const by of ['key:b', 'key:c']) await now.approvals.decide({ ...YES, by, atMs: AT + 1 })
        const parked = await now.find({ tenant: 'default', record: 'record-1' })
        const approval = await now.approvals.findById('approval-1')
        if (parked === undefined || approval === undefined) throw new Error('nothing is parked')
        const { id: approvalId, binding } = approval
        return await now.approvals.resume(parked, {
          approvalId,
          binding,
          session: undefined,
          rerunUntilMs: AT + 9e9,
          atMs: AT + 2,
        })
      },
    ],
    [
      'api_keys',
      'revoked',
      (now) => now.keys.revokeKey({ tenant: 'acme', keyId: 'key-1', by: 'cli:r', atMs: AT + 4 }),
    ],
    [
      'key_owners',
      'ended',
      (now) => now.keys.endPrincipal({ tenant: 'acme', name: 'agent', by: 'cli:r', atMs: AT + 4 }),
    ],
  ]

  it.each(ENDS)('that were set back after their end are named: %s %s', async (table, end, bringAbout) => {
    const database = new DatabaseSync(path)
    const before = database.prepare(`SELECT * FROM ${table}`).get()
    await bringAbout(store)
    const columns = Object.keys(before ?? {})
    database
      .prepare(`UPDATE ${table} SET ${columns.map((column) => `${column} = ?`).join(', ')}`)
      .run(...columns.map((column) => before?.[column] ?? null))
    database.close()
    const { ok, badRows } = await store.verify()
    expect(ok).toBe(false)
    expect(badRows.map(({ row, reason }) => [row.split(' ')[0], reason])).toContainEqual([
      table,
      `was set back: the journal says that it is ${end}`,
    ])
  })

  it('are refused by every read, and a key rotation names them', async () => {
    await store.close()
    tamper(`UPDATE api_keys SET scopes = '["*"]'`)
    store = open()
    const reads: readonly [string, () => unknown][] = [
      ['findKey', () => store.keys.findKey('key-1')],
      ['keysOf', () => store.keys.keysOf({ tenant: 'acme', name: 'agent' })],
      ['listKeys', () => store.keys.listKeys({ limit: 10 })],
      ['rotateKey', () => store.keys.rotateKey({ ...KEY, keyId: 'key-2', oldEndAtMs: undefined })],
    ]
    for (const [name, read] of reads) {
      const answer = await Promise.resolve()
        .then(read)
        .then(
          (value) => JSON.stringify(value),
          (error: unknown) => String(error),
        )
      expect(answer, name).not.toContain('"*"')
    }
    expect(foreign).toEqual(['api_keys key-1'])
    await store.close()
    store = open()
    expect(JSON.stringify(store.keys.listKeys({ limit: 10 }))).not.toContain('"*"')
  })

  it('are not replaced by empty tables if the database is set back', async () => {
    await store.close()
    tamper('PRAGMA user_version = 0')
    expect(open).toThrow('already exists')
    rmSync(path)
    store = open()
  })

  it('are not signed after a foreign trigger changed them', async () => {
    tamper(`CREATE TRIGGER more AFTER INSERT ON api_keys BEGIN
      UPDATE api_keys SET scopes = '["*"]' WHERE id = NEW.id; END`)
    const create = async () => store.keys.createKey({ ...KEY, name: 'other', keyId: 'key-2' })
    await expect(create).rejects.toThrow('trigger')
    expect(store.keys.findKey('key-2')).toBeUndefined()
    expect(store.verify()).toMatchObject({
      ok: false,
      badRows: [{ row: 'trigger more', reason: 'was not created by Collet' }],
    })
    await store.close()
    expect(open).toThrow('trigger')
    tamper('DROP TRIGGER more')
    store = open()
  })
})
