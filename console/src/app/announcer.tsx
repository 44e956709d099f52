import type { ReactNode } from 'react'
import { createStore, useStore } from '../store.ts'

/*
 * Announces texts to screen readers. Used by several pages. Changes are announced as counts, not row by row.
 */

/** Announces a text: "12 new calls", "5 minutes left". */
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
