import { isJsonObject } from '#core/json'
import { entriesOf, itemsOf, type Located, memberOf } from './located.ts'
import type { Lowering } from './schema-shelf.ts'

const DEEPEST = 10
const NOTHING: ReadonlySet<string> = new Set()

/** What `readOnly` and `writeOnly` take away: a request has no read-only members, an answer need not have write-only ones. */
const EFFECT = {
  input: { keyword: 'readOnly', drops: true },
  output: { keyword: 'writeOnly', drops: false },
} as const satisfies Record<Lowering['direction'], object>

/** Whether a member is not for this direction: `drop` asks if it goes, `relax` if it is no longer required. */
export function isHidden(member: Located, lowering: Lowering, question: 'drop' | 'relax'): boolean {
  const { keyword, drops } = EFFECT[lowering.direction]
  if (question === 'drop' && !drops) return false
  if (isJsonObject(member.value) && member.value[keyword] === true) return true
  const target = lowering.documents.resolve(member)
  return isJsonObject(target?.value) && target.value[keyword] === true
}

/** Names that are not required in this direction, also where `allOf` declares them. */
export function hiddenNames(schema: Located, lowering: Lowering): ReadonlySet<string> {
  if (!isJsonObject(schema.value) || !Array.isArray(schema.value.required)) return NOTHING
  const found = new Set<string>()
  collect(schema, lowering, { found, seen: new Set(), depth: 0 })
  return found
}

interface Collecting {
  readonly found: Set<string>
  /** A document may name one schema many times over, and that one another. */
  readonly seen: Set<unknown>
  readonly depth: number
}

function collect(schema: Located, lowering: Lowering, { found, seen, depth }: Collecting): void {
  const target = lowering.documents.resolve(schema)
  if (target === undefined || depth > DEEPEST || seen.has(target.value)) return
  seen.add(target.value)
  const { document } = target
  for (const [name, value] of entriesOf(memberOf(target, 'properties')?.value)) {
    if (isHidden({ value, document }, lowering, 'relax')) found.add(name)
  }
  for (const value of itemsOf(memberOf(target, 'allOf')?.value)) {
    collect({ value, document }, lowering, { found, seen, depth: depth + 1 })
  }
}
