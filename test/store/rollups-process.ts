import { openStore } from '#store/stores'
import { sampleCall, success } from '../contracts/samples.ts'

/** A replica that ends calls and writes their counts after every few commits, until it is killed. */
const [url = '', masterKey = ''] = process.argv.slice(2)
const store = await openStore(url, {
  ...{ dataFolder: '.', masterKey: Buffer.from(masterKey, 'base64'), mode: 'server' },
})
store.rollups.collect()
process.stdout.write('ready\n')
for (let round = 0; ; round += 1) {
  const calls = Array.from({ length: 20 }, (_, nth) => {
    const record = `${process.pid} ${round} ${nth}`
    const call = sampleCall({ record, callId: record, tool: `Mail.Tool${nth % 3}@1.0.0`, atMs: Date.now() })
    return store.insertFinished(call, { state: 'succeeded', outcome: success('1'), atMs: Date.now() })
  })
  // The counts are written while calls of the next groups arrive.
  if (round % 3 === 0) void store.rollups.flush()
  await Promise.all(calls)
}
