import { Breather } from '#core/breather'
import { fault } from '#core/errors'
import type { Finding, Report } from '#core/finding'
import { isJsonObject, type JsonObject } from '#core/json'
import { pinHash } from '#core/pins/pin-hash'
import type { OfferedTool, Source } from '#core/ports/source'
import { inspectTool } from '#core/prepare-tool'
import type { StatefulContext, Tool } from '#core/tool'
import type { PolicyDefinition } from '#core/tool-definition'
import { catalogIdOf, functionNameOf, giveLocalNames, toolkitOf } from './import-names.ts'
import type { PinnedTool } from './pinned-tool.ts'

export interface ProjectedTools {
  readonly tools: readonly Tool[]
  /** Why single tools are left out; the others stay. */
  readonly findings: readonly Finding[]
  /** What is odd about tools that stay. */
  readonly warnings: readonly Finding[]
}

export interface ProjectOptions {
  readonly defaultTimeoutMs: number
}

interface Naming {
  readonly toolkit: string
  readonly local: string
}

/** Accepted definitions of a source as tools that are listed and called; a call goes upstream with the pinned binding. */
export async function projectTools(
  source: Source,
  pinned: readonly PinnedTool[],
  options: ProjectOptions,
): Promise<ProjectedTools> {
  const tools: Tool[] = []
  const findings: Finding[] = []
  const warnings: Finding[] = []
  const toolkit = toolkitOf(source.key)
  const given = new Map(
    pinned.flatMap(({ offered, local }) => (local === undefined ? [] : [[offered.nativeName, local]])),
  )
  const names = giveLocalNames(
    pinned.map(({ offered }) => offered.nativeName),
    given,
  )
  const known = projectionsOf(source)
  const breather = new Breather()
  for (const pin of pinned) {
    if (breather.isDue) await breather.breathe()
    const local = names.get(pin.offered.nativeName) ?? ''
    const mark = markOf(source, pin, local, options)
    const before = known.get(pin.offered)
    const projection =
      before?.mark === mark ? before : { mark, ...projectTool(source, pin, { toolkit, local, ...options }) }
    known.set(pin.offered, projection)
    findings.push(...projection.findings)
    warnings.push(...projection.warnings)
    if (projection.tool !== undefined) tools.push(projection.tool)
  }
  return { tools, findings, warnings }
}

interface Projection {
  /** What it was made of besides the definition; another mark, another projection. */
  readonly mark: string
  readonly tool: Tool | undefined
  readonly findings: readonly Finding[]
  readonly warnings: readonly Finding[]
}

/** A decision about one tool must not make thousands anew. Lives and dies with its source and its definitions. */
const PROJECTIONS = new WeakMap<Source, WeakMap<OfferedTool, Projection>>()

function projectionsOf(source: Source): WeakMap<OfferedTool, Projection> {
  const known = PROJECTIONS.get(source)
  if (known !== undefined) return known
  const made = new WeakMap<OfferedTool, Projection>()
  PROJECTIONS.set(source, made)
  return made
}

/** `undefined` policies come from a source that cannot read its own definition, which projecting then tells. */
function markOf(source: Source, pin: PinnedTool, local: string, options: ProjectOptions): string {
  const { identity, version, hash, suspended = null } = pin
  let policy: PolicyDefinition | null = null
  try {
    policy = source.policyFor?.(pin.offered) ?? null
  } catch {
    return `unreadable ${local}`
  }
  return JSON.stringify([version, hash ?? identity, local, suspended, policy, options.defaultTimeoutMs])
}

function projectTool(
  source: Source,
  pin: PinnedTool,
  { toolkit, local, defaultTimeoutMs }: Naming & ProjectOptions,
): Omit<Projection, 'mark'> {
  const toolId = `${toolkit}.${local}@${pin.version}`
  const warnings: Finding[] = []
  const onOddity: Report = (where, problem, fix) => warnings.push({ toolId, where, problem, fix })
  try {
    const { tool, findings } = inspectTool(toDefinition(source, pin, { toolkit, local }), {
      source: source.kind,
      describeParameters: false,
      defaultTimeoutMs,
      moduleHash: pin.hash ?? pinHash(pin.identity, pin.offered),
      onOddity,
    })
    if (tool !== undefined) tellUndescribed(tool, onOddity)
    return { tool, findings, warnings }
  } catch (error) {
    // A definition that its own source cannot read, or that is nested beyond the stack, costs no other tool.
    const problem = `Cannot be read: ${error instanceof Error ? error.message : 'unknown'}.`
    const fix = 'Accept what the upstream offers now, or exclude the tool.'
    return { tool: undefined, findings: [{ toolId, where: 'tool', problem, fix }], warnings }
  }
}

function toDefinition(source: Source, pin: PinnedTool, { toolkit, local }: Naming) {
  const { offered, version, suspended } = pin
  const { nativeName, title, description, inputSchema, outputSchema, requirements } = offered
  const invocation = { nativeName, binding: offered.binding, accepted: pin }
  const session = source.sessionOf?.(offered)
  const run = (input: unknown, context: StatefulContext<unknown>) =>
    source.invoke({ ...invocation, input: asInput(input), context })
  // The definition stays the same while it is suspended, so that a call of before can go on after it.
  const refuse = () => {
    throw refusal(suspended ?? '')
  }
  return {
    id: `${toolkit}.${local}@${version}`,
    name: functionNameOf(toolkit, local),
    ...(title === undefined || title.trim() === '' ? {} : { title: title.toWellFormed() }),
    catalogId: catalogIdOf(source.kind, { toolkit, nativeName, local, vendor: source.vendor }),
    description: firstText(description, title, nativeName),
    input: inputSchema,
    output: outputSchema,
    ...(requirements === undefined ? {} : { requirements }),
    policy: source.policyFor?.(offered) ?? offered.policy,
    ...(session === undefined
      ? {}
      : { session: suspended === undefined ? session : { ...session, open: refuse } }),
    run: suspended === undefined ? run : refuse,
  }
}

/** Nothing was sent, so the same call may run once somebody has decided (rule 9). */
function refusal(why: string): Error {
  return fault(
    'upstream_failed',
    `This tool is suspended: ${why}. Nothing was sent. An operator must accept the change before it can be called again.`,
    {
      canRetry: true,
      developerMessage: 'See it with `collet pins diff`, let it in with `collet pins accept`.',
    },
  )
}

/** The wire check has let only objects through (T-13). */
function asInput(input: unknown): JsonObject {
  return isInput(input) ? input : {}
}

function isInput(input: unknown): input is JsonObject {
  return typeof input === 'object' && input !== null && !Array.isArray(input)
}

/** OTC-26: a description is never empty, whatever the upstream sent. */
function firstText(...texts: readonly (string | undefined)[]): string {
  return texts.find((text) => text !== undefined && text.trim() !== '')?.toWellFormed() ?? 'No description.'
}

/** OTC-32 is no reason to lose a tool of somebody else. */
function tellUndescribed({ inputSchema: { properties } }: Tool, tell: Report): void {
  const missing = Object.entries(isJsonObject(properties) ? properties : {})
    .filter(([, parameter]) => !isJsonObject(parameter) || typeof parameter.description !== 'string')
    .map(([name]) => name)
  if (missing.length === 0) return
  const names = missing.slice(0, 5).join(', ') + (missing.length > 5 ? ', …' : '')
  tell(
    'input',
    `${missing.length} of its parameters have no description: ${names} (OTC-32).`,
    'Ask its author; the tool is served as it is.',
  )
}
