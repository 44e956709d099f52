import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { Database } from './database.ts'

/** How often the log's size is looked at. */
const COMMITS_PER_LOOK = 64
const CHECKPOINT_BYTES = 16 * 1024 * 1024
/** With several writers somebody always reads the log's end: from here on it is cut by force. */
const TRUNCATE_BYTES = 64 * 1024 * 1024
const WORKER_FILE = import.meta.url.endsWith('.ts') ? './checkpoint-worker.ts' : './checkpoint-worker.js'

/**
 * Moves the write-ahead log into the database from another thread, because a checkpoint on the committing thread
 * is what ruins p99. The rest that arrived meanwhile is small; this thread moves it, so that the log starts over.
 */
export class Checkpointer {
  readonly #database: Database
  readonly #log: LogSize
  #worker: Worker | undefined
  #commits = 0
  #isWorking = false

  constructor(database: Database) {
    this.#database = database
    this.#log = new LogSize(database.path)
  }

  noteCommit(): void {
    this.#commits += 1
    if (this.#commits < COMMITS_PER_LOOK || this.#isWorking) return
    this.#commits = 0
    const bytes = this.#log.bytes()
    if (bytes < CHECKPOINT_BYTES) return
    this.#isWorking = true
    this.#start().postMessage(bytes < TRUNCATE_BYTES ? 'PASSIVE' : 'TRUNCATE')
  }

  async close(): Promise<void> {
    const worker = this.#worker
    this.#worker = undefined
    this.#log.close()
    await worker?.terminate()
  }

  #start(): Worker {
    if (this.#worker !== undefined) return this.#worker
    const worker = new Worker(new URL(WORKER_FILE, import.meta.url), {
      workerData: { path: this.#database.path },
    })
    worker.unref()
    worker.on('message', () => this.#finish(worker))
    worker.on('error', () => this.#fallBack(worker))
    this.#worker = worker
    return worker
  }

  /** A checkpoint that fails is tried again later; the log keeps everything until then. */
  #finish(worker: Worker): void {
    this.#isWorking = false
    if (this.#worker !== worker) return
    try {
      this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } catch {
      // A full disk: the log keeps everything, commits say so themselves, and the next round tries again (rule 11).
    }
  }

  /** Without the worker SQLite moves the log by itself, slower for the unlucky commit but never forgotten. */
  #fallBack(worker: Worker): void {
    if (this.#worker === worker) this.#database.exec('PRAGMA wal_autocheckpoint = 1000')
  }
}

/** Where the index of the log keeps the number of its last valid frame: fixed by SQLite's file format. */
const LAST_FRAME_OFFSET = 16
const FRAME_BYTES = 4096 + 24

/**
 * How much of the write-ahead log is in use. Its file never shrinks when the log starts over, so its size says
 * nothing after the first time; the index beside it does.
 */
export class LogSize {
  readonly #path: string
  readonly #word = new Uint32Array(1)
  #index: number | undefined

  constructor(databasePath: string) {
    this.#path = databasePath
  }

  bytes(): number {
    try {
      this.#index ??= openSync(`${this.#path}-shm`, 'r')
      const read = readSync(this.#index, this.#word, 0, this.#word.byteLength, LAST_FRAME_OFFSET)
      if (read === this.#word.byteLength) return (this.#word[0] ?? 0) * FRAME_BYTES
    } catch {
      // Where there is no index, the file's size is the next best answer.
    }
    return statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0
  }

  close(): void {
    if (this.#index !== undefined) closeSync(this.#index)
    this.#index = undefined
  }
}
