import { didYouMean } from '#core/nearest-name'
import type { Approval } from '#core/tool'

/** Something an operator wrote about a tool of a source, by a name that may be wrong. */
export interface SourceOverride {
  /** Where it stands: `tools.write_file`, `include`, `approvals.perTool`. */
  readonly where: string
  /** A native name, in which `*` may stand for any characters where the place takes patterns; or any name of a tool. */
  readonly name: string
  readonly of: 'native names' | 'patterns' | 'tools'
  /** Without it a tool would be open to more than the operator wants: approval, scopes, tenants. */
  readonly guards: boolean
  /** It has a predicate, which only a `conditional` tool asks. */
  readonly isPredicate?: boolean
}

export interface IdleOverride {
  readonly text: string
  readonly guards: boolean
}

/** What is known of the names of a source. */
interface KnownNames {
  /** Offered, left out by the operator's own filters, or pinned at some time. */
  readonly native: ReadonlySet<string>
  /** What its accepted definitions are as tools; the approval where it is known. */
  readonly tools: readonly {
    readonly id: string
    /** All its names, those of its version too. */
    readonly names: readonly string[]
    readonly approval?: Approval
  }[]
  /** Whether its upstream was read in this process: without that nobody knows what the filters left out. */
  readonly isRead: boolean
}

/** Overrides that do nothing, each with what was probably meant. Nothing is said of a source nothing is known of. */
export function idleOverrides(
  overrides: readonly SourceOverride[],
  known: KnownNames,
): readonly IdleOverride[] {
  if (known.native.size === 0 && !known.isRead) return []
  return overrides.flatMap((override) => {
    const { where, name, guards } = override
    if (override.of === 'tools') return idleTerms(override, known)
    const isExact = override.of === 'native names'
    const matches = isExact ? known.native.has(name) : hasMatch(name, known.native)
    if (matches) return []
    if (!known.isRead && isLeftOut(override, overrides)) return []
    const isGlob = !isExact && name.includes('*')
    const meant = didYouMean(name, isGlob ? patternsLike(name, known.native) : known.native)
    return [{ guards, text: `\`${where}\` names "${name}", and no tool of it is called so.${meant}` }]
  })
}

/** Filters leave their tools out of what is pinned, so before the upstream is read their targets are not known. */
function isLeftOut({ where, name }: SourceOverride, overrides: readonly SourceOverride[]): boolean {
  if (where === 'exclude') return true
  return overrides.some((other) => other.where === 'exclude' && matchesGlob(name, other.name))
}

function idleTerms(
  { where, name, guards, isPredicate }: SourceOverride,
  { tools }: KnownNames,
): readonly IdleOverride[] {
  const meant = tools.filter(({ names }) => names.includes(name))
  if (meant.length === 0) {
    const meantBy = didYouMean(
      name,
      tools.flatMap(({ names }) => names),
    )
    return [{ guards, text: `\`${where}\` names "${name}", which is not served.${meantBy}` }]
  }
  if (isPredicate !== true) return []
  return meant
    .filter(({ approval = 'conditional' }) => approval !== 'conditional')
    .map(({ id, approval }) => ({
      guards,
      text: `\`${where}\` has \`when\` for ${id}, whose approval is '${approval}': it is never asked. Set the tool's approval to 'conditional'.`,
    }))
}

/** Enough to find a slip, and little enough that a large source is not held up by one. */
const MOST_LIKE = 2_000

/** The pattern with its longest piece as names have it in that place: `read*`, `writ*` for `reed*`. */
function patternsLike(pattern: string, names: Iterable<string>): ReadonlySet<string> {
  const pieces = pattern.split('*')
  const length = Math.max(...pieces.map((piece) => piece.length))
  const longest = pieces.findIndex((piece) => piece.length === length)
  const like = new Set<string>()
  for (const name of names) {
    const last = name.length - length
    const from = longest === pieces.length - 1 ? last : 0
    const to = longest === 0 ? 0 : last
    for (let at = Math.max(0, from); at <= to && like.size < MOST_LIKE; at += 1) {
      const meant = pieces.with(longest, name.slice(at, at + length)).join('*')
      if (matchesGlob(name, meant)) like.add(meant)
    }
  }
  return like
}

function hasMatch(pattern: string, names: ReadonlySet<string>): boolean {
  if (!pattern.includes('*')) return names.has(pattern)
  for (const name of names) if (matchesGlob(name, pattern)) return true
  return false
}

/** `*` matches any run of characters; no regular expression, because patterns meet names of others. */
export function matchesGlob(name: string, pattern: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  if (rest.length === 0) return name === pattern
  if (!name.startsWith(first)) return false
  const last = rest.pop() ?? ''
  let from = first.length
  for (const part of rest) {
    const at = name.indexOf(part, from)
    if (at === -1) return false
    from = at + part.length
  }
  return name.length - last.length >= from && name.endsWith(last)
}
