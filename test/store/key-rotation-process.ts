import { openStore } from '#store/stores'

/** Rotates the key in a separate process, which dies at the given progress. */
const [url = '', masterKey = '', oldMasterKey = '', dieAt = '0'] = process.argv.slice(2)
const store = await openStore(url, {
  dataFolder: '.',
  masterKey: Buffer.from(masterKey, 'base64'),
  oldMasterKey: Buffer.from(oldMasterKey, 'base64'),
  mode: 'operator',
})
let reports = 0
// Long after the announcement, so that nothing waits for readers.
let nowMs = Date.now()
const end = await store.keyChange.rotate({
  ...{ by: 'cli:ann', maxWaitMs: 5_000 },
  nowMs: () => {
    nowMs += 10_000
    return nowMs
  },
  onProgress() {
    reports += 1
    if (reports === Number(dieAt)) process.kill(process.pid, 'SIGKILL')
  },
})
process.stdout.write(`${JSON.stringify(end)}\n`)
await store.close()
