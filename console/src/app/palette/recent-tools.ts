import { nameOf, type Principal } from '../../api/session.ts'
import { readStored, store } from '../../api/user-storage.ts'

/*
 * Remembers the tools that a person opened last in this browser. Used by `palette.tsx` and `places/tool/page.tsx`. Another person
 * does not see them.
 */

const MAX = 6

/** The person who uses the page; `null` if not signed in. */
type Viewer = Pick<Principal, 'tenant' | 'id'> | null

export function rememberTool(viewer: Viewer, id: string): void {
  const next = [id, ...recentTools(viewer).filter((other) => other !== id)].slice(0, MAX)
  store('browser', storageKeyOf(viewer), JSON.stringify(next))
}

/** Ids of the tools that this person opened last in this browser, newest first. */
export function recentTools(viewer: Viewer): readonly string[] {
  try {
    const found: unknown = JSON.parse(readStored('browser', storageKeyOf(viewer)) ?? '[]')
    return Array.isArray(found) ? found.filter((id) => typeof id === 'string').slice(0, MAX) : []
  } catch {
    return []
  }
}

function storageKeyOf(viewer: Viewer): string {
  return `recent-tools ${viewer === null ? '' : nameOf(viewer)}`
}
