/*
 * The state of the start page in this browser: whether it was started or dismissed. Used by `page.tsx`.
 */

const STORAGE_KEY = 'collet-start'

/**
 * The state of the start page in this browser. `started`: the page stays although there are calls, because its first step makes
 * calls. `dismissed`: it was dismissed permanently.
 */
type StartState = 'new' | 'started' | 'dismissed'

export function startState(): StartState {
  try {
    const kept = localStorage.getItem(STORAGE_KEY)
    return kept === 'started' || kept === 'dismissed' ? kept : 'new'
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
