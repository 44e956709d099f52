import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { NotebookAnswer, NotebookQuestion } from './notebook-process.ts'

/**
 * A notebook: a database in its own process, so that an endless statement can be stopped by ending the process. That
 * ends only its own session. The tool in `tools/notebook.ts` opens one for each session.
 */

export class Notebook {
  readonly #process = fork(new URL('./notebook-process.ts', import.meta.url), {
    env: {},
    execArgv: ['--disable-warning=ExperimentalWarning', '--max-old-space-size=64'],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  readonly #exited = once(this.#process, 'exit')
  readonly #waiting = new Map<number, (answer: NotebookAnswer) => void>()
  #asked = 0
  #stopped = false

  constructor() {
    this.#exited.catch(() => undefined)
    this.#process.on('message', (message: { id: number; answer: NotebookAnswer }) => {
      this.#waiting.get(message.id)?.(message.answer)
      this.#waiting.delete(message.id)
    })
    this.#process.on('error', () => this.#stop())
    this.#process.on('exit', () => this.#stop())
  }

  async ask(question: NotebookQuestion, signal: AbortSignal): Promise<NotebookAnswer> {
    if (this.#stopped) return STOPPED
    const kill = (): void => this.#stop()
    signal.addEventListener('abort', kill, { once: true })
    try {
      return await new Promise((resolve) => {
        this.#asked += 1
        this.#waiting.set(this.#asked, resolve)
        this.#process.send({ id: this.#asked, question }, () => undefined)
      })
    } finally {
      signal.removeEventListener('abort', kill)
    }
  }

  /** Resolves when its process is gone. */
  async close(): Promise<void> {
    this.#stop()
    if (this.#process.pid !== undefined) await this.#exited
  }

  #stop(): void {
    this.#stopped = true
    this.#process.kill('SIGKILL')
    for (const resolve of this.#waiting.values()) resolve(STOPPED)
    this.#waiting.clear()
  }
}

const STOPPED: NotebookAnswer = {
  ok: false,
  problem: 'The notebook was stopped and its tables are gone. Open another session.',
}
