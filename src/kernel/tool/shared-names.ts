import type { ToolIdentity } from './prepare-tool.ts'
import type { Tool } from './tool.ts'

/*
 * Function names of tools whose written `name` is not theirs alone. OTC wants only ids to be unique, so two toolkits may each
 * have a tool named `Add`, and two versions of a tool may have different names. OTC lists show the names as written. Where a
 * name is what callers call (MCP, OpenTool), each such tool goes by `Toolkit_Name`, and the written name resolves to none of
 * them. The function name of a tool is therefore always unique, and never depends on what a caller may see.
 */

const MAX_FUNCTION_NAME = 64

/** By base name: the function names of tools that do not keep the written one. */
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

/** The tool under its function name. The definition hash stays, so that adding other tools does not change it. */
export function withFunctionName(tool: Tool, names: ReadonlyMap<string, string>): Tool {
  const name = names.get(tool.parts.base)
  if (name === undefined || name === tool.name) return tool
  const entry = tool.entry === undefined ? {} : { entry: { ...tool.entry, name } }
  return Object.freeze({ ...tool, ...entry, name, writtenName: tool.name })
}

type Named = Pick<Tool, 'parts' | 'name' | 'writtenName'>

/** The tools that a written name could stand for, for an error about that name; `undefined` when none has it. */
export function sharedNameHint(name: string, tools: readonly Named[]): string | undefined {
  const sharing = tools.filter(({ writtenName }) => writtenName === name)
  const [first, ...others] = new Set(sharing.map(({ parts }) => parts.base))
  if (first === undefined) return undefined
  return others.length === 0
    ? `Did you mean '${first}'?`
    : `It could mean ${[first, ...others].join(' or ')}.`
}

/** One note for the operator about each written name that no tool can be called by. */
export function sharedNameNotes(tools: readonly Named[]): readonly string[] {
  const displaced = tools.filter(({ writtenName }) => writtenName !== undefined)
  return [...Map.groupBy(displaced, ({ writtenName }) => writtenName)].map(([written, named]) => {
    const bases = [...new Set(named.map(({ parts }) => parts.base))]
    const names = [...new Set(named.map(({ name }) => name))]
    const whose = bases.length === 1 ? `some versions of ${bases[0]}` : bases.join(', ')
    return `"${written}" is the name of ${whose}, so no tool can be called by it. MCP and OpenTool list ${names.join(', ')}.`
  })
}
