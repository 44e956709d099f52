const KEPT_AS = 'collet-start'

/**
 * How far the first steps are in this browser. `begun`: they stay although there are calls now, which the first step itself makes.
 * `left`: for good.
 */
type StartState = 'new' | 'begun' | 'left'

export function startState(): StartState {
  try {
    const kept = localStorage.getItem(KEPT_AS)
    return kept === 'begun' || kept === 'left' ? kept : 'new'
  } catch {
    return 'new'
  }
}

export function rememberStart(state: Exclude<StartState, 'new'>): void {
  try {
    localStorage.setItem(KEPT_AS, state)
  } catch {
    // Without a place to remember it they are shown until there are calls.
  }
}
