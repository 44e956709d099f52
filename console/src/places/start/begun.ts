const STORAGE_KEY = 'collet-start'

/**
 * The state of the start page in this browser. `begun`: the page stays although there are calls, because its first step makes
 * calls. `left`: it was dismissed permanently.
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
    // Without storage, the start page is shown until there are calls.
  }
}
