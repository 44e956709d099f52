import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { get, type SqlValue, type StatementRequest, write } from '#kernel/store/engine'
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
  // Opening a store creates the tables, and the first write creates its writer.
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

function insertCall(record: string, state = 'running'): StatementRequest {
  const values: SqlValue[] = [
    ...[record, 'default', 'key:a', 'tool', 'definition', 'write', 'never', 1_000, 'fingerprint', state],
    ...[1, 1_000, null, 1, 0, 10, 0, 20, null, null, null, null, null, null, null, 0, null],
  ]
  return write('insertCall', ...values)
}

function finishCall(record: string): StatementRequest {
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
  it('inserts and finishes calls in one write that also commits', async () => {
    const sent = vi.spyOn(connection, 'send')
    const transaction = begin('presume')
    const requests = [insertCall('new-1'), insertCall('new-2'), finishCall('new-1')]
    for (const request of requests) await transaction.answer([request])
    await transaction.commit([])
    expect(sent).toHaveBeenCalledTimes(1)
    sent.mockRestore()
    expect(requests.map(({ answer }) => answer)).toEqual([1, 1, 1])
    expect([await stateOf('new-1'), await stateOf('new-2')]).toEqual(['succeeded', 'running'])
  })

  it.each([
    { why: 'a key was taken', request: () => insertCall('taken') },
    { why: 'a run was not there to be ended', request: () => finishCall('nobody') },
    { why: 'a run had ended already', request: () => finishCall('taken') },
  ])('fails as a whole, and is doubtful, when $why', async ({ request }) => {
    const transaction = begin('presume')
    await transaction.answer([insertCall('beside'), request()])
    await expect(transaction.commit([])).rejects.toThrow()
    await transaction.undo()
    expect(transaction.isDoubtful).toBe(true)
    expect(await stateOf('beside')).toBeUndefined()
  })

  it('sends presumed statements before later statements', async () => {
    const transaction = begin('presume')
    const found = get('findCall', 'seen')
    await transaction.answer([insertCall('seen'), found])
    await transaction.undo()
    expect(found.answer).toMatchObject({ record: 'seen' })
  })
})

describe('the store', () => {
  it("returns each change's own result, even if one of them finds its key taken", async () => {
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
