import { Breather } from '#core/breather'
import type { Finding } from '#core/finding'
import type { Tool } from '#core/tool'

export interface JoinedTools {
  readonly tools: readonly Tool[]
  readonly findings: readonly Finding[]
}

/** Names that no two tools of different bases may share, be it as one or as the other: a caller may write either. */
const NAMES = ['name', 'catalogId'] as const

/**
 * Tools written as code and imported ones in one list. What was there first keeps its names, so a source can never
 * take the place of somebody else's tool; what clashes is left out and told.
 */
export async function joinTools(
  own: readonly Tool[],
  imported: Iterable<readonly Tool[]>,
): Promise<JoinedTools> {
  const breather = new Breather()
  const tools = [...own]
  const findings: Finding[] = []
  const bases = new Map<string, Tool>(own.map((tool) => [tool.parts.base, tool]))
  const taken = new Map<string, Tool>(own.flatMap((tool) => NAMES.map((key) => [tool[key], tool])))
  for (const ofSource of imported) {
    for (const tool of ofSource) {
      if (breather.isDue) await breather.breathe()
      const clash = bases.get(tool.parts.base) ?? NAMES.map((key) => taken.get(tool[key])).find(isKnown)
      if (clash !== undefined) {
        findings.push(clashOf(tool, clash))
        continue
      }
      tools.push(tool)
      bases.set(tool.parts.base, tool)
      for (const key of NAMES) taken.set(tool[key], tool)
    }
  }
  return { tools, findings }
}

function isKnown(tool: Tool | undefined): tool is Tool {
  return tool !== undefined
}

function clashOf(tool: Tool, other: Tool): Finding {
  return {
    toolId: tool.id,
    where: 'id',
    problem: `Its id, function name or catalog id already belongs to "${other.id}", so it is left out.`,
    fix: 'Give the source another key, or leave the tool out with `exclude`.',
  }
}
