import { ConfigError } from '#config/load'
import { loadTools } from '#config/load-tools'
import type { JsonValue } from '#core/json'
import type { Arguments } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { loadProjectConfig } from './load-project.ts'

/** What is wrong with a value that a tool is said to have given; nothing when no config here knows the tool. */
export async function checkSettledValue(
  settled: { readonly tool: string; readonly value: JsonValue },
  args: Arguments<'config'>,
  context: CommandContext,
): Promise<readonly string[]> {
  try {
    const { tools } = await loadTools(await loadProjectConfig(args.text('config'), context))
    return tools.find(({ id }) => id === settled.tool)?.checkOutput(settled.value) ?? []
  } catch (error) {
    if (error instanceof ConfigError && args.text('config') === undefined) return []
    throw error
  }
}
