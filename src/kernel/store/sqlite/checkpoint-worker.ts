import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

/**
 * Worker thread that moves the write-ahead log into the database, so that the thread that commits never waits for it.
 * `Checkpointer` in `files.ts` posts the mode and receives a message when the checkpoint is done.
 */

/** Long enough to find a gap between other writers' commits. */
const WAIT_MS = 100

const { path }: { readonly path: string } = workerData
const connection = new DatabaseSync(path, { timeout: WAIT_MS })

parentPort?.on('message', (mode: 'PASSIVE' | 'TRUNCATE') => {
  try {
    connection.exec(`PRAGMA wal_checkpoint(${mode})`)
  } finally {
    parentPort?.postMessage('done')
  }
})
