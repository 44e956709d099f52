import { LATEST, parseToolName, plainVersion } from '#kernel/base/ids'
import { didYouMean } from '#kernel/base/nearest-name'
import type { Principal } from '#kernel/base/principal'
import { sharedNameHint } from './shared-names.ts'
import { POLICY_FIELDS, type SafetyTier, type Tool } from './tool.ts'

/**
 * Toolsets, and the selectors that choose tools for toolsets, for keys' allow-lists and for overrides (docs/toolsets.md). The
 * catalog and the config check use it. A selector that selects nothing is reported as an error, and is never a wildcard.
 */

/** A named part of the catalog, as an operator describes it. */
export interface Toolset {
  readonly description?: string | undefined
  /** Selectors of the tools that are included, unless `exclude` selects them too. */
  readonly include: readonly string[]
  /** Selectors of the tools that are left out. */
  readonly exclude: readonly string[]
  /** The highest tier that its tools may have; absent = any tier. */
  readonly tier?: SafetyTier | undefined
  /** `native`: MCP clients at its address use the names of the sources, without prefixes. */
  readonly names?: 'native' | undefined
  /** `search`: MCP clients at its address search for tools instead of listing them; absent = the server's setting. */
  readonly discovery?: Discovery | undefined
  /** Selectors of tools that are listed even then; absent = the server's setting. */
  readonly favourites?: readonly string[] | undefined
}

export const DISCOVERIES = ['list', 'search'] as const
export type Discovery = (typeof DISCOVERIES)[number]

/** How MCP clients at the address of a toolset get its tools; absent members follow the server's settings. */
export type ShownTools = Pick<Toolset, 'names' | 'discovery' | 'favourites'>

export function shownTools({ names, discovery, favourites }: ShownTools = {}): ShownTools {
  return { names, discovery, favourites }
}

export function isShownAlike(left: ShownTools, right: ShownTools): boolean {
  return JSON.stringify(shownTools(left)) === JSON.stringify(shownTools(right))
}

export type Toolsets = ReadonlyMap<string, Toolset>

export const NO_TOOLSETS: Toolsets = new Map()

/** Prefix that selects a whole toolset in the list of tools that a key may use. */
export const TOOLSET_PREFIX = 'toolset:'

const TIERS: readonly SafetyTier[] = POLICY_FIELDS.safetyTier.choices

/** The members of a tool that selectors read. */
export interface SelectableTool
  extends Pick<Tool, 'parts' | 'name' | 'writtenName' | 'nativeName' | 'catalogId' | 'tags' | 'keptFrom'> {
  readonly policy: Pick<Tool['policy'], 'safetyTier'>
}

/** The toolkit of a tool's source: the toolkit in its id, unless the tool keeps its upstream's id. */
export function sourceToolkit({ parts, keptFrom }: Pick<Tool, 'parts' | 'keptFrom'>): string {
  return keptFrom?.toolkit ?? parts.toolkit
}

export function isInToolset(toolset: Toolset, tool: SelectableTool): boolean {
  const known = TESTS.get(toolset)
  if (known !== undefined) return known(tool)
  const test = testOf(toolset)
  TESTS.set(toolset, test)
  return test(tool)
}

type Test = (tool: SelectableTool) => boolean

/** Selectors are parsed only once, because thirty toolsets may be checked against ten thousand tools. */
const TESTS = new WeakMap<Toolset, Test>()

function testOf({ include, exclude, tier }: Toolset): Test {
  const [included, excluded] = [include.map(selectorTest), exclude.map(selectorTest)]
  const highest = tier === undefined ? TIERS.length : TIERS.indexOf(tier)
  return (tool) => {
    if (TIERS.indexOf(tool.policy.safetyTier) > highest) return false
    return included.some((test) => test(tool)) && !excluded.some((test) => test(tool))
  }
}

/** The lists that restrict a principal besides its scopes: a tool must be selected by each list. */
export function allowLists({ tools, toolsets, toolset }: Principal): readonly (readonly string[])[] {
  return [
    ...(tools === undefined ? [] : [tools]),
    ...(toolsets === undefined ? [] : [toolsets.map((name) => TOOLSET_PREFIX + name)]),
    ...(toolset === undefined ? [] : [[TOOLSET_PREFIX + toolset]]),
  ]
}

const KINDS = ['source', 'tag', 'toolset'] as const

type Selector =
  | { readonly kind: 'name'; readonly base: string; readonly version: string }
  | { readonly kind: 'names' | (typeof KINDS)[number]; readonly pattern: string }

const MAX_SELECTOR_LENGTH = 300

/** Parses a selector; `undefined` for a text that cannot select anything. */
export function readSelector(text: string): Selector | undefined {
  if (text === '' || text.length > MAX_SELECTOR_LENGTH || /\s/.test(text)) return undefined
  const kind = KINDS.find((word) => text.startsWith(`${word}:`))
  if (kind !== undefined) {
    const pattern = text.slice(kind.length + 1)
    return pattern === '' ? undefined : { kind, pattern }
  }
  if (text.includes('*')) return { kind: 'names', pattern: text }
  const ref = parseToolName(text)
  return ref === undefined ? undefined : { kind: 'name', base: ref.base, version: ref.version }
}

/** Whether a selector, which may name a toolset, selects this tool. An unknown toolset has no tools. */
export function selectsIn(toolsets: Toolsets, text: string, tool: SelectableTool): boolean {
  if (!text.startsWith(TOOLSET_PREFIX)) return selects(text, tool)
  const toolset = toolsets.get(text.slice(TOOLSET_PREFIX.length))
  return toolset !== undefined && isInToolset(toolset, tool)
}

/** Whether a selector that names no toolset selects this tool. */
export function selects(text: string, tool: SelectableTool): boolean {
  return selectorTest(text)(tool)
}

const SELECTS_NOTHING: Test = () => false

function selectorTest(text: string): Test {
  const selector = readSelector(text)
  if (selector === undefined || selector.kind === 'toolset') return SELECTS_NOTHING
  if (selector.kind === 'name') {
    const { base, version } = selector
    return ({ parts, name, catalogId }) =>
      (parts.base === base || name === base || catalogId === base) && isVersion(version, parts.version)
  }
  const { kind, pattern } = selector
  const matches = globTest(pattern)
  if (kind === 'source') return (tool) => matches(sourceToolkit(tool))
  if (kind === 'tag') return ({ tags = [] }) => tags.some(matches)
  const spell = pattern.includes('@')
    ? (name: string, version: string) => `${name}@${version}`
    : (name: string) => name
  return ({ parts: { base, version }, name, catalogId }) =>
    matches(spell(base, version)) || matches(spell(name, version)) || matches(spell(catalogId, version))
}

function isVersion(asked: string, version: string): boolean {
  return asked === LATEST || asked === plainVersion(version)
}

/** `*` matches any characters. It uses no regular expression, because patterns are matched against names from other parties. */
export function matchesGlob(name: string, pattern: string): boolean {
  return globTest(pattern)(name)
}

function globTest(pattern: string): (name: string) => boolean {
  const [first = '', ...middle] = pattern.split('*')
  const last = middle.pop()
  if (last === undefined) return (name) => name === pattern
  return (name) => {
    if (!name.startsWith(first) || !name.endsWith(last)) return false
    let from = first.length
    for (const part of middle) {
      const at = name.indexOf(part, from)
      if (at === -1) return false
      from = at + part.length
    }
    return name.length - last.length >= from
  }
}

/** Everything that selectors may name. */
export interface Selectable {
  readonly tools: readonly SelectableTool[]
  /** Keys of sources, including those whose tools are not loaded yet. */
  readonly sources: readonly string[]
  readonly toolsets: Toolsets
}

/** Why a selector selects nothing, with a suggestion; `undefined` if it selects a tool. */
export function selectorProblem(text: string, known: Selectable): string | undefined {
  const selector = readSelector(text)
  const quoted = JSON.stringify(text)
  if (selector === undefined) return `${quoted} is neither a tool name nor a pattern. ${FORMS}`
  if (selector.kind === 'toolset') {
    const names = [...known.toolsets.keys()]
    if (names.includes(selector.pattern)) return undefined
    return `there is no toolset "${selector.pattern}".${didYouMean(selector.pattern, names)}`
  }
  if (known.tools.some((tool) => selects(text, tool))) return undefined
  if (selector.kind === 'source') {
    const names = [...new Set([...known.sources, ...known.tools.map(sourceToolkit)])]
    const isThere = names.some((name) => matchesGlob(name, selector.pattern))
    if (isThere) return `the source "${selector.pattern}" has no tools here yet.`
    return `there is no source "${selector.pattern}".${didYouMean(selector.pattern, names)}`
  }
  if (selector.kind === 'tag') {
    const tags = new Set(known.tools.flatMap(({ tags = [] }) => tags))
    return `no tool has the tag "${selector.pattern}".${didYouMean(selector.pattern, tags)}`
  }
  const names = known.tools.flatMap(({ parts, name, catalogId }) => [parts.base, name, catalogId])
  if (selector.kind === 'name') {
    const shared = sharedNameHint(selector.base, known.tools)
    const meant = shared === undefined ? didYouMean(text, names) : ` ${shared}`
    return `there is no tool ${quoted}.${meant}`
  }
  return `${quoted} matches no tool.${didYouMean(text, patternsLike(text, names))}`
}

export const FORMS =
  'Write a name such as "Mail.Send", a pattern such as "Mail.*", "source:KEY" or "tag:NAME".'

/** Maximum number of similar patterns: enough to find a misspelling, and few enough not to block in a large catalog. */
const MAX_SIMILAR = 2_000

/**
 * Replaces the pattern's longest piece with the text that names have at that position: `read*` and `writ*` for `reed*`,
 * `Text.*` for `Txt.*`. A dot is kept: without it the pattern would also match tools in other toolkits.
 */
export function patternsLike(pattern: string, names: Iterable<string>): ReadonlySet<string> {
  const pieces = pattern.split('*')
  const length = Math.max(...pieces.map((piece) => piece.length))
  const longest = pieces.findIndex((piece) => piece.length === length)
  const written = pieces[longest] ?? ''
  const isToolkit = longest === 0 && written.endsWith('.')
  const like = new Set<string>()
  for (const name of names) {
    if (isToolkit && name.includes('.'))
      like.add(pieces.with(0, name.slice(0, name.indexOf('.') + 1)).join('*'))
    const last = name.length - length
    const from = longest === pieces.length - 1 ? last : 0
    const to = longest === 0 ? 0 : last
    for (let at = Math.max(0, from); at <= to && like.size < MAX_SIMILAR; at += 1) {
      const piece = name.slice(at, at + length)
      const meant = pieces.with(longest, piece).join('*')
      if (piece.includes('.') === written.includes('.') && matchesGlob(name, meant)) like.add(meant)
    }
  }
  return like
}

interface UnusedSelector {
  /** Explanation for the operator. */
  readonly text: string
  /** The selector that has no effect; absent if a whole toolset is empty. */
  readonly selector?: string
}

/** Selectors and toolsets that select nothing. */
export function findUnused(
  toolsets: Toolsets,
  known: Omit<Selectable, 'toolsets'>,
): readonly UnusedSelector[] {
  return [...toolsets].flatMap(([name, toolset]) => {
    const { include, exclude, tier } = toolset
    const unused = Object.entries({ include, exclude }).flatMap(([where, selectors]) =>
      selectors.flatMap((selector) => {
        const problem = selectorProblem(selector, { ...known, toolsets: NO_TOOLSETS })
        if (problem === undefined || selector === '*') return []
        return [{ text: `toolsets.${name}.${where}: ${problem}`, selector }]
      }),
    )
    const isEmpty = known.tools.length > 0 && !known.tools.some((tool) => isInToolset(toolset, tool))
    if (!isEmpty || unused.length > 0) return unused
    const why =
      tier === undefined ? '' : ` None of the tools that it includes has the tier "${tier}" or a lower one.`
    return [{ text: `toolsets.${name}: has no tools.${why}` }]
  })
}
