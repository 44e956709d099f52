import { createInterface } from 'node:readline'
import { openPostgresStore } from '#store/postgres/open'
import { attemptAt, sampleCall, success } from '../contracts/samples.ts'

/** Claims calls from its own process, and ends them on request; until then it runs or is killed. */
const [url = '', masterKey = '', leaseMs = '', ...records] = process.argv.slice(2)
const key = Buffer.from(masterKey, 'base64')
const store = await openPostgresStore({ url, masterKey: key, leaseMs: Number(leaseMs) })
const calls = records.map((record) => sampleCall({ record }))
const { writer } = store
await Promise.all(calls.map((call) => store.claim(call)))
process.stdout.write(`claimed ${store.mayStart(writer)}\n`)

for await (const _ of createInterface({ input: process.stdin })) {
  const mayStart = store.mayStart(writer)
  const ended = await Promise.all(
    calls.map((call) =>
      store.finish({ run: attemptAt(call, 1), state: 'succeeded', outcome: success('1'), atMs: 2_000 }),
    ),
  )
  const states = ended.map((end) => (end.kind === 'found' ? end.record.state : end.kind))
  process.stdout.write(`${JSON.stringify({ mayStart, states })}\n`)
}
await store.close()
