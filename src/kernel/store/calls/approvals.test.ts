import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { backUpDatabase } from '#kernel/store/sqlite/files'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleParking, yesOf } from '../../../../test/contracts/approval-store-contract.ts'
import { sampleCall } from '../../../../test/contracts/samples.ts'

const REASON = 'The patient in room seven asked for it.'
const masterKey = randomBytes(32)

let folder: string
let path: string
let store: Store

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-reasons-'))
  path = join(folder, 'collet.db')
  store = openSqliteStore({ path, masterKey })
  await store.approvals.park(sampleCall(), sampleParking({ quorum: 2 }))
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

/** Every file of the database, its write-ahead log and its backup, as someone who steals the disk would read them. */
function filesWith(words: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => readFileSync(file).includes(words))
}

/** The reason from each interface that shows it. */
async function reported(): Promise<readonly (string | undefined)[]> {
  const decided = (await store.approvals.findById('approval-1'))?.decisions.map(({ reason }) => reason) ?? []
  const facts = await store.readRun({ tenant: 'default', run: 'record-1' }, -1, 100)
  const events = (await store.readJournal([], 100)).flatMap((group) => group.events)
  const reasons = [...facts, ...events].flatMap((one) => ('reason' in one ? [one.reason] : []))
  return [...decided, ...reasons]
}

describe('an approver’s reason', () => {
  it.each(['grant', 'reject', 'override'] as const)(
    'is shown to permitted readers and stored nowhere in plain text: %s',
    async (action) => {
      await store.approvals.decide(yesOf('key:bob', { action, reason: REASON }))
      const counted = action === 'reject' ? 4 : 3
      expect(await reported()).toEqual(Array.from({ length: counted }, () => REASON))
      backUpDatabase(path, join(folder, 'backup.db'))
      expect(filesWith('approval-1')).not.toEqual([])
      expect(filesWith('room seven')).toEqual([])
      await store.close()
      expect(filesWith('room seven')).toEqual([])
      store = openSqliteStore({ path: join(folder, 'backup.db'), masterKey })
      expect(await reported()).toEqual(Array.from({ length: counted }, () => REASON))
      expect(store.verify()).toMatchObject({ ok: true, badRows: [] })
    },
  )

  it.each([
    ['changed is unreadable, and the others are read', "'$.reason', 'sealed:AAAA'", '[unreadable]'],
    ['moved to another approval is unreadable', "'$.approval', 'approval-2'", '[unreadable]'],
    ['stored in plain text is returned unchanged', "'$.reason', 'as it was'", 'as it was'],
  ])('that was %s', async (_what, change, shown) => {
    await store.approvals.decide(yesOf('key:bob', { reason: REASON }))
    await store.close()
    const database = new DatabaseSync(path)
    database.exec(
      `UPDATE run_events SET fact = json_replace(fact, ${change}) WHERE fact ->> 'reason' IS NOT NULL`,
    )
    database.close()
    store = openSqliteStore({ path, masterKey })
    expect(await reported()).toEqual([REASON, shown, REASON])
  })
})
