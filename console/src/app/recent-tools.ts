import { createStore } from '../store.ts'

const KEPT_AS = 'collet-recent-tools'
const MOST = 6

/** Ids of the tools that were looked at last in this browser, the newest first. */
export const recentTools = createStore<readonly string[]>(read())

export function rememberTool(id: string): void {
  const next = [id, ...recentTools.get().filter((other) => other !== id)].slice(0, MOST)
  recentTools.set(next)
  try {
    localStorage.setItem(KEPT_AS, JSON.stringify(next))
  } catch {
    // They are known until the page is left.
  }
}

function read(): readonly string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEPT_AS) ?? '[]')
    return Array.isArray(kept) ? kept.filter((id) => typeof id === 'string').slice(0, MOST) : []
  } catch {
    return []
  }
}
