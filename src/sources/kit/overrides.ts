import { didYouMean } from '#kernel/base/nearest-name'
import type { Approval } from '#kernel/tool/tool'
import { matchesGlob, patternsLike } from '#kernel/tool/toolsets'

/**
 * Finds operator settings for tools of a source that have no effect, usually because of a misspelled name. `Sources` reports them,
 * and does not serve a source while a setting that should restrict one of its tools matches none.
 * Invariant: nothing is reported for a source whose tools are not known yet.
 */

/** An operator's setting for a tool of a source, by a name that may be wrong. */
export interface SourceOverride {
  /** Its path in the configuration: `tools.write_file`, `include`, `approvals.perTool`. */
  readonly where: string
  /** A native name, a pattern of native names with `*`, or any name of a tool, depending on `of`. */
  readonly name: string
  readonly of: 'native names' | 'patterns' | 'tools'
  /** True if it restricts a tool (approval, scopes, tenants), so that a wrong name would leave the tool unrestricted. */
  readonly guards: boolean
  /** The kind of restriction, for operators: `approval rule`. */
  readonly rule?: string
  /** True if it has a predicate, which only applies to a `conditional` tool. */
  readonly isPredicate?: boolean
  /** Other sources that may have the tool, because they also keep the ids of their upstream. */
  readonly sharedWith?: readonly string[]
}

export interface IneffectiveOverride {
  readonly text: string
  readonly name: string
  readonly isPattern: boolean
  /** ` Did you mean "write_file"?`, or empty. */
  readonly suggestion: string
  readonly guards: boolean
  /** True if another source, whose tools are not known yet, may have the tool. */
  readonly isUndecided?: boolean
}

interface KnownNames {
  /** Native names that are offered, excluded by the operator's filters, or were pinned before. */
  readonly native: ReadonlySet<string>
  readonly tools: readonly {
    readonly id: string
    readonly names: readonly string[]
    readonly approval?: Approval
  }[]
  /** True if this process has read the upstream; before that the excluded names are unknown. */
  readonly isRead: boolean
  /** All names of the tools of another source; `undefined` while they are unknown. */
  namesOf?(source: string): ReadonlySet<string> | undefined
}

/** Overrides that match no tool, or whose predicate is never evaluated. Empty for a source whose tools are unknown. */
export function ineffectiveOverrides(
  overrides: readonly SourceOverride[],
  known: KnownNames,
): readonly IneffectiveOverride[] {
  if (known.native.size === 0 && !known.isRead) return []
  return overrides.flatMap((override) => {
    const { where, name, guards, rule } = override
    if (override.of === 'tools') return ineffectiveToolNames(override, known)
    const isPattern = override.of === 'patterns' && name.includes('*')
    const hasMatch = isPattern
      ? [...known.native].some((native) => matchesGlob(native, name))
      : known.native.has(name)
    if (hasMatch || (!known.isRead && isLeftOut(override, overrides))) return []
    const suggestion = didYouMean(name, isPattern ? patternsLike(name, known.native) : known.native)
    const text =
      rule === undefined
        ? `\`${where}\` names "${name}", which matches no tool of this source.${suggestion}`
        : `The ${rule} for "${name}" matches no tool of this source.${suggestion}`
    return [{ guards, name, isPattern, suggestion, text }]
  })
}

/** Excluded tools are not pinned, so before the upstream is read their names are unknown. */
function isLeftOut({ where, name }: SourceOverride, overrides: readonly SourceOverride[]): boolean {
  if (where === 'exclude') return true
  return overrides.some((other) => other.where === 'exclude' && matchesGlob(name, other.name))
}

function ineffectiveToolNames(
  { where, name, guards, isPredicate, sharedWith = [] }: SourceOverride,
  { tools, namesOf }: KnownNames,
): readonly IneffectiveOverride[] {
  const matching = tools.filter(({ names }) => names.includes(name))
  const common = { guards, name, isPattern: false, suggestion: '' }
  if (matching.length === 0) {
    if (sharedWith.some((source) => namesOf?.(source)?.has(name))) return []
    const unknown = sharedWith.find((source) => namesOf?.(source) === undefined)
    if (unknown !== undefined) {
      const text = `The approval rule for "${name}" in \`${where}\` matches no tool of this source, and the tools of "${unknown}" are not known yet.`
      return [{ ...common, text, isUndecided: true }]
    }
    const known = tools.flatMap(({ names }) => names)
    const suggestion = didYouMean(name, known)
    const text = `The approval rule for "${name}" in \`${where}\` matches no served tool.${suggestion}`
    return [{ ...common, suggestion, text }]
  }
  if (isPredicate !== true) return []
  return matching
    .filter(({ approval = 'conditional' }) => approval !== 'conditional')
    .map(({ id, approval }) => ({
      ...common,
      text: `\`${where}\` has \`when\` for ${id}, whose approval is '${approval}': the predicate is never evaluated. Set the tool's approval to 'conditional'.`,
    }))
}
