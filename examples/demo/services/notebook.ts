import { Worker } from 'node:worker_threads'
import type { NotebookAnswer, NotebookQuestion } from './notebook-thread.ts'

/** A database in a thread of its own: a statement that never ends costs its session, not the server. */
export class Notebook {
  readonly #thread = new Worker(new URL('./notebook-thread.ts', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: 64 },
  })
  readonly #waiting = new Map<number, (answer: NotebookAnswer) => void>()
  #asked = 0
  #stopped = false

  constructor() {
    this.#thread.unref()
    this.#thread.on('message', ({ id, answer }: { id: number; answer: NotebookAnswer }) => {
      this.#waiting.get(id)?.(answer)
      this.#waiting.delete(id)
    })
    this.#thread.on('error', () => this.#stop())
    this.#thread.on('exit', () => this.#stop())
  }

  ask(question: NotebookQuestion, signal: AbortSignal): Promise<NotebookAnswer> {
    if (this.#stopped) return Promise.resolve(STOPPED)
    // The only way to end a running statement is to end its thread.
    signal.addEventListener('abort', () => this.close(), { once: true })
    return new Promise((resolve) => {
      this.#asked += 1
      this.#waiting.set(this.#asked, resolve)
      this.#thread.postMessage({ id: this.#asked, question })
    })
  }

  async close(): Promise<void> {
    this.#stop()
    await this.#thread.terminate()
  }

  #stop(): void {
    this.#stopped = true
    for (const resolve of this.#waiting.values()) resolve(STOPPED)
    this.#waiting.clear()
  }
}

const STOPPED: NotebookAnswer = {
  ok: false,
  problem: 'The notebook was stopped and its tables are gone. Open another session.',
}
