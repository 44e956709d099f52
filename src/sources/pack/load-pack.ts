import { pathToFileURL } from 'node:url'
import { fault } from '#core/errors'
import { compareVersions } from '#core/ids'
import type { Tool } from '#core/tool'
import { isDefinedTool, isWorkflow } from '#core/tools/define'
import { inspectTool } from '#core/tools/prepare-tool'

/** The tools of a pack by the names they have in it. */
export interface LoadedPack {
  readonly tools: ReadonlyMap<string, Tool>
  /** What was left out and why. */
  readonly warnings: readonly string[]
}

/** Imports the entry of a pack and takes every tool it exports; what is wrong with one is no reason to lose the others. */
export async function loadPack(entry: string): Promise<LoadedPack> {
  const exported: Readonly<Record<string, unknown>> = await import(pathToFileURL(entry).href).catch(
    (error: unknown) => {
      throw fault(
        'upstream_failed',
        `The pack cannot be loaded: ${error instanceof Error ? error.message : String(error)}`,
        {
          cause: error,
        },
      )
    },
  )
  const warnings: string[] = []
  const found = Object.keys(exported)
    .sort()
    .flatMap((name) => exported[name])
    .filter(isDefinedTool)
  const tools = [...new Set(found)].flatMap((definition) => {
    const problem = whyNot(definition)
    if (problem !== undefined) {
      warnings.push(`${definition.id} is left out: ${problem}`)
      return []
    }
    const { tool, findings } = inspectTool(definition, { describeParameters: false })
    warnings.push(
      ...findings.map(({ where, problem: what }) => `${definition.id} is left out: ${where}: ${what}`),
    )
    return tool ?? []
  })
  if (found.length === 0) warnings.push('It exports no tool: export what tool({ … }) gives.')
  return { tools: named(tools, warnings), warnings }
}

function whyNot(definition: object): string | undefined {
  if (isWorkflow(definition)) return 'workflows are written in the configuration, as `tools`.'
  return 'session' in definition
    ? 'tools that keep state are written in the configuration, as `tools`.'
    : undefined
}

/** `Name` where all tools are of one toolkit, else `Toolkit.Name`; of several versions the newest. */
function named(tools: readonly Tool[], warnings: string[]): ReadonlyMap<string, Tool> {
  const isOne = new Set(tools.map(({ parts }) => parts.toolkit)).size === 1
  const byName = new Map<string, Tool>()
  const oldestFirst = tools.toSorted((left, right) =>
    compareVersions(left.parts.version, right.parts.version),
  )
  for (const tool of oldestFirst) {
    const name = isOne ? tool.parts.name : tool.parts.base
    const older = byName.get(name)
    if (older !== undefined) warnings.push(`${older.id} is left out: ${tool.id} is newer.`)
    byName.set(name, tool)
  }
  return byName
}
