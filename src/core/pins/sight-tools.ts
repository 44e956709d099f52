import { Breather } from '#core/breather'
import type { Discovery, OfferedTool } from '#core/ports/source'

export interface SightedTools {
  readonly tools: readonly OfferedTool[]
  /** What cannot even be kept, and why. */
  readonly left: readonly { readonly nativeName: string; readonly problem: string }[]
}

const LONGEST_NAME = 512
const DEEPEST = 128
const MOST_TOOLS = 20_000
const MOST_VALUES = 200_000

/** The tools of a discovery that can be looked at: named once, of a size that somebody can decide about. */
export async function sightTools({ tools }: Pick<Discovery, 'tools'>): Promise<SightedTools> {
  const breather = new Breather()
  const sighted = new Map<string, OfferedTool>()
  const left: { nativeName: string; problem: string }[] = []
  for (const tool of tools) {
    if (breather.isDue) await breather.breathe()
    const problem = problemOf(tool, sighted)
    if (problem === undefined) sighted.set(tool.nativeName, tool)
    else left.push({ nativeName: tool.nativeName.slice(0, LONGEST_NAME), problem })
  }
  return { tools: [...sighted.values()], left }
}

function problemOf(tool: OfferedTool, sighted: ReadonlyMap<string, OfferedTool>): string | undefined {
  const { nativeName } = tool
  if (nativeName === '' || nativeName.length > LONGEST_NAME || !nativeName.isWellFormed()) {
    return `the upstream offers a tool whose name is not a text of 1 to ${LONGEST_NAME} characters; left out`
  }
  if (sighted.size >= MOST_TOOLS) return `the upstream offers more than ${MOST_TOOLS} tools; left out`
  if (sighted.has(nativeName)) return 'the upstream offers two tools of this name; the second is left out'
  const { inputSchema, outputSchema, binding, requirements } = tool
  return isTooMuch([inputSchema, outputSchema, binding, requirements])
    ? `the upstream offers a definition of more than ${MOST_VALUES} values or ${DEEPEST} levels; left out`
    : undefined
}

function isTooMuch(value: unknown): boolean {
  let left = MOST_VALUES
  const walk = (inner: unknown, depth: number): boolean => {
    left -= 1
    if (left < 0 || depth > DEEPEST) return true
    if (typeof inner !== 'object' || inner === null) return false
    return Object.values(inner).some((member) => walk(member, depth + 1))
  }
  return walk(value, 0)
}
