import { namesFor } from '#core/approvals/approval-rules'
import { didYouMean } from '#core/nearest-name'
import type { Tool } from '#core/tool'
import { ConfigError, type ConfigProblem } from './config-error.ts'
import type { ParsedConfig } from './config-schema.ts'
import { isImported } from './is-imported.ts'

/**
 * Terms of a tool that is not there would leave the one that was meant with weaker ones, and a predicate that nobody
 * asks would leave it with none.
 */
export function checkApprovals(
  { approvals, sources }: Pick<ParsedConfig, 'approvals' | 'sources'>,
  tools: readonly Tool[],
  file: string,
): void {
  const names = [...new Set(tools.flatMap(namesFor))]
  const problems = Object.keys(approvals.perTool)
    .filter((name) => !names.includes(name) && !isImported(name, Object.entries(sources)))
    .map((name): ConfigProblem => {
      const message = `there is no such tool. Write "Toolkit.Name", "Toolkit.Name@x.y.z" or another name of it.${didYouMean(name, names)}`
      return { severity: 'error', file, where: `approvals.perTool.${name}`, message }
    })
  const idle = Object.entries(approvals.perTool).flatMap(([name, { when }]) =>
    when === undefined
      ? []
      : tools.filter((tool) => namesFor(tool).includes(name) && tool.policy.approval !== 'conditional'),
  )
  problems.push(
    ...idle.map(({ id, policy }): ConfigProblem => {
      const message = `${id} has the approval '${policy.approval}', so \`when\` is never asked. Set policy.approval: 'conditional' on the tool, or leave \`when\` out.`
      return { severity: 'error', file, where: 'approvals.perTool', message }
    }),
  )
  if (problems.length > 0) throw new ConfigError(problems)
}
