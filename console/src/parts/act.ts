import { useRef, useState } from 'react'
import { messageOf } from './states.tsx'

/** Something that a person starts and the server does. */
export interface Act {
  readonly isBusy: boolean
  /** Why it was not done, in the server's words or in those of `refuse`. */
  readonly failure: string | undefined
  /** Says what is missing before the server is asked. */
  refuse(why: string): void
  /** The failure is not to be read any more. */
  forget(): void
  run(): void
}

/** One at a time; what went wrong stays to be read until the next try. */
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
