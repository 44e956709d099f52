import { randomBytes } from 'node:crypto'
import { Socket } from 'node:net'
import { Client } from 'pg'
import { KeyRing } from '#kernel/store/key-ring'
import type { Store } from '#store/collet-store'
import { openPostgresStore, prepareDatabase } from '#store/postgres/open'
import { sampleCall, success } from '../test/contracts/samples.ts'
import { createDatabase } from './database.ts'
import type { Timing } from './measure-round.ts'
import { type Figure, median } from './statistics.ts'

/** Number of calls that are committed together. */
const GROUP = 32
const GROUPS_A_SLICE = 150
const NOT_COPIED = new Set(['no'])

type PostgresFigures = Readonly<Record<'ceiling', Figure>>

/**
 * Compares the store alone on PostgreSQL with the ceiling: a bare loop over `pg` that writes the same rows in the same groups, with one
 * statement for the calls and one for the group, pipelined. They take turns, because the speed of the disk varies.
 */
export async function measurePostgres({ slices }: Timing): Promise<PostgresFigures> {
  const [url, bareUrl] = [await createDatabase(), await createDatabase()]
  const masterKey = randomBytes(32)
  const store = await openPostgresStore({ url, masterKey })
  await prepareDatabase(bareUrl, new KeyRing({ current: masterKey }))
  await commitGroup(store, 'sample')
  const bare = await BareLoop.open(bareUrl, url)
  try {
    const ratios: number[] = []
    const groupMs: number[] = []
    for (let slice = -1; slice < slices * 2; slice += 1) {
      const ours = await timeGroups((nth) => commitGroup(store, `${slice}-${nth}`))
      const ceiling = await timeGroups((nth) => bare.commitGroup(`${slice}-${nth}`))
      // The first slice plans statements and warms both up.
      if (slice < 0) continue
      groupMs.push(ours)
      ratios.push(ceiling / ours)
    }
    const p50Ms = median(groupMs)
    const requestsPerSecond = (GROUP * 1_000) / p50Ms
    return { ceiling: { value: median(ratios), p50Ms, requestsPerSecond } }
  } finally {
    await bare.close()
    await store.close()
  }
}

/** The median time of a group, in milliseconds. */
async function timeGroups(commit: (nth: number) => Promise<void>): Promise<number> {
  const times: number[] = []
  for (let nth = 0; nth < GROUPS_A_SLICE; nth += 1) {
    const startedMs = performance.now()
    await commit(nth)
    times.push(performance.now() - startedMs)
  }
  return median(times)
}

async function commitGroup(store: Store, name: string): Promise<void> {
  const finished = { state: 'succeeded' as const, outcome: success('42'), atMs: 2_000 }
  await Promise.all(
    Array.from({ length: GROUP }, (_, index) =>
      store.insertFinished(sampleCall({ record: `${name}-${index}`, tier: 'read' }), finished),
    ),
  )
}

type Values = Readonly<Record<string, unknown>>

/** Writes the rows that the store wrote, each time under new keys. */
class BareLoop {
  readonly #client: Client
  readonly #socket: Socket
  readonly #calls: readonly Values[]
  readonly #group: Values
  readonly #texts: { readonly calls: string; readonly group: string }
  #written = 0

  private constructor(
    { client, socket }: { readonly client: Client; readonly socket: Socket },
    rows: { readonly calls: readonly Values[]; readonly group: Values },
    texts: { readonly calls: string; readonly group: string },
  ) {
    this.#client = client
    this.#socket = socket
    this.#calls = rows.calls
    this.#group = rows.group
    this.#texts = texts
  }

  /** Copies its rows from a database into which the store has written a group. */
  static async open(url: string, from: string): Promise<BareLoop> {
    const source = new Client({ connectionString: from })
    await source.connect()
    const calls = (await source.query<Values>('SELECT * FROM calls ORDER BY no')).rows.map(copied)
    const { rows: groups } = await source.query<Values>('SELECT * FROM commit_groups ORDER BY n DESC LIMIT 1')
    const types = new Map<string, string>()
    const { rows: columns } = await source.query<{ name: string; type: string }>(
      "SELECT column_name AS name, data_type AS type FROM information_schema.columns WHERE table_name = 'calls'",
    )
    for (const { name, type } of columns) types.set(name, type)
    await source.end()
    const [call, group] = [calls[0], groups[0]]
    if (call === undefined || group === undefined) throw new Error('the store wrote nothing')
    const socket = new Socket()
    const client = new Client({ connectionString: url, pipeline: true, stream: () => socket })
    await client.connect()
    const names = Object.keys(call)
    const arrays = names.map((name, index) => `$${index + 1}::${types.get(name)}[]`)
    return new BareLoop(
      { client, socket },
      { calls, group },
      {
        calls: `INSERT INTO calls (${names.join(', ')}) SELECT * FROM unnest(${arrays.join(', ')}) ON CONFLICT (record) DO NOTHING`,
        group: `INSERT INTO commit_groups (${Object.keys(group).join(', ')})
          VALUES (${Object.keys(group).map((_, index) => `$${index + 1}`)})`,
      },
    )
  }

  async commitGroup(name: string): Promise<void> {
    this.#written += 1
    const id = Number(this.#group.id) + this.#written
    const calls = this.#calls.map((call, index) => ({ ...call, record: `${name}-${index}`, claim_group: id }))
    const group = { ...this.#group, id, n: this.#written }
    const columns = Object.keys(calls[0] ?? {}).map((column) => calls.map((call: Values) => call[column]))
    this.#socket.cork()
    const begun = [
      this.#client.query('BEGIN'),
      this.#client.query({ name: 'calls', text: this.#texts.calls, values: columns }),
    ]
    this.#socket.uncork()
    await Promise.all(begun)
    // The events depend on the result of writing the calls, so the group follows in a second write.
    this.#socket.cork()
    const ended = [
      this.#client.query({ name: 'group', text: this.#texts.group, values: Object.values(group) }),
      this.#client.query('COMMIT'),
    ]
    this.#socket.uncork()
    await Promise.all(ended)
  }

  async close(): Promise<void> {
    await this.#client.end()
  }
}

function copied(row: Values): Values {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !NOT_COPIED.has(name)))
}
