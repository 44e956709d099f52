import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Ask, get, type SqlValue, write } from '#kernel/store/engine'
import { KeyRing } from '#kernel/store/key-ring'
import { RowGuard } from '#kernel/store/row-mac'
import { sampleCall, success } from '../../../test/contracts/samples.ts'
import { createDatabase } from '../../../test/store/databases.ts'
import { Connection } from './connection.ts'
import { openPostgresStore } from './open.ts'
import { Transaction, type Trust } from './transaction.ts'

const masterKey = randomBytes(32)
let url: string
let connection: Connection

beforeAll(async () => {
  url = await createDatabase('transaction')
  // A store that is opened prepares the database, and one that writes has a writer there.
  const store = await openPostgresStore({ url, masterKey })
  await store.insertFinished(sampleCall({ record: 'taken' }), finished())
  await store.close()
  connection = await Connection.open(url)
})
afterAll(async () => {
  await connection.close()
})

function finished() {
  return { state: 'succeeded' as const, outcome: success('42'), atMs: 2_000 }
}

function insertCall(record: string, state = 'running'): Ask {
  const values: SqlValue[] = [
    ...[record, 'default', 'key:a', 'tool', 'definition', 'write', 'never', 1_000, 'fingerprint', state],
    ...[1, 1_000, null, 1, 0, 10, 0, 20, null, null, null, null, null, null, null, 0, null],
  ]
  return write('insertCall', ...values)
}

function finishCall(record: string): Ask {
  return write('finishCall', 'succeeded', 2_000, 1, 5, 6, 12, record, 1, 1)
}

function begin(trust: Trust): Transaction {
  const guard = new RowGuard(KeyRing.fresh({ current: masterKey }), [])
  return new Transaction(connection, guard, connection.begin(), trust)
}

async function stateOf(record: string): Promise<unknown> {
  const text = 'SELECT state FROM calls WHERE record = $1'
  return (await connection.one({ text, values: [record] })).rows[0]?.state
}

describe('a transaction that presumes', () => {
  it('makes calls and ends others in one write, which is also its commit', async () => {
    const sent = vi.spyOn(connection, 'send')
    const transaction = begin('presume')
    const asks = [insertCall('new-1'), insertCall('new-2'), finishCall('new-1')]
    for (const ask of asks) await transaction.answer([ask])
    await transaction.commit([])
    expect(sent).toHaveBeenCalledTimes(1)
    sent.mockRestore()
    expect(asks.map(({ answer }) => answer)).toEqual([1, 1, 1])
    expect([await stateOf('new-1'), await stateOf('new-2')]).toEqual(['succeeded', 'running'])
  })

  it.each([
    { why: 'a key was taken', ask: () => insertCall('taken') },
    { why: 'a run was not there to be ended', ask: () => finishCall('nobody') },
    { why: 'a run had ended already', ask: () => finishCall('taken') },
  ])('fails as a whole, and says that it is in doubt, when $why', async ({ ask }) => {
    const transaction = begin('presume')
    await transaction.answer([insertCall('beside'), ask()])
    await expect(transaction.commit([])).rejects.toThrow()
    await transaction.undo()
    expect(transaction.isDoubtful).toBe(true)
    expect(await stateOf('beside')).toBeUndefined()
  })

  it('has made what it presumed before anything that is asked later', async () => {
    const transaction = begin('presume')
    const found = get('findCall', 'seen')
    await transaction.answer([insertCall('seen'), found])
    await transaction.undo()
    expect(found.answer).toMatchObject({ record: 'seen' })
  })
})

describe('the store', () => {
  it('tells each of a group what became of it, also when one of them finds its key taken', async () => {
    const store = await openPostgresStore({ url, masterKey })
    try {
      const records = ['group-1', 'taken', 'group-2']
      const inserted = await Promise.all(
        records.map((record) => store.insertFinished(sampleCall({ record }), finished())),
      )
      expect(inserted.map(({ kind }) => kind)).toEqual(['recorded', 'found', 'recorded'])
    } finally {
      await store.close()
    }
  })
})
