import { didYouMean } from '#kernel/base/nearest-name'
import type { Approval } from '#kernel/tool/tool'
import { matchesGlob, patternsLike } from '#kernel/tool/toolsets'

/** Something an operator wrote about a tool of a source, by a name that may be wrong. */
export interface SourceOverride {
  /** Where it stands: `tools.write_file`, `include`, `approvals.perTool`. */
  readonly where: string
  /** A native name, in which `*` may stand for any characters where the place takes patterns; or any name of a tool. */
  readonly name: string
  readonly of: 'native names' | 'patterns' | 'tools'
  /** Without it a tool would be open to more than the operator wants: approval, scopes, tenants. */
  readonly guards: boolean
  /** What kind of guard it is, for people: `approval rule`. */
  readonly rule?: string
  /** It has a predicate, which only a `conditional` tool asks. */
  readonly isPredicate?: boolean
  /** Other sources that may have the tool: those that keep the ids of their upstream, too. */
  readonly sharedWith?: readonly string[]
}

export interface IdleOverride {
  readonly text: string
  readonly name: string
  /** A name with `*`, where patterns are taken. */
  readonly isPattern: boolean
  /** ` Did you mean "write_file"?`, or nothing. */
  readonly meant: string
  readonly guards: boolean
  /** Another source may have the tool, and nothing is known of that source yet. */
  readonly isUndecided?: boolean
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
  /** All names of the tools of another source; `undefined` while nothing is known of them. */
  namesOf?(source: string): ReadonlySet<string> | undefined
}

/** Overrides that do nothing, each with what was probably meant. Nothing is said of a source nothing is known of. */
export function idleOverrides(
  overrides: readonly SourceOverride[],
  known: KnownNames,
): readonly IdleOverride[] {
  if (known.native.size === 0 && !known.isRead) return []
  return overrides.flatMap((override) => {
    const { where, name, guards, rule } = override
    if (override.of === 'tools') return idleTerms(override, known)
    const isExact = override.of === 'native names'
    const matches = isExact ? known.native.has(name) : hasMatch(name, known.native)
    if (matches) return []
    if (!known.isRead && isLeftOut(override, overrides)) return []
    const isPattern = !isExact && name.includes('*')
    const meant = didYouMean(name, isPattern ? patternsLike(name, known.native) : known.native)
    const text =
      rule === undefined
        ? `\`${where}\` names "${name}", which matches no tool of this source.${meant}`
        : `The ${rule} for "${name}" matches no tool of this source.${meant}`
    return [{ guards, name, isPattern, meant, text }]
  })
}

/** Filters leave their tools out of what is pinned, so before the upstream is read their targets are not known. */
function isLeftOut({ where, name }: SourceOverride, overrides: readonly SourceOverride[]): boolean {
  if (where === 'exclude') return true
  return overrides.some((other) => other.where === 'exclude' && matchesGlob(name, other.name))
}

function idleTerms(
  { where, name, guards, isPredicate, sharedWith = [] }: SourceOverride,
  { tools, namesOf }: KnownNames,
): readonly IdleOverride[] {
  const meant = tools.filter(({ names }) => names.includes(name))
  if (meant.length === 0) {
    if (sharedWith.some((source) => namesOf?.(source)?.has(name))) return []
    const unknown = sharedWith.find((source) => namesOf?.(source) === undefined)
    if (unknown !== undefined) {
      const text = `The approval rule for "${name}" in \`${where}\` matches no tool of this source, and the tools of "${unknown}" are not known yet.`
      return [{ guards, name, isPattern: false, meant: '', text, isUndecided: true }]
    }
    const meantBy = didYouMean(
      name,
      tools.flatMap(({ names }) => names),
    )
    const text = `The approval rule for "${name}" in \`${where}\` matches no served tool.${meantBy}`
    return [{ guards, name, isPattern: false, meant: meantBy, text }]
  }
  if (isPredicate !== true) return []
  return meant
    .filter(({ approval = 'conditional' }) => approval !== 'conditional')
    .map(({ id, approval }) => ({
      ...{ guards, name, isPattern: false, meant: '' },
      text: `\`${where}\` has \`when\` for ${id}, whose approval is '${approval}': it is never asked. Set the tool's approval to 'conditional'.`,
    }))
}

function hasMatch(pattern: string, names: ReadonlySet<string>): boolean {
  if (!pattern.includes('*')) return names.has(pattern)
  for (const name of names) if (matchesGlob(name, pattern)) return true
  return false
}
