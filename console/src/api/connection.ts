import { createStore, type Store } from '../store.ts'

/*
 * Watches whether the server answers, and retries after a failure. Used by several modules. Requests report their result here;
 * pages only read the state.
 */

/** Whether the server answered the last request. `since`: the first failure; `nextTryAt`: the next attempt. */
type Connection =
  | { readonly isLost: false }
  | { readonly isLost: true; readonly since: Date; readonly nextTryAt: Date }

const CONNECTED: Connection = { isLost: false }
const FIRST_WAIT_MS = 1000
const MAX_WAIT_MS = 15_000

interface ConnectionWatch extends Pick<Store<Connection>, 'get' | 'subscribe'> {
  /** Each request reports here: `found` if the server answered, `lost` if it did not. */
  found(): void
  lost(): void
  /** Tries again at once. */
  tryNow(): void
}

/**
 * Requests report whether the server answers, because the browser's `online` does not cover a server on the same machine. After
 * a failure, requests are sent at growing intervals until the server answers.
 */
export const connection: ConnectionWatch = watchConnection()

function watchConnection(): ConnectionWatch {
  const store = createStore<Connection>(CONNECTED)
  let timer: ReturnType<typeof setTimeout> | undefined
  let waitMs = FIRST_WAIT_MS

  const retry = async (): Promise<void> => {
    clearTimeout(timer)
    try {
      await fetch(new URL('session', document.baseURI), { cache: 'no-store' })
      found()
    } catch {
      waitMs = Math.min(waitMs * 2, MAX_WAIT_MS)
      schedule()
    }
  }
  const schedule = (): void => {
    clearTimeout(timer)
    const before = store.get()
    const since = before.isLost ? before.since : new Date()
    store.set({ isLost: true, since, nextTryAt: new Date(Date.now() + waitMs) })
    timer = setTimeout(retry, waitMs)
  }
  const found = (): void => {
    clearTimeout(timer)
    waitMs = FIRST_WAIT_MS
    store.set(CONNECTED)
  }
  return {
    get: store.get,
    subscribe: store.subscribe,
    found,
    lost: () => {
      if (!store.get().isLost) schedule()
    },
    tryNow: () => void retry(),
  }
}
