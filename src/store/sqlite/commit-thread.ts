import { Worker } from 'node:worker_threads'
import { StoreError } from '#core/store-error'
import type { CommitThreadData, FromThread, SentChange, ToThread } from './commit-messages.ts'
import type { ChangeName, Commits, StoreChanges } from './store-changes.ts'

const WORKER_FILE = import.meta.url.endsWith('.ts') ? './commit-worker.ts' : './commit-worker.js'

interface Waiting {
  // biome-ignore lint/suspicious/noExplicitAny: the thread answers with the result its own change table types
  resolve(result: any): void
  reject(error: unknown): void
}

/**
 * Commits in a thread of its own: an fsync and the pages it writes then cost the thread that serves requests
 * nothing. Changes cross over once per turn of the event loop.
 */
export class CommitThread implements Commits {
  readonly #worker: Worker
  readonly #onCommit: (changes: number, durationMs: number) => void
  readonly #waiting = new Map<number, Waiting>()
  readonly #closed = Promise.withResolvers<void>()
  #outbox: SentChange[] = []
  #lastId = 0
  #isOver = false

  constructor(data: CommitThreadData, onCommit: (changes: number, durationMs: number) => void) {
    this.#onCommit = onCommit
    this.#worker = new Worker(new URL(WORKER_FILE, import.meta.url), { workerData: data })
    this.#worker.on('message', (message: FromThread) => this.#receive(message))
    this.#worker.on('error', (cause) =>
      this.#fail(new StoreError('unknown', 'the commit thread failed', { cause })),
    )
    this.#worker.on('exit', () => this.#fail(new StoreError('unknown', 'the commit thread has ended')))
  }

  submit<N extends ChangeName>(
    name: N,
    change: StoreChanges[N]['change'],
  ): Promise<StoreChanges[N]['result']> {
    return new Promise((resolve, reject) => {
      if (this.#isOver) {
        reject(new StoreError('not_written', 'the store is closed'))
        return
      }
      this.#lastId += 1
      this.#waiting.set(this.#lastId, { resolve, reject })
      this.#outbox.push({ id: this.#lastId, name, change })
      if (this.#outbox.length === 1) setImmediate(() => this.#send())
    })
  }

  async close(): Promise<void> {
    this.#send()
    this.#tell({ kind: 'close' })
    await this.#closed.promise
  }

  #send(): void {
    if (this.#outbox.length === 0) return
    this.#tell({ kind: 'changes', changes: this.#outbox })
    this.#outbox = []
  }

  #tell(message: ToThread): void {
    this.#worker.postMessage(message)
  }

  #receive(message: FromThread): void {
    if (message.kind === 'committed') this.#onCommit(message.changes, message.durationMs)
    else if (message.kind === 'closed') this.#finish(message.problem)
    else if (message.kind === 'answers') for (const answer of message.answers) this.#settle(answer)
  }

  #settle(answer: Extract<FromThread, { readonly kind: 'answers' }>['answers'][number]): void {
    const waiting = this.#waiting.get(answer.id)
    this.#waiting.delete(answer.id)
    if (answer.problem === undefined) waiting?.resolve(answer.result)
    else waiting?.reject(new StoreError(answer.problem.code, answer.problem.message))
  }

  #finish(problem: Extract<FromThread, { readonly kind: 'closed' }>['problem']): void {
    this.#isOver = true
    if (problem === undefined) this.#closed.resolve()
    else this.#closed.reject(new StoreError(problem.code, problem.message))
  }

  /** Whatever was on its way may or may not be written: only a re-read tells (rule 11). */
  #fail(error: StoreError): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const waiting of this.#waiting.values()) waiting.reject(error)
    this.#waiting.clear()
    this.#closed.resolve()
  }
}
