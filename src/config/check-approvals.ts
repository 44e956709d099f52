import { namesFor } from '#core/approvals/approvals'
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
  problems.push(...checkTwice(Object.keys(approvals.perTool), tools, file))
  if (problems.length > 0) throw new ConfigError(problems)
}

/** Two entries for one tool by two of its names would leave one of them without a say, and nobody would see which. */
function checkTwice(
  written: readonly string[],
  tools: readonly Tool[],
  file: string,
): readonly ConfigProblem[] {
  const twice = new Map<string, string>()
  for (const tool of tools) {
    const names = namesFor(tool)
    for (const isVersioned of [true, false]) {
      const [first, ...others] = written.filter(
        (name) => name.includes('@') === isVersioned && names.includes(name),
      )
      for (const other of others) twice.set(other, first ?? '')
    }
  }
  return [...twice].map(([name, first]) => {
    const message = `is the tool of approvals.perTool.${first} by another name. Write it once.`
    return { severity: 'error', file, where: `approvals.perTool.${name}`, message }
  })
}
