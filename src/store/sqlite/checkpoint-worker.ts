import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

const { path }: { readonly path: string } = workerData
const connection = new DatabaseSync(path, { timeout: 0 })

parentPort?.on('message', () => {
  connection.exec('PRAGMA wal_checkpoint(PASSIVE)')
  parentPort?.postMessage('done')
})
