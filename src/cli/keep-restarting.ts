import type { ServerProcess } from './cli-io.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'

/** A process that does not end on request is ended by force after this time. */
const PATIENCE_MS = 15_000

export interface Restarting {
  start(): ServerProcess
  /** Tells of each (debounced) change; gives the way to stop watching. */
  watch(onChange: (file: string) => void): () => void
  onStop(listener: () => void): () => void
  note(line: string): void
}

type Wish = { readonly kind: 'stop' } | { readonly kind: 'change'; readonly file: string }
type Event = Wish | { readonly kind: 'ended'; readonly code: number }

/**
 * Runs the server in a child process and starts a new one at each change. A child that ends by itself (a broken
 * config, a busy port) has said why; the next change gets another try.
 */
export async function keepRestarting({ start, watch, onStop, note }: Restarting): Promise<ExitCode> {
  const wishes = new Wishes()
  const endWatch = watch((file) => wishes.add({ kind: 'change', file }))
  let child = start()
  const endListening = onStop(() => (wishes.stopping ? child.kill() : wishes.add({ kind: 'stop' })))
  try {
    for (;;) {
      const ended = child.ended.then((code): Event => ({ kind: 'ended', code }))
      let event: Event = await Promise.race([wishes.next(), ended])
      if (event.kind === 'ended') {
        note(`The server ended with exit code ${event.code}. Waiting for a change to start it again.`)
        event = await wishes.next()
      } else {
        await endProcess(child)
      }
      if (event.kind === 'stop') return EXIT.ok
      wishes.forgetChanges()
      if (event.kind === 'change') note(`${event.file} changed: restarting.`)
      child = start()
    }
  } finally {
    endWatch()
    endListening()
  }
}

async function endProcess(child: ServerProcess): Promise<void> {
  child.stop()
  const timer = setTimeout(() => child.kill(), PATIENCE_MS)
  await child.ended
  clearTimeout(timer)
}

/** What was asked for and not done yet; a stop comes before any change. */
class Wishes {
  #waiting: Wish[] = []
  #wake: (() => void) | undefined
  stopping = false

  add(wish: Wish): void {
    if (wish.kind === 'stop') {
      this.stopping = true
      this.#waiting.unshift(wish)
    } else {
      this.#waiting.push(wish)
    }
    this.#wake?.()
  }

  /** Looks without taking: only `forgetChanges` removes. */
  async next(): Promise<Wish> {
    for (;;) {
      const [first] = this.#waiting
      if (first !== undefined) return first
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** A start sees every change made before it. */
  forgetChanges(): void {
    this.#waiting = this.#waiting.filter(({ kind }) => kind === 'stop')
  }
}
