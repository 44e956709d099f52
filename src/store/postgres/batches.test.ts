import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { get, type SqlValue, type StatementRequest, write } from '#kernel/store/engine'
import { KeyRing } from '#kernel/store/key-ring'
import { createDatabase } from '../../../test/store/databases.ts'
import { answerAll, BATCHES } from './batches.ts'
import { Connection } from './connection.ts'
import { prepareDatabase } from './open.ts'

const BEFORE = ['record-1', 'record-2', 'record-3']
const FAR = 2 ** 40

let connection: Connection

beforeAll(async () => {
  const url = await createDatabase('batches')
  await prepareDatabase(url, new KeyRing({ current: randomBytes(32) }))
  connection = await Connection.open(url)
  await answerAll(connection, [get('insertWriter', 'writer-1', 1_000, Buffer.from('key'), 0, null)], 'change')
  await answerAll(
    connection,
    BEFORE.map((record) => write('insertCall', ...callValues(record))),
    'change',
  )
  await answerAll(connection, [write('insertRun', 'run-1', 'default', 'key:a', FAR)], 'change')
})
afterAll(async () => {
  await connection.close()
})

function callValues(record: string): SqlValue[] {
  const [group, at] = [FAR, 1_000]
  return [
    ...[record, 'default', 'key:a', 'tool', 'definition', 'write', 'never', at, 'fingerprint', 'running'],
    ...[1, at, null, group, 0, 10, 0, 20, null, null, null, null, null, null, null, 0, null],
  ]
}

function finishValues(record: string, attempt = 1): SqlValue[] {
  return ['succeeded', 2_000, FAR, 5, 6, 12, record, attempt, 1]
}

/** Each query with requests that succeed, that find nothing, and that concern the same row. */
const ASKS: Readonly<Record<string, () => StatementRequest[]>> = {
  insertCall: () =>
    ['new-1', 'record-1', 'new-2', 'new-1'].map((record) => write('insertCall', ...callValues(record))),
  finishCall: () =>
    [
      finishValues('record-1'),
      finishValues('record-2', 2),
      finishValues('nobody'),
      finishValues('record-1'),
    ].map((values) => write('finishCall', ...values)),
  callerOf: () => ['record-2', 'nobody', 'record-2', 'record-1'].map((record) => get('callerOf', record)),
  findCall: () => ['record-2', 'nobody', 'record-2', 'record-1'].map((record) => get('findCall', record)),
  insertRun: () =>
    ['run-1', 'run-2', 'run-2'].map((key) => write('insertRun', key, 'default', 'key:a', 1_000)),
  takeSequence: () => [
    get('takeSequence', 1, FAR + 1, 'run-1'),
    get('takeSequence', 1, 1_000, 'nobody'),
    get('takeSequence', -1, 1_000, 'run-1'),
    get('takeSequence', 1, FAR + 2, 'run-1'),
  ],
  insertRunEvent: () => [
    write('insertRunEvent', 1, 0, FAR, '{}', null, null, null),
    write('insertRunEvent', 1, 1, FAR, '{}', FAR, 1, 2),
  ],
}

/** The answers to the requests, and the content of the tables afterwards; then undoes everything. */
async function outcome(requests: readonly StatementRequest[], inOneGo: boolean) {
  await connection.one({ text: 'BEGIN' })
  try {
    if (inOneGo) await answerAll(connection, requests, 'change')
    else for (const request of requests) await answerAll(connection, [request], 'change')
    const tables = await connection.send([
      { text: 'SELECT * FROM calls ORDER BY record' },
      { text: 'SELECT * FROM runs ORDER BY key' },
      { text: 'SELECT * FROM run_events ORDER BY run, sequence' },
    ])
    return {
      answers: requests.map(({ answer }) => answer),
      tables: tables.map(({ rows }) => rows.map(withoutNo)),
    }
  } finally {
    await connection.one({ text: 'ROLLBACK' })
  }
}

/** Removes the number, because undone inserts use up numbers too. */
function withoutNo({ no: _, ...row }: Readonly<Record<string, unknown>>) {
  return row
}

describe('a batch statement', () => {
  it('is tested here for every query that has one', () => {
    expect(Object.keys(ASKS).toSorted()).toEqual(Object.keys(BATCHES).toSorted())
  })

  it.each(Object.keys(ASKS))('%s has the same answers and effects as single statements', async (query) => {
    const requests = ASKS[query] ?? (() => [])
    const alone = await outcome(requests(), false)
    const together = await outcome(requests(), true)
    expect(together.tables).toEqual(alone.tables)
    expect(together.answers).toMatchObject(alone.answers)
  })
})
