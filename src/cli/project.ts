import { relative } from 'node:path'
import { ConfigError, type ConfigProblem, findConfig, type LoadedConfig, loadConfig } from '#config/load'
import { loadTools } from '#config/load-tools'
import { cleanText } from '#core/json'
import type { Tool } from '#core/tool'
import type { CommandContext } from './command.ts'

interface Project {
  readonly loaded: LoadedConfig
  readonly tools: readonly Tool[]
}

/** The config that `--config`, `COLLET_CONFIG` or the working folder names. */
export async function loadProjectConfig(
  named: string | undefined,
  { workingFolder, environment }: CommandContext,
): Promise<LoadedConfig> {
  return await loadConfig(findConfig(workingFolder, named ?? environment.configFile))
}

/** Config and tools. Warnings are shown; one error or more is thrown, together with the warnings. */
export async function loadProject(named: string | undefined, context: CommandContext): Promise<Project> {
  const loaded = await loadProjectConfig(named, context)
  const { tools, problems } = await context.output.during('Loading tools', loadTools(loaded))
  if (problems.some(({ severity }) => severity === 'error')) throw new ConfigError(problems)
  for (const problem of problems) context.output.warn(problemText(problem, context.workingFolder))
  return { loaded, tools }
}

/** A problem in one line, with its file relative to where the user is. */
export function problemText({ file, where, message }: ConfigProblem, workingFolder: string): string {
  const place = file === undefined ? undefined : shorter(relative(workingFolder, file), file)
  return [place, where, message]
    .filter((part) => part !== undefined && part !== '')
    .map((part) => cleanText(part ?? ''))
    .join(': ')
}

function shorter(left: string, right: string): string {
  return left.length < right.length ? left : right
}
