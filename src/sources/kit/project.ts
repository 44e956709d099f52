import { type Finding, fault, type Report } from '#kernel/base/errors'
import { shortHash } from '#kernel/base/hash'
import { type EntryKind, hostExtensionId, type ToolId, withoutVersion } from '#kernel/base/ids'
import { defined, isJsonObject, type JsonObject } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import { prepareTool } from '#kernel/tool/prepare-tool'
import type {
  KeptFrom,
  PolicyDefinition,
  SafetyTier,
  SourceKind,
  StatefulContext,
  Tool,
} from '#kernel/tool/tool'
import { pinHash } from './definition-diff.ts'
import type { OfferedTool, Source } from './source.ts'
import type { PinnedTool } from './source-runner.ts'

/**
 * Makes tools from accepted definitions, and joins the tools of all sources. `Sources` serves the result. Invariant: an
 * imported tool never takes a name that another tool already has.
 */

/** The names by which callers may call a tool: no name of a tool may equal either name of another tool. */
const NAMES = ['name', 'catalogId'] as const

/**
 * Joins tools written as code and imported tools into one list. The earlier tool keeps its names, so a source can never
 * replace another source's tool; a tool whose name is taken is left out, and a finding under the key of its source says so.
 */
export async function joinTools(
  own: readonly Tool[],
  imported: Iterable<{ readonly key: string; readonly tools: readonly Tool[] }>,
) {
  const yielder = new EventLoopYielder()
  const tools = [...own]
  const findings = new Map<string, Finding[]>()
  const owners = new Map<string, string>()
  const bases = new Map<string, Tool>(own.map((tool) => [tool.parts.base, tool]))
  const taken = new Map<string, Tool>(
    own.flatMap((tool) =>
      [tool.name, tool.catalogId, tool.writtenName ?? tool.name].map((name) => [name, tool] as const),
    ),
  )
  for (const { key: source, tools: ofSource } of imported) {
    for (const tool of ofSource) {
      if (yielder.isDue) await yielder.yieldNow()
      const { base } = tool.parts
      const others = [bases.get(base), ...NAMES.map((key) => taken.get(tool[key]))]
      const clash = others
        .filter((other) => other !== undefined)
        // Other versions of a tool of this source have the same names.
        .find((other) => other.parts.base !== base || owners.get(base) !== source)
      if (clash !== undefined) {
        const finding = clashOf(tool, source, clash, owners.get(clash.parts.base))
        findings.set(source, [...(findings.get(source) ?? []), finding])
        continue
      }
      tools.push(tool)
      owners.set(base, source)
      bases.set(base, tool)
      for (const key of NAMES) taken.set(tool[key], tool)
    }
  }
  return { tools, findings }
}

/** `owner` is the source of the other tool; `undefined` for a tool of the config itself. */
function clashOf(tool: Tool, source: string, other: Tool, owner: string | undefined): Finding {
  const whose = owner === undefined ? "one of the config's own tools" : `a tool of the source "${owner}"`
  return {
    toolId: tool.id,
    where: 'id',
    problem: `Its id, function name or catalog id already belongs to "${other.id}", ${whose}, so it is left out of the source "${source}".`,
    fix: 'Give the source another key, or leave the tool out with `exclude`.',
  }
}

export interface ProjectedTools {
  readonly tools: readonly Tool[]
  /** The reasons why tools are left out. */
  readonly findings: readonly Finding[]
  /** Problems of tools that are served. */
  readonly warnings: readonly Finding[]
}

interface ProjectOptions {
  readonly defaultTimeoutMs: number
  /** `openwop.vendor`, which is part of the catalog ids of tools of tier `exec` if the source names no vendor. */
  readonly vendor: string
  /** Runs the calls of the tools; by default the source does. */
  readonly invoke?: Source['invoke']
}

export interface Naming {
  readonly toolkit: string
  readonly local: string
  /** Identifies the tool within its source, in every version. */
  readonly nativeName: string
  readonly version: string
  readonly keptFrom?: KeptFrom
}

/** The naming of an imported tool: in the source's toolkit, or with the id of the upstream if the source keeps it (`kept`). */
export function namingOf(
  sourceKey: string,
  { nativeName, local, version }: Pick<Naming, 'nativeName' | 'local' | 'version'>,
  kept: ToolId | undefined,
): Naming {
  const toolkit = toolkitOf(sourceKey)
  if (kept === undefined) return { toolkit, local, nativeName, version }
  const keptFrom = { toolkit, pin: `${toolkit}.${local}` }
  const { toolkit: own, name, version: keptVersion } = kept
  const base = withoutVersion(nativeName)
  return { toolkit: own, local: name, version: keptVersion, keptFrom, nativeName: base }
}

/** Makes tools from accepted definitions; a call uses the pinned binding. */
export async function projectTools(
  source: Source,
  pinned: readonly PinnedTool[],
  options: ProjectOptions,
): Promise<ProjectedTools> {
  const tools: Tool[] = []
  const findings: Finding[] = []
  const warnings: Finding[] = []
  const assigned = new Map(
    pinned.flatMap(({ offered, local }) => (local === undefined ? [] : [[offered.nativeName, local]])),
  )
  const nativeNames = pinned.map(({ offered }) => offered.nativeName)
  const names = assignLocalNames(nativeNames, assigned)
  const known = PROJECTIONS.get(source) ?? new WeakMap<OfferedTool, Projection>()
  PROJECTIONS.set(source, known)
  const yielder = new EventLoopYielder()
  // The commit of the pins may already have taken much of this turn.
  if (pinned.length > 0) await yielder.yieldNow()
  for (const pin of pinned) {
    if (yielder.isDue) await yielder.yieldNow()
    const local = names.get(pin.offered.nativeName) ?? ''
    const cacheKey = cacheKeyOf(source, pin, local, options)
    const before = known.get(pin.offered)
    const projection =
      before?.cacheKey === cacheKey
        ? before
        : { cacheKey, ...projectTool(source, pin, { local, ...options }) }
    known.set(pin.offered, projection)
    findings.push(...projection.findings)
    warnings.push(...projection.warnings)
    if (projection.tool !== undefined) tools.push(projection.tool)
  }
  return { tools, findings, warnings }
}

interface Projection extends Omit<ProjectedTools, 'tools'> {
  /** Everything besides the definition that the projection depends on. */
  readonly cacheKey: string
  readonly tool: Tool | undefined
}

/** A cache: a decision about one tool must not project thousands of tools again. */
const PROJECTIONS = new WeakMap<Source, WeakMap<OfferedTool, Projection>>()

/** A text that changes whenever the projection would. If the source cannot read the definition, `projectTool` reports that. */
function cacheKeyOf(source: Source, pin: PinnedTool, local: string, options: ProjectOptions): string {
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
  { defaultTimeoutMs, local, ...options }: ProjectOptions & Pick<Naming, 'local'>,
): Omit<Projection, 'cacheKey'> {
  const { nativeName } = pin.offered
  const own = { nativeName, local, version: pin.version }
  const naming = namingOf(source.key, own, source.keptId?.(pin.offered))
  const toolId = idOf(naming)
  const warnings: Finding[] = []
  const onWarning: Report = (where, problem, fix) => void warnings.push({ toolId, where, problem, fix })
  try {
    const { tool, findings } = prepareTool(toDefinition(source, pin, { ...naming, ...options }), {
      source: source.kind,
      describeParameters: false,
      defaultTimeoutMs,
      moduleHash: pin.hash ?? pinHash(pin.identity, pin.offered),
      onWarning,
    })
    if (tool === undefined) return { tool, findings, warnings }
    reportUndescribed(tool, onWarning)
    const shownHints = source.shownHintsFor?.(pin.offered)
    const authored = source.authoredFor?.(pin.offered)
    const { keptFrom, nativeName: native } = naming
    const { entry, passedOn } = pin.offered
    const watch = entry?.kind === 'resources' ? source.watchResource?.bind(source) : undefined
    const listed = entry && { ...entry, name: entryName(naming, entry.kind), ...defined({ watch }) }
    const extra = defined({ shownHints, authored, keptFrom, nativeName: native, entry: listed, passedOn })
    return { tool: { ...tool, ...extra }, findings, warnings }
  } catch (error) {
    // A definition that its source cannot read, or that overflows the stack, must not affect other tools.
    const problem = `Cannot be read: ${error instanceof Error ? error.message : 'unknown'}.`
    const fix = 'Accept the definition that the upstream offers now, or exclude the tool.'
    return { tool: undefined, findings: [{ toolId, where: 'tool', problem, fix }], warnings }
  }
}

function toDefinition(
  source: Source,
  pin: PinnedTool,
  { vendor, invoke, ...naming }: Naming & Pick<ProjectOptions, 'vendor' | 'invoke'>,
) {
  const { toolkit } = naming
  const { offered, suspended } = pin
  const { nativeName, title, description, inputSchema, outputSchema, requirements } = offered
  const id = idOf(naming)
  const invocation = { nativeName, toolId: id, binding: offered.binding, accepted: pin }
  const session = source.sessionOf?.(offered)
  const policy = source.policyFor?.(offered) ?? offered.policy
  const run = (input: unknown, context: StatefulContext<unknown>) => {
    // The protocol's check lets only objects through (OTC/T-13).
    const call = { ...invocation, input: isInput(input) ? input : {}, context }
    return invoke === undefined ? source.invoke(call) : invoke(call)
  }
  // The definition stays the same while the tool is suspended, so that an earlier call can be resumed afterwards.
  const refuse = () => {
    throw refusal(suspended ?? '', offered.entry?.kind === 'skill' ? 'skill' : 'tool')
  }
  return defined({
    id,
    name: functionNameOf(toolkit, naming.local),
    title: title === undefined || title.trim() === '' ? undefined : title.toWellFormed(),
    catalogId: catalogIdOf(source.kind, {
      ...catalogNames(naming),
      safetyTier: policy.safetyTier,
      vendor: source.vendor ?? (source.kind === 'host-extension' ? toolkit : vendor),
    }),
    description: firstText(description, title, nativeName),
    input: inputSchema,
    output: outputSchema,
    ...tagsOf(offered),
    requirements,
    policy,
    session: session && suspended !== undefined ? { ...session, open: refuse } : session,
    run: suspended === undefined ? run : refuse,
  })
}

function idOf({ toolkit, local, version }: Naming): string {
  return `${toolkit}.${local}@${version}`
}

/** A catalog id names the source of a tool even if the tool's id does not. */
export function catalogNames({ toolkit, local, nativeName, keptFrom }: Naming) {
  if (keptFrom === undefined) return { toolkit, nativeName, local }
  return { toolkit: keptFrom.toolkit, nativeName, local: `${toolkit}_${local}` }
}

const MAX_TAGS = 20
const MAX_TAG_LENGTH = 64

/** Tags as selectors write them, without spaces: `User management` is `User-management`. */
export function tagsOf({ tags = [] }: Pick<OfferedTool, 'tags'>): { readonly tags?: readonly string[] } {
  const words = tags.map((tag) =>
    tag
      .trim()
      .replaceAll(/[^\p{L}\p{N}._-]+/gu, '-')
      .slice(0, MAX_TAG_LENGTH),
  )
  const found = [...new Set(words.filter((word) => word !== ''))].slice(0, MAX_TAGS)
  return found.length === 0 ? {} : { tags: found }
}

/** The error for a call to a suspended tool. Nothing was sent, so the call may be repeated once an operator has decided (rule 9). */
function refusal(why: string, noun: 'tool' | 'skill'): Error {
  const subject = noun === 'skill' ? 'This skill is suspended: ' : 'This tool is suspended: '
  const message = `${subject}${why}. Nothing was sent. An operator must accept the change before it can be called again.`
  const developerMessage = 'Show the change with `collet pins diff`; accept it with `collet pins accept`.'
  return fault('upstream_failed', message, { canRetry: true, developerMessage })
}

function isInput(input: unknown): input is JsonObject {
  return typeof input === 'object' && input !== null && !Array.isArray(input)
}

/** Ensures that a description is never empty (OTC-26). */
function firstText(...texts: readonly (string | undefined)[]): string {
  return texts.find((text) => text !== undefined && text.trim() !== '')?.toWellFormed() ?? 'No description.'
}

/** Reports parameters without a description (OTC-32); an imported tool is served nevertheless. */
function reportUndescribed({ inputSchema: { properties } }: Tool, report: Report): void {
  const missing = Object.entries(isJsonObject(properties) ? properties : {})
    .filter(([, parameter]) => !isJsonObject(parameter) || typeof parameter.description !== 'string')
    .map(([name]) => name)
  if (missing.length === 0) return
  const names = missing.slice(0, 5).join(', ') + (missing.length > 5 ? ', …' : '')
  report(
    'input',
    `${missing.length} of its parameters have no description: ${names}.`,
    "Ask the tool's author to add them; the tool is served as it is.",
  )
}

/** The grammar sets no limit, but lists must stay readable. */
const MAX_LOCAL_LENGTH = 128
const MAX_FUNCTION_NAME_LENGTH = 64
const MAX_CATALOG_ID_LENGTH = 256
/** Length of `_` or `-` and eight digits. */
const SUFFIX = 9

export function toolkitOf(sourceKey: string): string {
  return plain(sourceKey)
}

/**
 * The names that tools get in their ids: characters that are not allowed become `_`, and a name that is taken gets `_` and eight
 * digits of its native name's hash. Assigned names never change. Among new tools, those whose native name needs no change come
 * first, then code unit order decides, so that every process assigns the same names.
 */
export function assignLocalNames(
  nativeNames: readonly string[],
  assigned: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const names = new Map(assigned)
  const taken = new Set(assigned.values())
  const { same = [], changed = [] } = Object.groupBy(nativeNames, (name) =>
    plain(name) === name ? 'same' : 'changed',
  )
  for (const native of [...same.sort(), ...changed.sort()]) {
    if (names.has(native)) continue
    const local = freeName(native, taken)
    taken.add(local)
    names.set(native, local)
  }
  return names
}

/** The name of an entry without its kind: the prompt `prompt/summary` of `Docs` is `Docs_summary`. */
function entryName({ toolkit, local }: Naming, kind: EntryKind): string {
  return functionNameOf(toolkit, local.startsWith(`${kind}_`) ? local.slice(kind.length + 1) : local)
}

/** Function name for models: `Toolkit_Name` within 64 characters. */
export function functionNameOf(toolkit: string, local: string): string {
  return shortenTo(`${toolkit}_${local}`, MAX_FUNCTION_NAME_LENGTH, '_')
}

/** The first part of the catalog ids of each source's tools (openwop §7.1). */
const CATALOG_PREFIXES = {
  'node-pack': 'openwop',
  workflow: 'workflow',
  mcp: 'mcp',
  connector: 'connector',
} satisfies Record<Exclude<SourceKind, 'host-extension'>, string>

interface CatalogNames extends Pick<Naming, 'toolkit' | 'nativeName' | 'local'> {
  readonly vendor: string
  readonly safetyTier?: SafetyTier | undefined
}

/** A tool of tier `exec` is a host extension, whatever its source (OWP-31). */
export function catalogIdOf(
  kind: SourceKind,
  { toolkit, nativeName, local, vendor, safetyTier }: CatalogNames,
): string {
  const id =
    kind === 'host-extension'
      ? `x-host-${vendorLabel(vendor)}-${label(local)}`
      : safetyTier === 'exec'
        ? hostExtensionId(vendorLabel(vendor), toolkit, local)
        : `${CATALOG_PREFIXES[kind]}:${toolkit}.${encode(nativeName)}`
  return shortenTo(id, MAX_CATALOG_ID_LENGTH, '-')
}

function freeName(native: string, taken: ReadonlySet<string>): string {
  const wanted = shortenTo(plain(native), MAX_LOCAL_LENGTH, '_', native)
  if (!taken.has(wanted)) return wanted
  for (let round = 0; ; round += 1) {
    const digits = shortHash(round === 0 ? native : `${native}\0${round}`)
    const name = `${wanted.slice(0, MAX_LOCAL_LENGTH - SUFFIX)}_${digits}`
    if (!taken.has(name)) return name
  }
}

function plain(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_]/gu, '_') || '_'
}

/** Shortens a long text and appends eight digits of its hash, so that different texts stay different. */
function shortenTo(text: string, maxLength: number, join: '_' | '-', whole = text): string {
  if (text.length <= maxLength) return text
  return `${text.slice(0, maxLength - SUFFIX).replace(/%.?$/, '')}${join}${shortHash(whole)}`
}

/** Percent-encodes characters that catalog ids cannot contain. */
function encode(native: string): string {
  return native.toWellFormed().replaceAll(/[^A-Za-z0-9._/-]/gu, encodeCharacter) || '_'
}

function encodeCharacter(character: string): string {
  return Buffer.from(character).toString('hex').toUpperCase().replaceAll(/../g, '%$&')
}

/** A vendor that is a valid label stays as it was written. */
function vendorLabel(vendor: string): string {
  return /^[a-z][a-z0-9-]*$/.test(vendor) ? vendor : label(plain(vendor))
}

/** A label in a host extension's id: lower-case letters, digits and `-`, with a hash if other characters were lost. */
function label(text: string): string {
  const made = text.toLowerCase().replaceAll('_', '-')
  if (/^[a-z][a-z0-9_]*$/.test(text)) return made
  return `${/^[a-z]/.test(made) ? '' : 'x'}${made}-${shortHash(text)}`
}
