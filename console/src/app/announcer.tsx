import type { ReactNode } from 'react'
import { createStore, useStore } from '../store.ts'

/** Says something to those who listen: "12 new calls", "5 minutes left". Counts, not rows; never more often than it matters. */
export function announce(text: string): void {
  spoken.set(text)
}

const spoken = createStore('')

export function Announcer(): ReactNode {
  return (
    <p className="vh" role="status" aria-live="polite">
      {useStore(spoken)}
    </p>
  )
}
