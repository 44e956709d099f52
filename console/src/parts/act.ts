import { useRef, useState } from 'react'
import { messageOf } from './states.tsx'

/** A request that a person starts. */
export interface Act {
  readonly isBusy: boolean
  /** Why it failed, in the server's words or in those of `refuse`. */
  readonly failure: string | undefined
  /** Reports a problem that was found before asking the server. */
  refuse(why: string): void
  /** Clears the failure. */
  forget(): void
  run(): void
}

/** Runs one request at a time; a failure is shown until the next try. */
export function useAct(work: () => Promise<unknown>, wordsOf: (error: unknown) => string = messageOf): Act {
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
      setFailure(wordsOf(error))
    } finally {
      isRunning.current = false
      setBusy(false)
    }
  }
  return { isBusy, failure, refuse: setFailure, forget: () => setFailure(undefined), run: () => void run() }
}
