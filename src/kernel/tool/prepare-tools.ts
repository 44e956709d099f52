import { DefinitionError, type Finding } from '#kernel/base/errors'
import { compareVersions, parseToolName } from '#kernel/base/ids'
import { checkLaxerVersions } from './checks.ts'
import { inspectTool, type PrepareOptions, type ToolIdentity } from './prepare-tool.ts'
import { findFunctionNames, withFunctionName } from './shared-names.ts'
import type { Tool } from './tool.ts'
import { missingUse, type ResolvedWorkflows, resolveWorkflows } from './workflows.ts'

/**
 * Prepares all tools of a server together and checks what only their combination shows: shared names, duplicate versions, laxer
 * versions, missing steps. The loader and embedders use it. The result is either every tool or every finding of every tool.
 */

/** Like `prepareTools`, but throws one error with every finding. */
export function requireTools(
  definitions: readonly unknown[],
  options: Omit<PrepareOptions, 'file' | 'moduleHash'> & LaxerOptions = {},
): readonly Tool[] {
  const prepared = prepareTools(
    definitions.map((definition) => ({ definition })),
    options,
  )
  if (prepared.ok) return prepared.tools
  throw new DefinitionError(prepared.findings)
}

interface LoadedDefinition {
  readonly definition: unknown
  readonly file?: string
  readonly moduleHash?: string
}

type PreparedTools =
  | { readonly ok: true; readonly tools: readonly Tool[] }
  | { readonly ok: false; readonly findings: readonly Finding[] }

interface LaxerOptions {
  /** Older versions that may be laxer than a newer one (rule 21): any name of each, with its version. */
  readonly acknowledgeLaxerVersions?: readonly string[]
  /** Whether a name may belong to a tool of a source that is not loaded yet; workflows may use such tools. */
  readonly mayComeLater?: (name: string) => boolean
}

interface NamedTool {
  readonly identity: ToolIdentity
  readonly file?: string
}

export function prepareTools(
  definitions: readonly LoadedDefinition[],
  options: Omit<PrepareOptions, 'file' | 'moduleHash'> & LaxerOptions = {},
): PreparedTools {
  const findings: Finding[] = []
  const named: NamedTool[] = []
  const inspectedTools: Tool[] = []
  for (const { definition, file, moduleHash } of definitions) {
    const location = file === undefined ? {} : { file }
    const module = moduleHash === undefined ? {} : { moduleHash }
    const inspected = inspectTool(definition, { ...options, ...location, ...module })
    findings.push(...inspected.findings)
    if (inspected.identity !== undefined) named.push({ identity: inspected.identity, ...location })
    if (inspected.tool !== undefined) inspectedTools.push(inspected.tool)
  }
  const names = findFunctionNames(named.map(({ identity }) => identity))
  const tools = inspectedTools.map((tool) => withFunctionName(tool, names))
  const callable = named.map((entry) => ({ ...entry, identity: underFunctionName(entry.identity, names) }))
  const resolved = resolveWorkflows(tools)
  findings.push(...checkWorkflows(resolved, tools, callable, options))
  findings.push(...checkLaxerVersions(resolved.tools, options.acknowledgeLaxerVersions ?? []))
  findings.push(...checkVersions(named), ...checkShared(callable, 'name'), ...checkShared(named, 'catalogId'))
  findings.push(...checkCrossed(named), ...checkDisplaced(named, callable))
  if (findings.length > 0) return { ok: false, findings }
  const ready = new Map(resolved.tools.map((tool) => [tool.id, tool]))
  // Workflows that wait for tools of sources stay as written until those are served.
  return { ok: true, tools: tools.map((tool) => ready.get(tool.id) ?? tool) }
}

/** Problems of workflows once all tools are known. A tool with findings of its own is not reported as missing too. */
function checkWorkflows(
  { findings, waiting }: ResolvedWorkflows,
  tools: readonly Tool[],
  named: readonly NamedTool[],
  { mayComeLater = () => false }: LaxerOptions,
): Finding[] {
  const files = new Map(named.map(({ identity, file }) => [identity.id, file]))
  const names = new Set(named.flatMap(({ identity }) => namesOf(identity)))
  const missed = [...waiting].flatMap(([id, missing]) => {
    const lost = missing.filter((ref) => !mayComeLater(ref) && !isFaulty(ref, names, tools))
    return missingUse({ id }, lost, tools)
  })
  return [...findings, ...missed].map((finding) => {
    const file = files.get(finding.toolId)
    return file === undefined ? finding : { ...finding, file }
  })
}

function isFaulty(ref: string, names: ReadonlySet<string>, tools: readonly Tool[]): boolean {
  const { base } = parseToolName(ref) ?? { base: ref }
  return names.has(base) && !tools.some((tool) => namesOf(tool).includes(base))
}

function namesOf({ parts, name, catalogId }: ToolIdentity): readonly string[] {
  return [parts.base, name, catalogId]
}

/** Ids are unique, even when two spell one version differently (OTC-24, OTC/T-10). */
function checkVersions(named: readonly NamedTool[]): Finding[] {
  const findings: Finding[] = []
  for (const versions of Map.groupBy(named, ({ identity }) => identity.parts.base).values()) {
    const inOrder = versions.toSorted(byVersion)
    for (const [index, later] of inOrder.entries()) {
      const earlier = inOrder[index - 1]
      if (earlier === undefined || byVersion(earlier, later) !== 0) continue
      const where = earlier.file === undefined ? '' : ` in ${earlier.file}`
      const problem = `This version is already defined${where}, as "${earlier.identity.id}".`
      findings.push(found(later, 'id', problem, 'Raise the version, or remove one of the two.'))
    }
  }
  return findings
}

function byVersion(left: NamedTool, right: NamedTool): number {
  return compareVersions(left.identity.parts.version, right.identity.parts.version)
}

/** A function name or `catalogId` belongs to one base and is shared by its versions. */
function checkShared(named: readonly NamedTool[], key: 'name' | 'catalogId'): Finding[] {
  const findings: Finding[] = []
  const firstOfBase = new Map<string, ToolIdentity>()
  const firstWithValue = new Map<string, ToolIdentity>()
  for (const entry of named) {
    const { identity } = entry
    const value = identity[key]
    const sibling = remember(firstOfBase, identity.parts.base, identity)
    const owner = remember(firstWithValue, value, identity)
    if (sibling[key] !== value) {
      const problem = `Is "${value}", but "${sibling.id}" has "${sibling[key]}".`
      findings.push(found(entry, key, problem, 'Write the same in all versions of a tool.'))
    } else if (owner.parts.base !== identity.parts.base) {
      const problem = `"${value}" already belongs to "${owner.id}".`
      findings.push(found(entry, key, problem, `Give this tool another one: \`${key}: '…'\`.`))
    }
  }
  return findings
}

/** A tool's name must not be another tool's catalog id, because a reference would be ambiguous. */
function checkCrossed(named: readonly NamedTool[]): Finding[] {
  const owners = new Map(named.map(({ identity }) => [identity.catalogId, identity]))
  return named.flatMap((entry) => {
    const owner = owners.get(entry.identity.name)
    if (owner === undefined || owner.parts.base === entry.identity.parts.base) return []
    const problem = `"${entry.identity.name}" is the catalog id of "${owner.id}".`
    return [found(entry, 'name', problem, "Give this tool another one: `name: '…'`.")]
  })
}

function underFunctionName(identity: ToolIdentity, names: ReadonlyMap<string, string>): ToolIdentity {
  return { ...identity, name: names.get(identity.parts.base) ?? identity.name }
}

/**
 * A name that tools share must not be the function name of another tool: OTC would list it for a tool that it does not call.
 */
function checkDisplaced(named: readonly NamedTool[], callable: readonly NamedTool[]): Finding[] {
  const owners = new Map(callable.map(({ identity }) => [identity.name, identity]))
  return named.flatMap((entry, at) => {
    const { name, parts } = entry.identity
    const owner = owners.get(name)
    const isDisplaced = callable[at]?.identity.name !== name
    if (!isDisplaced || owner === undefined || owner.parts.base === parts.base) return []
    const problem = `"${name}" already belongs to "${owner.id}".`
    return [found(entry, 'name', problem, "Give this tool another one: `name: '…'`.")]
  })
}

function remember<Value>(first: Map<string, Value>, key: string, value: Value): Value {
  const known = first.get(key)
  if (known === undefined) first.set(key, value)
  return known ?? value
}

function found({ identity, file }: NamedTool, where: string, problem: string, fix: string): Finding {
  return { toolId: identity.id, ...(file === undefined ? {} : { file }), where, problem, fix }
}
