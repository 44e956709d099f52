import type { SourceOptions } from '#config/schema'
import { isImported } from '#config/to-settings'
import { type ApprovalRules, namesFor } from '#core/approvals/approvals'
import type { SourceOverride } from '#core/imports/overrides'
import type { Tool } from '#core/tool'

/** What of a configuration may speak of single tools. */
export interface Governing {
  readonly approvals: Pick<ApprovalRules, 'perTool' | 'whenPerTool'>
  /** Tools written as code: what is said of these is not said of a source. */
  readonly tools: readonly Tool[]
  readonly sourceKeys: Iterable<string>
}

/** Everything an operator wrote about single tools of a source: in its options, and under `approvals`. */
export function overridesOf(
  key: string,
  options: SourceOptions,
  governing: Governing,
): readonly SourceOverride[] {
  return [...ofOptions(options), ...termsOverrides(key, options, governing)]
}

function ofOptions(options: SourceOptions): readonly SourceOverride[] {
  if (options.type === 'custom') return []
  const { tools, include = [], exclude } = options
  return [
    ...Object.entries(tools).map(([name, { approval, scopes, tenants }]): SourceOverride => {
      const asks = approval !== undefined && approval !== 'never'
      return {
        where: `tools.${name}`,
        name,
        of: 'native names',
        guards: asks || tenants !== undefined || (scopes !== undefined && scopes.length > 0),
      }
    }),
    ...include.map((name): SourceOverride => ({ where: 'include', name, of: 'patterns', guards: false })),
    ...exclude.map((name): SourceOverride => ({ where: 'exclude', name, of: 'patterns', guards: false })),
  ]
}

function termsOverrides(
  key: string,
  options: SourceOptions,
  { approvals: { perTool, whenPerTool }, tools, sourceKeys }: Governing,
): readonly SourceOverride[] {
  const own = new Set(tools.flatMap(namesFor))
  const isOf = (name: string, source: string): boolean =>
    isImported(name, [[source, { type: source === key ? options.type : '' }]])
  // `Fs_2.read` begins with `Fs_` too: it is of the source with the longest name that fits.
  const longer = [...sourceKeys].filter((other) => other.length > key.length && other.startsWith(key))
  return [...perTool.keys()]
    .filter((name) => !own.has(name) && isOf(name, key) && !longer.some((other) => isOf(name, other)))
    .filter((name) => !isOfOtherHost(name, options))
    .map((name) => ({
      where: 'approvals.perTool',
      name,
      of: 'tools',
      guards: true,
      isPredicate: whenPerTool.has(name),
    }))
}

/** Commands are catalogued by their vendor, and two tables may have two. */
function isOfOtherHost(name: string, options: SourceOptions): boolean {
  const isHost = name.startsWith('x-host-') && options.type === 'command'
  return isHost && options.vendor !== undefined && !name.startsWith(`x-host-${options.vendor}-`)
}
