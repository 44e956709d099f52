import { useRef, useState } from 'react'
import { messageOf } from './states.tsx'

/*
 * Runs a request that a person starts, and keeps its state and failure. Used by several pages. Only one runs at a time.
 */

/** A request that a person starts, and its state. */
export interface Action {
  readonly isBusy: boolean
  /** Why the request failed: the server's message, or the text given to `fail`. */
  readonly failure: string | undefined
  /** Reports a problem that was found before the request was sent. */
  fail(reason: string): void
  /** Clears the failure. */
  clearFailure(): void
  run(): void
}

/** Ignores `run` while a request is running. A failure is kept until the next run or `clearFailure`. */
export function useAction(
  work: () => Promise<unknown>,
  errorText: (error: unknown) => string = messageOf,
): Action {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<string>()
  const isRunning = useRef(false)
  const run = async (): Promise<void> => {
    if (isRunning.current) return
    isRunning.current = true
    setBusy(true)
    setFailure(undefined)
    try {
      await work()
    } catch (error) {
      setFailure(errorText(error))
    } finally {
      isRunning.current = false
      setBusy(false)
    }
  }
  return {
    isBusy,
    failure,
    fail: setFailure,
    clearFailure: () => setFailure(undefined),
    run: () => void run(),
  }
}
