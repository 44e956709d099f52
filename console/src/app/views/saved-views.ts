import { nameOf, type Principal } from '../../api/session.ts'
import { readStored, store } from '../../api/user-storage.ts'
import type { SearchState } from '../search-state.ts'

/**
 * Named filters of a page, which this browser keeps for a person. `views-menu.tsx` uses it. A view is the address of the page, so it is
 * shared as a link; the server keeps nothing. Invariant: another person does not see them, and a sign-out removes them.
 */

export interface SavedView {
  readonly name: string
  readonly search: SearchState
}

/** The person who uses the page; `null` if not signed in. */
type Viewer = Pick<Principal, 'tenant' | 'id'> | null

const MAX_VIEWS = 30
/** Members of the address that are no part of a view: what is open, not what is listed. */
const NOT_KEPT: ReadonlySet<string> = new Set(['call', 'tab', 'live', 'create', 'focus'])

/** What a view keeps of the page's address. */
function viewOf(search: SearchState): SearchState {
  return Object.fromEntries(Object.entries(search).filter(([name]) => !NOT_KEPT.has(name)))
}

export function isSameView(one: SearchState, other: SearchState): boolean {
  const text = (search: SearchState): string =>
    JSON.stringify(Object.entries(viewOf(search)).toSorted(([left], [right]) => (left < right ? -1 : 1)))
  return text(one) === text(other)
}

export function readViews(viewer: Viewer, page: string): readonly SavedView[] {
  try {
    const found: unknown = JSON.parse(readStored('browser', keyOf(viewer, page)) ?? '[]')
    return Array.isArray(found) ? found.filter(isView).slice(0, MAX_VIEWS) : []
  } catch {
    return []
  }
}

/** Adds a view, or replaces the one of the same name. */
export function saveView(viewer: Viewer, page: string, view: SavedView): readonly SavedView[] {
  const others = readViews(viewer, page).filter(({ name }) => name !== view.name)
  return write(viewer, page, [...others, { name: view.name, search: viewOf(view.search) }])
}

export function removeView(viewer: Viewer, page: string, name: string): readonly SavedView[] {
  return write(
    viewer,
    page,
    readViews(viewer, page).filter((view) => view.name !== name),
  )
}

function write(viewer: Viewer, page: string, views: readonly SavedView[]): readonly SavedView[] {
  const kept = views.slice(-MAX_VIEWS)
  store('browser', keyOf(viewer, page), JSON.stringify(kept))
  return kept
}

function keyOf(viewer: Viewer, page: string): string {
  return `views ${page} ${viewer === null ? '' : nameOf(viewer)}`
}

function isView(value: unknown): value is SavedView {
  return (
    typeof value === 'object' &&
    value !== null &&
    'name' in value &&
    typeof value.name === 'string' &&
    'search' in value &&
    typeof value.search === 'object' &&
    value.search !== null &&
    Object.values(value.search).every((text) => typeof text === 'string')
  )
}
