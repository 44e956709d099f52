import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { runThrough, sampleCall, sampleSession, scopeAt } from '../contracts/samples.ts'

/** Writes to a run from a separate process, leaves a session and a call open in it, and waits to be killed. */
const [path = '', masterKey = '', name = '', count = '0'] = process.argv.slice(2)
const store = openSqliteStore({ path, masterKey: Buffer.from(masterKey, 'base64') })
const scope = scopeAt('run-a')
for (let index = 0; index < Number(count); index += 1) {
  await runThrough(store, sampleCall({ record: `${name}-${index}`, scope }))
}
await store.openSession(sampleSession(`ses_${name}`))
await store.claim(
  sampleCall({
    record: name,
    scope,
    session: { sessionId: `ses_${name}`, isOwn: false },
    rerunUntilMs: 9e12,
  }),
)
process.stdout.write('ready\n')
// Held on purpose: an unreachable store is garbage collected, and its lock with it.
setInterval(() => store.writer, 60_000)
