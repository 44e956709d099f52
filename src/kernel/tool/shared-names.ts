import type { ToolIdentity } from './prepare-tool.ts'
import type { Tool } from './tool.ts'

/*
 * Function names of tools that share their written `name` with other tools. OTC requires only ids to be unique, so two toolkits
 * may each have a tool named `Add`, and two versions of a tool may have different names. OTC lists show the names as written. On
 * protocols that call tools by name (MCP, OpenTool), each of these tools is called `Toolkit_Name`, and the written name resolves
 * to none of them. A tool's function name is therefore always unique, and does not depend on what a caller may see.
 */

const MAX_FUNCTION_NAME = 64

/** The function names of tools that cannot keep their written name, by base name. */
export function findFunctionNames(identities: readonly ToolIdentity[]): ReadonlyMap<string, string> {
  const byName = Map.groupBy(identities, ({ name }) => name)
  const byBase = Map.groupBy(identities, ({ parts }) => parts.base)
  const names = new Map<string, string>()
  for (const { name, parts } of identities) {
    const isShared =
      byName.get(name)?.some((other) => other.parts.base !== parts.base) ||
      byBase.get(parts.base)?.some((other) => other.name !== name)
    const own = `${parts.toolkit}_${parts.name}`
    if (isShared && own.length <= MAX_FUNCTION_NAME) names.set(parts.base, own)
  }
  return names
}

/** The tool with its function name. The definition hash is not changed, so that it does not depend on other tools. */
export function withFunctionName(tool: Tool, names: ReadonlyMap<string, string>): Tool {
  const name = names.get(tool.parts.base)
  if (name === undefined || name === tool.name) return tool
  const entry = tool.entry === undefined ? {} : { entry: { ...tool.entry, name } }
  return Object.freeze({ ...tool, ...entry, name, writtenName: tool.name })
}

type Named = Pick<Tool, 'parts' | 'name' | 'writtenName'>

/** A hint for an error about a written name: the tools that have it; `undefined` if no tool has it. */
export function sharedNameHint(name: string, tools: readonly Named[]): string | undefined {
  const sharing = tools.filter(({ writtenName }) => writtenName === name)
  const [first, ...others] = new Set(sharing.map(({ parts }) => parts.base))
  if (first === undefined) return undefined
  return others.length === 0
    ? `Did you mean '${first}'?`
    : `It could mean ${[first, ...others].join(' or ')}.`
}

/** One note for the operator about each written name that cannot be used to call a tool. */
export function sharedNameNotes(tools: readonly Named[]): readonly string[] {
  const displaced = tools.filter(({ writtenName }) => writtenName !== undefined)
  return [...Map.groupBy(displaced, ({ writtenName }) => writtenName)].map(([written, named]) => {
    const bases = [...new Set(named.map(({ parts }) => parts.base))]
    const names = [...new Set(named.map(({ name }) => name))]
    const whose = bases.length === 1 ? `some versions of ${bases[0]}` : bases.join(', ')
    return `"${written}" is the name of ${whose}, so no tool can be called by it. MCP and OpenTool list ${names.join(', ')}.`
  })
}
