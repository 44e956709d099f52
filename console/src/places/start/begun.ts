const STORAGE_KEY = 'collet-start'

/**
 * State of the start page in this browser. `begun`: it stays although there are calls, which its first step makes. `left`:
 * dismissed for good.
 */
type StartState = 'new' | 'begun' | 'left'

export function startState(): StartState {
  try {
    const kept = localStorage.getItem(STORAGE_KEY)
    return kept === 'begun' || kept === 'left' ? kept : 'new'
  } catch {
    return 'new'
  }
}

export function rememberStart(state: Exclude<StartState, 'new'>): void {
  try {
    localStorage.setItem(STORAGE_KEY, state)
  } catch {
    // Without storage it is shown until there are calls.
  }
}
