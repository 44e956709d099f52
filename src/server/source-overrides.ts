import type { SourceOptions } from '#config/sources-schema'
import type { ApprovalRules } from '#core/approvals/approval-rules'
import type { SourceOverride } from '#core/sources/idle-overrides'
import { toolkitOf } from '#core/sources/import-names'

/** Everything an operator wrote about single tools of a source: in its options, and under `approvals`. */
export function overridesOf(
  key: string,
  options: SourceOptions,
  approvals: Pick<ApprovalRules, 'perTool' | 'whenPerTool'>,
): readonly SourceOverride[] {
  return [...ofOptions(options), ...termsOverrides(toolkitOf(key), approvals)]
}

function ofOptions(options: SourceOptions): readonly SourceOverride[] {
  if (options.type === 'custom') return []
  const { tools, include = [], exclude } = options
  return [
    ...Object.entries(tools).map(([name, { approval, scopes }]): SourceOverride => {
      const asks = approval !== undefined && approval !== 'never'
      return {
        where: `tools.${name}`,
        name,
        of: 'native names',
        guards: asks || (scopes !== undefined && scopes.length > 0),
      }
    }),
    ...include.map((name): SourceOverride => ({ where: 'include', name, of: 'patterns', guards: false })),
    ...exclude.map((name): SourceOverride => ({ where: 'exclude', name, of: 'patterns', guards: false })),
  ]
}

function termsOverrides(
  toolkit: string,
  { perTool, whenPerTool }: Pick<ApprovalRules, 'perTool' | 'whenPerTool'>,
): readonly SourceOverride[] {
  return [...perTool.keys()]
    .filter((name) => name.startsWith(`${toolkit}.`))
    .map((name) => ({
      where: 'approvals.perTool',
      name,
      of: 'tools',
      guards: true,
      isPredicate: whenPerTool.has(name),
    }))
}
