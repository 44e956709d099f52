import { DefinitionError, type Finding } from '#kernel/base/errors'
import { byVersion, parseToolName } from '#kernel/base/ids'
import { defined } from '#kernel/base/json'
import { checkLaxerVersions } from './checks.ts'
import { type PrepareOptions, prepareTool, type ToolIdentity } from './prepare-tool.ts'
import { findFunctionNames, withFunctionName } from './shared-names.ts'
import type { Tool } from './tool.ts'
import { missingUse, type ResolvedWorkflows, resolveWorkflows } from './workflows.ts'

/**
 * Prepares all tools of a server together and checks them against each other: shared names, duplicate versions, laxer versions,
 * missing steps. The loader and embedders use it. The result is either all tools or all findings of all tools.
 */

/** Like `prepareTools`, but throws one error with every finding. */
export function requireTools(
  definitions: readonly unknown[],
  options: PrepareAllOptions = {},
): readonly Tool[] {
  const prepared = prepareTools(
    definitions.map((definition) => ({ definition })),
    options,
  )
  if (prepared.ok) return prepared.tools
  throw new DefinitionError(prepared.findings)
}

interface LoadedDefinition extends Pick<PrepareOptions, 'file' | 'moduleHash'> {
  readonly definition: unknown
}

interface PrepareAllOptions extends Omit<PrepareOptions, 'file' | 'moduleHash'> {
  /** Older versions that may be laxer than a newer version (rule 21), each by any of its names with its version. */
  readonly acknowledgeLaxerVersions?: readonly string[]
  /** Whether a name may belong to a tool from a source that is not loaded yet; workflows may use these tools. */
  readonly mayComeLater?: (name: string) => boolean
}

type NamedTool = ToolIdentity & Pick<LoadedDefinition, 'file'>

export function prepareTools(
  definitions: readonly LoadedDefinition[],
  options: PrepareAllOptions = {},
):
  | { readonly ok: true; readonly tools: readonly Tool[] }
  | { readonly ok: false; readonly findings: readonly Finding[] } {
  const findings: Finding[] = []
  const named: NamedTool[] = []
  const preparedTools: Tool[] = []
  for (const { definition, file, moduleHash } of definitions) {
    const prepared = prepareTool(definition, { ...options, ...defined({ file, moduleHash }) })
    findings.push(...prepared.findings)
    if (prepared.identity !== undefined) named.push({ ...prepared.identity, ...defined({ file }) })
    if (prepared.tool !== undefined) preparedTools.push(prepared.tool)
  }
  const names = findFunctionNames(named)
  const tools = preparedTools.map((tool) => withFunctionName(tool, names))
  const callable = named.map((entry) => ({ ...entry, name: names.get(entry.parts.base) ?? entry.name }))
  const resolved = resolveWorkflows(tools)
  findings.push(...checkWorkflows(resolved, tools, callable, options))
  findings.push(...checkLaxerVersions(resolved.tools, options.acknowledgeLaxerVersions ?? []))
  findings.push(...checkVersions(named), ...checkShared(callable, 'name'), ...checkShared(named, 'catalogId'))
  findings.push(...checkCrossed(named), ...checkDisplaced(named, callable), ...checkAddresses(tools))
  if (findings.length > 0) return { ok: false, findings }
  const ready = new Map(resolved.tools.map((tool) => [tool.id, tool]))
  // Workflows that wait for tools from sources stay as written until these tools are served.
  return { ok: true, tools: tools.map((tool) => ready.get(tool.id) ?? tool) }
}

/** Problems of workflows once all tools are known. A tool that has findings itself is not also reported as missing. */
function checkWorkflows(
  { findings, waiting }: ResolvedWorkflows,
  tools: readonly Tool[],
  named: readonly NamedTool[],
  { mayComeLater = () => false }: PrepareAllOptions,
): Finding[] {
  const files = new Map(named.map(({ id, file }) => [id, file]))
  const names = new Set(named.flatMap(namesOf))
  const missed = [...waiting].flatMap(([id, missing]) => {
    const lost = missing.filter((ref) => !mayComeLater(ref) && !isFaulty(ref, names, tools))
    return missingUse({ id }, lost, tools)
  })
  return [...findings, ...missed].map((finding) => ({
    ...finding,
    ...defined({ file: files.get(finding.toolId) }),
  }))
}

function isFaulty(ref: string, names: ReadonlySet<string>, tools: readonly Tool[]): boolean {
  const { base } = parseToolName(ref) ?? { base: ref }
  return names.has(base) && !tools.some((tool) => namesOf(tool).includes(base))
}

function namesOf({ parts, name, catalogId }: ToolIdentity): readonly string[] {
  return [parts.base, name, catalogId]
}

/** Ids are unique, even if two of them write the same version differently (OTC-24, OTC/T-10). */
function checkVersions(named: readonly NamedTool[]): Finding[] {
  const findings: Finding[] = []
  for (const versions of Map.groupBy(named, ({ parts }) => parts.base).values()) {
    const inOrder = versions.toSorted(byVersion)
    for (const [index, later] of inOrder.entries()) {
      const earlier = inOrder[index - 1]
      if (earlier === undefined || byVersion(earlier, later) !== 0) continue
      const where = earlier.file === undefined ? '' : ` in ${earlier.file}`
      const problem = `This version is already defined${where}, as "${earlier.id}".`
      findings.push(found(later, 'id', problem, 'Raise the version, or remove one of the two.'))
    }
  }
  return findings
}

/** A function name or `catalogId` belongs to one base and is shared by its versions. */
function checkShared(named: readonly NamedTool[], key: 'name' | 'catalogId'): Finding[] {
  const findings: Finding[] = []
  const firstOfBase = new Map<string, ToolIdentity>()
  const firstWithValue = new Map<string, ToolIdentity>()
  for (const entry of named) {
    const value = entry[key]
    const sibling = remember(firstOfBase, entry.parts.base, entry)
    const owner = remember(firstWithValue, value, entry)
    if (sibling[key] !== value) {
      const problem = `Is "${value}", but "${sibling.id}" has "${sibling[key]}".`
      findings.push(found(entry, key, problem, 'Use the same value in all versions of a tool.'))
    } else if (owner.parts.base !== entry.parts.base) {
      const problem = `"${value}" already belongs to "${owner.id}".`
      findings.push(found(entry, key, problem, `Give this tool another one: \`${key}: '…'\`.`))
    }
  }
  return findings
}

/** A tool's name must not be another tool's catalog id, because a reference would be ambiguous. */
function checkCrossed(named: readonly NamedTool[]): Finding[] {
  const owners = new Map(named.map((entry) => [entry.catalogId, entry]))
  return checkNames(named, owners, (owner) => `is the catalog id of "${owner}".`)
}

/** A name that tools share must not be another tool's function name: OTC would list the name for tools that it does not call. */
function checkDisplaced(named: readonly NamedTool[], callable: readonly NamedTool[]): Finding[] {
  const displaced = named.filter(({ name }, at) => callable[at]?.name !== name)
  const owners = new Map(callable.map((entry) => [entry.name, entry]))
  return checkNames(displaced, owners, (owner) => `already belongs to "${owner}".`)
}

/** Reports names that belong to another tool. */
function checkNames(
  named: readonly NamedTool[],
  owners: ReadonlyMap<string, ToolIdentity>,
  describe: (owner: string) => string,
): Finding[] {
  return named.flatMap((entry) => {
    const owner = owners.get(entry.name)
    if (owner === undefined || owner.parts.base === entry.parts.base) return []
    const problem = `"${entry.name}" ${describe(owner.id)}`
    return [found(entry, 'name', problem, "Give this tool another one: `name: '…'`.")]
  })
}

/** Versions of a resource may share its address; other resources may not. */
function checkAddresses(tools: readonly Tool[]): Finding[] {
  const owners = new Map<string, Tool>()
  return tools.flatMap((tool) => {
    const { uri, uriTemplate = uri } = tool.entry?.definition ?? {}
    if (typeof uriTemplate !== 'string') return []
    const owner = remember(owners, uriTemplate, tool)
    if (owner.parts.base === tool.parts.base) return []
    const problem = `"${uriTemplate}" already belongs to "${owner.id}".`
    return [found(tool, uri === undefined ? 'uriTemplate' : 'uri', problem, 'Write another address.')]
  })
}

function remember<Value>(first: Map<string, Value>, key: string, value: Value): Value {
  const known = first.get(key)
  if (known === undefined) first.set(key, value)
  return known ?? value
}

function found({ id, file }: NamedTool, where: string, problem: string, fix: string): Finding {
  return defined({ toolId: id, file, where, problem, fix })
}
