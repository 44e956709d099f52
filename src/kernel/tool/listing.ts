/**
 * The tools of a server as people see them: the compact answer to `GET /admin/tools`, the condition of a tool, search, filters
 * and order. The console and `collet tools` share this module, so it imports nothing.
 */

export interface ToolListing {
  readonly tools: readonly ListedTool[]
  /** Sources of imported tools, by the toolkit of their ids. */
  readonly sources: Readonly<Record<string, ListedSource>>
  /** Everything that tools need besides their input; tools refer to these entries by position. */
  readonly requirements: readonly ListedRequirement[]
  /** Definitions that changed upstream and were not accepted, by tool id. */
  readonly changes: Readonly<Record<string, ListedChange>>
}

/** One tool, in its newest version. Absent members have their default: no tags, no needs, no approval. */
export interface ListedTool {
  /** `Toolkit.Name`. */
  readonly id: string
  readonly version: string
  /** All versions, newest first; absent if there is only one. */
  readonly versions?: readonly string[] | undefined
  /** Function name for models. */
  readonly name: string
  readonly catalog_id: string
  readonly title?: string | undefined
  /** The first sentence of the description. */
  readonly description: string
  /** Names of parameters, for search; possibly not all of them. */
  readonly fields?: readonly string[] | undefined
  /** The toolkit: for imported tools, the key of their source. */
  readonly source: string
  readonly kind: string
  readonly tags?: readonly string[] | undefined
  readonly tier: string
  readonly egress?: string | undefined
  /** Whether a person has to approve calls; absent means never. */
  readonly approval?: 'conditional' | 'always' | undefined
  /** An operator's rule decides which calls need approval; if absent, every call does. */
  readonly approval_rule?: true | undefined
  /** Positions in `requirements`. */
  readonly needs?: readonly number[] | undefined
  readonly toolsets?: readonly string[] | undefined
  /** Tenants that see the tool, for operators; absent means all tenants. */
  readonly tenants?: readonly string[] | undefined
  readonly deprecated?: true | undefined
}

export interface ListedSource {
  readonly type: string
  readonly state: 'starting' | 'ready' | 'degraded' | 'down'
  /** Start of this state; null if no server is running. */
  readonly since: string | null
  /** Reason for this state, for operators. */
  readonly reason: string | null
}

export interface ListedRequirement {
  readonly kind: 'oauth' | 'secret' | 'user' | 'scope'
  /** The provider, the name of the secret, or the scope; scopes are listed for operators. */
  readonly id: string
  readonly scopes: readonly string[]
  /**
   * State for the requesting principal. `missing`: there is no credential; `spent`: the provider refused to renew it; `scopes`:
   * it lacks scopes; `per_user`: each user has their own.
   */
  readonly state: 'met' | 'missing' | 'spent' | 'scopes' | 'per_user'
}

export interface ListedChange {
  readonly kind: 'addition' | 'change' | 'removal'
  readonly class: 'wording' | 'widening' | 'breaking' | 'suspicious'
  readonly since: string
  /** Calls are refused until an operator decides. */
  readonly suspended: boolean
  readonly rejected: boolean
}

/** The most serious condition of a tool. */
export type Condition =
  | { readonly kind: 'unavailable' | 'degraded'; readonly source: ListedSource }
  | { readonly kind: 'held'; readonly change: ListedChange }
  | { readonly kind: 'missing'; readonly requirement: ListedRequirement }
  | { readonly kind: 'deprecated' }

export type ListingFacts = Omit<ToolListing, 'tools'>

export function conditionOf(tool: ListedTool, listing: ListingFacts): Condition | undefined {
  const source = Object.hasOwn(listing.sources, tool.source) ? listing.sources[tool.source] : undefined
  if (source?.state === 'down') return { kind: 'unavailable', source }
  const change = Object.hasOwn(listing.changes, tool.id) ? listing.changes[tool.id] : undefined
  if (change?.suspended === true) return { kind: 'held', change }
  const requirement = requirementsOf(tool, listing).find(isUnmet)
  if (requirement !== undefined) return { kind: 'missing', requirement }
  if (change !== undefined && !change.rejected) return { kind: 'held', change }
  if (source?.state === 'degraded') return { kind: 'degraded', source }
  return tool.deprecated === true ? { kind: 'deprecated' } : undefined
}

export function requirementsOf(
  { needs = [] }: Pick<ListedTool, 'needs'>,
  { requirements }: Pick<ToolListing, 'requirements'>,
): readonly ListedRequirement[] {
  return needs.flatMap((position) => requirements[position] ?? [])
}

export function isUnmet({ state }: ListedRequirement): boolean {
  return state === 'missing' || state === 'spent' || state === 'scopes'
}

/** Filters and their choices; the choices of `source` are the listing's sources. */
export const FILTERS = {
  tier: ['pure', 'read', 'write', 'exec'],
  approval: ['never', 'conditional', 'always'],
  needs: ['nothing', 'missing', 'oauth', 'secret', 'user', 'scope'],
  health: ['fine', 'unavailable', 'degraded', 'held', 'deprecated'],
} as const

/** A tool is shown if it matches each filter that is set. */
export type ToolFilters = { readonly [Name in 'source' | keyof typeof FILTERS]?: readonly string[] }

export const ORDERS = ['name', 'source', 'tier', 'condition', 'calls'] as const
export type Order = (typeof ORDERS)[number]

export interface ToolQuery {
  /** Words, all of which must occur in a tool. */
  readonly text: string
  readonly filters: ToolFilters
  /** Absent means best match first or, without words, by name. */
  readonly order?: Order | undefined
  /** Number of calls by tool, for the order `calls`. */
  readonly calls?: ReadonlyMap<string, number> | undefined
}

/** A listing indexed for search at every keystroke. */
export class SearchableTools {
  readonly listing: ToolListing
  readonly #entries: readonly Entry[]
  /** The last search, which a longer one refines. */
  #last: { readonly words: string; readonly found: readonly Entry[] }

  constructor(listing: ToolListing, entries = listing.tools.map((tool) => entryOf(tool, listing))) {
    this.listing = listing
    this.#entries = entries.sort(byName)
    this.#last = { words: '', found: this.#entries }
  }

  /** Indexes a listing in parts with a pause before each, so that an open page stays responsive. */
  static async inParts(listing: ToolListing, pause: () => Promise<void>): Promise<SearchableTools> {
    const entries: Entry[] = []
    for (let from = 0; from < listing.tools.length; from += PART) {
      await pause()
      const part = listing.tools.slice(from, from + PART).map((tool) => entryOf(tool, listing))
      // Warms up the JIT so that the first keystroke is fast.
      rank(part, WARM_UP_WORDS)
      entries.push(...part)
    }
    await pause()
    return new SearchableTools(listing, entries)
  }

  find({ text, filters, order, calls }: ToolQuery): readonly FoundTool[] {
    const words = wordsIn(text)
    const containing = this.#containing(words)
    const wanted = isSet(filters)
      ? containing.filter(({ choices }) => failing(choices, filters).length === 0)
      : containing
    const ranked = words.length === 0 ? wanted : rank(wanted, words)
    // The sort is stable: equal tools stay in order of match, or of name.
    return order === undefined || (order === 'name' && words.length === 0)
      ? ranked
      : [...ranked].sort(comparing(order, calls))
  }

  /** Tools that contain every word, by name. The result of a longer search is a subset of the previous result. */
  #containing(words: readonly string[]): readonly Entry[] {
    const joined = words.join(' ')
    const { words: previous, found } = this.#last
    const candidates = joined.startsWith(previous) ? found : this.#entries
    const containing = candidates.filter(({ everything }) => words.every((word) => everything.includes(word)))
    this.#last = { words: joined, found: containing }
    return containing
  }

  /** How many tools each choice of each filter would show if the other filters and the words stay unchanged. */
  count({ text, filters }: Pick<ToolQuery, 'text' | 'filters'>): FilterCounts {
    const words = wordsIn(text)
    const counts = {
      source: new Map<string, number>(),
      tier: new Map<string, number>(),
      approval: new Map<string, number>(),
      needs: new Map<string, number>(),
      health: new Map<string, number>(),
    }
    for (const entry of this.#entries) {
      const failed = failing(entry.choices, filters)
      if (failed.length > 1 || !words.every((word) => entry.everything.includes(word))) continue
      // A tool that fails only one filter would be shown if that filter had another choice.
      for (const name of failed.length === 0 ? NAMES : failed)
        for (const choice of entry.choices[name])
          counts[name].set(choice, (counts[name].get(choice) ?? 0) + 1)
    }
    return counts
  }
}

/** Number of tools in a part; indexing them takes a few milliseconds. */
const PART = 1000
const WARM_UP_WORDS = ['e']

export type FilterCounts = Readonly<Record<keyof ToolFilters, ReadonlyMap<string, number>>>

export interface FoundTool {
  readonly tool: ListedTool
  readonly condition: Condition | undefined
}

interface Entry extends FoundTool {
  /** For each filter, every choice that matches the tool. */
  readonly choices: Readonly<Record<keyof ToolFilters, readonly string[]>>
  /** The searched texts, in lower case. */
  readonly id: string
  readonly local: string
  readonly spellings: string
  readonly words: readonly string[]
  readonly labels: string
  readonly fields: string
  readonly description: string
  /** All searched texts together, to reject most tools with one comparison. */
  readonly everything: string
}

function entryOf(tool: ListedTool, listing: ListingFacts): Entry {
  const condition = conditionOf(tool, listing)
  const { id, name, catalog_id, title = '', tags = [], fields = [], description } = tool
  const texts = {
    id: id.toLowerCase(),
    spellings: `${name} ${catalog_id}`.toLowerCase(),
    labels: [title, ...tags].join(' ').toLowerCase(),
    fields: fields.join(' ').toLowerCase(),
    description: description.toLowerCase(),
  }
  return {
    tool,
    condition,
    choices: {
      source: [tool.source],
      tier: [tool.tier],
      approval: [tool.approval ?? 'never'],
      needs: needChoices(requirementsOf(tool, listing)),
      health: healthChoices(tool, condition, listing),
    },
    ...texts,
    local: texts.id.slice(texts.id.indexOf('.') + 1),
    words: wordsOf(id),
    everything: Object.values(texts).join('\n'),
  }
}

function wordsIn(text: string): readonly string[] {
  return text.toLowerCase().match(/\S+/g) ?? []
}

/** Splits `Gmail.GetEmails` and `github.list_pull_requests` into words. */
function wordsOf(id: string): readonly string[] {
  const spaced = id.replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
  return spaced.toLowerCase().match(/[a-z0-9]+/g) ?? []
}

/** Sorts best matches first: an exact name, then names that start with the word, then all others. */
function rank(entries: readonly Entry[], words: readonly string[]): readonly Entry[] {
  const byScore = Map.groupBy(entries, (entry) => words.reduce((sum, word) => sum + scoreOf(entry, word), 0))
  return [...byScore].sort(([left], [right]) => right - left).flatMap(([, sameScore]) => sameScore)
}

/** Assumes that the tool contains the word. */
function scoreOf({ id, local, words, spellings, labels, fields, description }: Entry, word: string): number {
  if (local === word || id === word) return 100
  if (local.startsWith(word)) return 80
  if (words.some((part) => part === word)) return 70
  if (words.some((part) => part.startsWith(word))) return 60
  if (id.includes(word) || spellings.includes(word)) return 40
  if (labels.includes(word)) return 30
  if (startsWordIn(description, word)) return 20
  return fields.includes(word) ? 15 : 10
}

function startsWordIn(text: string, word: string): boolean {
  return text.startsWith(word) || text.includes(` ${word}`)
}

const NAMES: readonly (keyof ToolFilters)[] = ['source', 'tier', 'approval', 'needs', 'health']

function isSet(filters: ToolFilters): boolean {
  return NAMES.some((name) => (filters[name]?.length ?? 0) > 0)
}

function failing(choices: Entry['choices'], filters: ToolFilters): readonly (keyof ToolFilters)[] {
  return NAMES.filter((name) => {
    const set = filters[name]
    return set !== undefined && set.length > 0 && !choices[name].some((choice) => set.includes(choice))
  })
}

function needChoices(needed: readonly ListedRequirement[]): readonly string[] {
  if (needed.length === 0) return ['nothing']
  const kinds = new Set<string>(needed.map(({ kind }) => kind))
  return needed.some(isUnmet) ? [...kinds, 'missing'] : [...kinds]
}

/** All conditions of a tool, not only the most serious. A missing credential does not count as unhealthy. */
function healthChoices(
  tool: ListedTool,
  condition: Condition | undefined,
  { sources, changes }: ListingFacts,
): readonly string[] {
  const state = Object.hasOwn(sources, tool.source) ? sources[tool.source]?.state : undefined
  const all = [
    ...(state === 'down' ? ['unavailable'] : []),
    ...(state === 'degraded' ? ['degraded'] : []),
    ...(Object.hasOwn(changes, tool.id) ? ['held'] : []),
    ...(tool.deprecated === true ? ['deprecated'] : []),
  ]
  return all.length === 0 && (condition === undefined || condition.kind === 'missing') ? ['fine'] : all
}

function comparing(
  order: Order,
  calls: ReadonlyMap<string, number> | undefined,
): (left: Entry, right: Entry) => number {
  const comparisons: Record<Order, (left: Entry, right: Entry) => number> = {
    name: byName,
    source: (left, right) => compare(left.tool.source, right.tool.source),
    tier: (left, right) => TIERS.indexOf(right.tool.tier) - TIERS.indexOf(left.tool.tier),
    condition: (left, right) => weightOf(right) - weightOf(left),
    calls: (left, right) => (calls?.get(right.tool.id) ?? 0) - (calls?.get(left.tool.id) ?? 0),
  }
  return comparisons[order]
}

function byName(left: Entry, right: Entry): number {
  return compare(left.id, right.id)
}

function compare(left: string, right: string): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}

const TIERS: readonly string[] = FILTERS.tier

const WEIGHT: Record<Condition['kind'], number> = {
  deprecated: 1,
  degraded: 2,
  missing: 3,
  held: 4,
  unavailable: 5,
}

function weightOf({ condition }: Entry): number {
  return condition === undefined ? 0 : WEIGHT[condition.kind]
}
