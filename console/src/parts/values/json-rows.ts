/*
 * A JSON value as rows of a folding tree. `json-tree.tsx` draws the rows in view. Only open members have rows, and long lists are
 * divided into ranges, so that a value of many megabytes opens at once.
 */

export interface JsonRow {
  /** The members that lead to the value, as JSON pointer. */
  readonly path: string
  readonly name: string
  readonly depth: number
  readonly value: unknown
  /** Number of members; `undefined` for a value without members. */
  readonly size: number | undefined
  readonly isOpen: boolean
}

/** Longer lists and objects show this many members, then a row that opens the next ones. */
const RANGE = 200

/** A part of a long list. */
export class MemberRange {
  readonly members: readonly (readonly [string, unknown])[]
  readonly from: number
  readonly to: number

  constructor(entries: readonly (readonly [string, unknown])[], from: number) {
    this.from = from
    this.to = Math.min(entries.length, from + RANGE)
    this.members = entries.slice(from, this.to)
  }
}

/** The rows of a value. `open` has the paths of open values. */
export function rowsOf(value: unknown, open: ReadonlySet<string>): readonly JsonRow[] {
  const rows: JsonRow[] = []
  addRow(rows, { path: '', name: '', depth: 0, value }, open)
  return rows
}

function addRow(
  rows: JsonRow[],
  row: Pick<JsonRow, 'path' | 'name' | 'depth' | 'value'>,
  open: ReadonlySet<string>,
): void {
  const size = sizeOf(row.value)
  const isOpen = size !== undefined && size > 0 && open.has(row.path)
  rows.push({ ...row, size, isOpen })
  if (!isOpen) return
  for (const [name, value] of membersOf(row.value)) {
    const path =
      value instanceof MemberRange ? `${row.path}/${value.from}…${value.to - 1}` : childPath(row.path, name)
    addRow(rows, { path, name, depth: row.depth + 1, value }, open)
  }
}

function membersOf(value: unknown): readonly (readonly [string, unknown])[] {
  if (value instanceof MemberRange) return value.members
  if (typeof value !== 'object' || value === null) return []
  const entries = Object.entries(value)
  if (entries.length <= RANGE) return entries
  return Array.from({ length: Math.ceil(entries.length / RANGE) }, (_, nth) => {
    const range = new MemberRange(entries, nth * RANGE)
    return [`${range.from} – ${range.to - 1}`, range] as const
  })
}

function sizeOf(value: unknown): number | undefined {
  if (value instanceof MemberRange) return value.members.length
  return typeof value === 'object' && value !== null ? Object.keys(value).length : undefined
}

function childPath(parent: string, name: string): string {
  // A range is no part of a pointer.
  const own = parent.replace(/\/\d+…\d+$/, '')
  return `${own}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
}

/** Number of values that one step of a search visits, which takes a few milliseconds. */
const VISITED_AT_ONCE = 5_000
const MAX_FOUND = 500

/** The paths of values and names that contain a text, in order. Yields after each step, so that the page stays usable. */
export function* searchJson(value: unknown, text: string): Generator<undefined, readonly string[]> {
  const wanted = text.toLowerCase()
  const found: string[] = []
  const pending: (readonly [path: string, name: string, value: unknown])[] = [['', '', value]]
  for (let visited = 1; pending.length > 0 && found.length < MAX_FOUND; visited += 1) {
    const [path, name, current] = pending.pop() ?? ['', '', undefined]
    const isText = typeof current !== 'object' || current === null
    if (name.toLowerCase().includes(wanted) || (isText && String(current).toLowerCase().includes(wanted)))
      found.push(path)
    if (!isText)
      for (const [member, inner] of Object.entries(current).reverse())
        pending.push([childPath(path, member), member, inner])
    if (visited % VISITED_AT_ONCE === 0) yield
  }
  return found
}

/** The paths to open so that a value has a row: its parents, and the ranges that contain them. */
export function parentsOf(value: unknown, path: string): readonly string[] {
  const names = path
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const parents: string[] = []
  let [at, current]: [string, unknown] = ['', value]
  for (const name of names) {
    parents.push(at)
    if (typeof current !== 'object' || current === null) break
    const keys = Object.keys(current)
    if (keys.length > RANGE) {
      const from = Math.floor(keys.indexOf(name) / RANGE) * RANGE
      parents.push(`${at}/${from}…${Math.min(keys.length, from + RANGE) - 1}`)
    }
    at = childPath(at, name)
    current = Object.entries(current).find(([key]) => key === name)?.[1]
  }
  return parents
}

/** Whether the JSON of a value is longer than a limit, without making the text. */
export function isLongJson(value: unknown, limit: number): boolean {
  let left = limit
  const pending: unknown[] = [value]
  while (pending.length > 0 && left >= 0) {
    const current = pending.pop()
    if (typeof current !== 'object' || current === null) {
      left -= typeof current === 'string' ? current.length + 2 : 6
      continue
    }
    const members = Object.entries(current)
    if (members.length > left) return true
    for (const [name, inner] of members) {
      left -= name.length + 4
      pending.push(inner)
    }
  }
  return left < 0
}
