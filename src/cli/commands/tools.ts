import { LIST_TOOLSETS, type Toolset } from '#admin-api/tools'
import { AdminClient, type AdminOption, adminOptions, isServerNamed } from '#cli/admin-client'
import { type Arguments, type CommandContext, defineCommand, UsageError } from '#cli/command'
import { type Columns, printRows } from '#cli/operator-command'
import { renderTable } from '#cli/output'
import { hasStore, isStoreAlone, loadProject } from '#cli/store-access'
import { TOOL_OPTIONS, ToolReader } from '#cli/tools/read-tools'
import { toolLines } from '#cli/tools/tool-lines'
import { types } from '#cli/tools/write-types'
import { ConfigError } from '#config/load'
import { cleanText } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import {
  type Condition,
  FILTERS,
  type FoundTool,
  type ListedRequirement,
  ORDERS,
  requirementsOf,
  SearchableTools,
  type ToolFilters,
  type ToolListing,
} from '#kernel/tool/listing'
import { createToolsetRoutes, listToolsets, type ToolsetParts } from '#server/admin/tools'
import { findKnownTools } from '#server/known-tools'
import type { Store } from '#store/collet-store'

/**
 * `collet tools`, `tools show`, `toolsets`, and `types` of `tools/write-types.ts`: lists and searches the tools of a running server, or of the config and
 * the store. The console uses the same search (`SearchableTools`). Invariant: a filter value that does not exist is an
 * error with a suggestion, not an empty list.
 */

/** Columns to drop on a narrow terminal, in this order, until the table fits. */
const DROP_ORDER = [[], ['NAME', 'CATALOG ID'], ['SOURCE'], ['NEEDS'], ['APPROVAL']] as const
const OTHER_NAMES: ReadonlySet<string> = new Set(['NAME', 'CATALOG ID'])
const ALWAYS_SHOWN: ReadonlySet<string> = new Set(['TOOL', 'TIER', 'DESCRIPTION'])
const CALL_COUNT_PERIOD_MS = 86_400_000
const NO_TOOLS =
  'There are no tools. Write one (collet init) or import some (collet import); the tools of a new source appear once "collet serve" has read them.'

const tools = defineCommand<keyof typeof TOOL_OPTIONS | keyof ToolFilters | 'toolset' | 'sort' | 'search'>({
  name: 'tools',
  summary: 'Lists the tools of a running server, or of the config and the store; words filter the list.',
  details: [
    'It asks the running server of this config. If none runs, it loads the config, shows what is wrong with its tools, and lists tools of',
    'sources as they were last accepted. TOOL, NAME and CATALOG ID are names of the same tool: you can call it by any of them. TIER is the',
    'most that a call can do, APPROVAL whether a person has to approve it first, NEEDS what it uses besides its input, CONDITION its most',
    'serious problem. On a terminal, empty columns are left out; if the table is still too wide, NAME and CATALOG ID are too, then SOURCE,',
    'NEEDS and APPROVAL. A pipe or a file gets every column but NAME and CATALOG ID; --json prints everything.',
  ],
  positionals: [
    {
      name: 'WORDS',
      optional: true,
      many: true,
      help: 'Words that must occur in the names, purpose, tags or fields of a tool.',
    },
  ],
  options: {
    source: { value: 'S', help: 'Only tools from these sources or toolkits, separated by commas.' },
    tier: { value: 'T', help: `Only tools of these tiers: ${FILTERS.tier.join(', ')}.` },
    approval: { value: 'A', help: `Only tools with this approval: ${FILTERS.approval.join(', ')}.` },
    needs: { value: 'N', help: `Only tools that need this: ${FILTERS.needs.join(', ')}.` },
    health: { value: 'H', help: `Only tools in this condition: ${FILTERS.health.join(', ')}.` },
    sort: {
      value: 'BY',
      help: `Order: ${ORDERS.join(', ')} (of the last day). Default: best match first; without words, name.`,
    },
    search: {
      value: 'TEXT',
      help: 'Only tools that match a task in your own words, best first, ranked as for models (docs/search.md).',
    },
    toolset: { value: 'NAME', help: 'Only the tools of this toolset.' },
    ...TOOL_OPTIONS,
  },
  examples: [
    'collet tools',
    'collet tools --search "tell the team about the release"',
    'collet tools send mail --tier write,exec',
    'collet tools --needs missing --json',
    'collet tools --url http://127.0.0.1:4100 --toolset crm',
  ],
  async run(args, context) {
    const { output, json, clock } = context
    const reader = new ToolReader(args, context)
    const listing = await reader.list(args.text('toolset'))
    const order = args.oneOf('sort', ORDERS)
    const since = new Date(clock.nowMs() - CALL_COUNT_PERIOD_MS)
    const listed = new SearchableTools(listing).find({
      text: args.positionals.join(' '),
      filters: readFilters(args, listing),
      order,
      calls: order === 'calls' ? await reader.calls(since) : undefined,
    })
    const asked = args.text('search')
    const searched = asked === undefined ? undefined : await reader.search(asked, args.text('toolset'))
    const found = searched === undefined ? listed : inOrder(listed, searched.found)
    if (json) output.json(found.map((each) => toolJson(each, listing)))
    else if (found.length === 0)
      output.note(listing.tools.length === 0 ? NO_TOOLS : noMatch(searched?.families ?? []))
    else for (const line of renderTools(found, listing, output.width)) output.data(line)
    if (reader.unread.length > 0) output.note(notListed(reader.unread))
  },
})

/** The tools that a search found, in its order, if the filters let them through. */
function inOrder(
  listed: readonly FoundTool[],
  found: readonly { readonly id: string }[],
): readonly FoundTool[] {
  const byId = new Map(listed.map((each) => [each.tool.id, each]))
  return found.flatMap(({ id }) => byId.get(id) ?? [])
}

function noMatch(families: readonly { readonly name: string; readonly count: number }[]): string {
  if (families.length === 0) return 'No tool matches.'
  const shown = families.slice(0, MAX_FAMILIES).map(({ name, count }) => `${name} (${count})`)
  const more = families.length > MAX_FAMILIES ? ` and ${families.length - MAX_FAMILIES} more groups` : ''
  return `No tool matches. There are tools of ${shown.join(', ')}${more}.`
}

const MAX_FAMILIES = 12

/** Only a server opens sources, so their tools are unknown before its first start. */
function notListed(sources: readonly string[]): string {
  const one = sources.length === 1
  return `The tools of ${one ? 'the source' : 'the sources'} ${listed(sources)} are not listed, because no server has read ${one ? 'it' : 'them'} yet. Run "collet serve"; then "collet sources" shows ${one ? 'its' : 'their'} state.`
}

/** Throws a usage error if a filter has an unknown value. */
function readFilters(args: Arguments<keyof ToolFilters>, { tools: all }: ToolListing): ToolFilters {
  const choices = { ...FILTERS, source: [...new Set(all.map(({ source }) => source))] }
  const read = (name: keyof ToolFilters): readonly string[] => {
    const words = (args.text(name) ?? '').split(',').filter((word) => word !== '')
    const known: readonly string[] = choices[name]
    const wrong = words.find((word) => !known.includes(word))
    if (wrong === undefined) return words
    const list = name === 'source' ? '' : ` Choices: ${known.join(', ')}.`
    throw new UsageError(`--${name}: there is no "${wrong}".${didYouMean(wrong, known)}${list}`)
  }
  return {
    source: read('source'),
    tier: read('tier'),
    approval: read('approval'),
    needs: read('needs'),
    health: read('health'),
  }
}

function toolJson({ tool, condition }: FoundTool, listing: ToolListing) {
  return {
    ...tool,
    id: `${tool.id}@${tool.version}`,
    needs: requirementsOf(tool, listing),
    condition: condition ?? null,
  }
}

const COLUMNS: Readonly<Record<string, (found: FoundTool, listing: ToolListing) => string>> = {
  TOOL: ({ tool: { id, version } }) => (version === '' ? id : `${id}@${version}`),
  NAME: ({ tool }) => tool.name,
  'CATALOG ID': ({ tool }) => tool.catalog_id,
  SOURCE: ({ tool }) => tool.kind,
  TIER: ({ tool }) => tool.tier,
  APPROVAL: ({ tool }) => tool.approval ?? '',
  NEEDS: ({ tool }, listing) =>
    requirementsOf(tool, listing)
      .map(({ kind, id }) => (kind === 'scope' ? `scope ${id}` : id))
      .join(', '),
  CONDITION: ({ condition }) => (condition === undefined ? '' : conditionText(condition)),
  // Servers from other vendors may send descriptions of several lines.
  DESCRIPTION: ({ tool }) => cleanText(tool.description.split('\n', 1)[0]?.trim() ?? ''),
}

function conditionText(condition: Condition): string {
  switch (condition.kind) {
    case 'unavailable':
    case 'degraded':
      return condition.source.since === null
        ? condition.kind
        : `${condition.kind} since ${condition.source.since.slice(0, 16).replace('T', ' ')}`
    case 'held':
      return `change held, ${condition.change.class}`
    case 'missing':
      if (condition.requirement.kind === 'scope') return `no caller has ${condition.requirement.id}`
      return `${condition.requirement.id} ${MISSING[condition.requirement.state]}`
    case 'deprecated':
      return 'deprecated'
  }
}

const MISSING = {
  met: 'available',
  missing: 'missing',
  spent: 'has expired',
  scopes: 'lacks scopes',
  per_user: 'needed from each user',
} as const satisfies Record<ListedRequirement['state'], string>

function renderTools(
  found: readonly FoundTool[],
  listing: ToolListing,
  width: number | undefined,
): readonly string[] {
  const columns = Object.entries(COLUMNS).map(([heading, cellOf]) => {
    const cells = found.map((each) => cellOf(each, listing) || '-')
    return { heading, cells, isEmpty: cells.every((cell) => cell === '-') }
  })
  const table = (isKept: (column: (typeof columns)[number]) => boolean): readonly string[] => {
    const kept = columns.filter(isKept)
    const rows = found.map((_, row) => kept.map(({ cells }) => cells[row] ?? ''))
    return renderTable(
      kept.map(({ heading }) => heading),
      rows,
      width,
    )
  }
  // A pipe or a file always gets the same columns, without the other names of a tool; `--json` has everything.
  if (width === undefined)
    return table(({ heading, isEmpty }) => !OTHER_NAMES.has(heading) && (heading !== 'CONDITION' || !isEmpty))
  const dropped = new Set<string>()
  let shown: readonly string[] = []
  for (const headings of DROP_ORDER) {
    for (const heading of headings) dropped.add(heading)
    shown = table(({ heading, isEmpty }) => !dropped.has(heading) && (ALWAYS_SHOWN.has(heading) || !isEmpty))
    if (shown.every((line) => line.length <= width)) break
  }
  return shown
}

const show = defineCommand<keyof typeof TOOL_OPTIONS | 'version'>({
  name: 'tools show',
  summary: 'Shows one tool: its description and policy, input, required credentials, and names.',
  details: [
    'Asks the running server, or reads config and store, as collet tools does. --json has everything: schemas, policy, the',
    'change that is held, and the tool in the formats in which models get it: MCP, OpenAI and Anthropic.',
  ],
  positionals: [{ name: 'TOOL', help: 'Any of its names, with or without a version: @1.2.3.' }],
  options: {
    version: { value: 'V', help: 'Version to show. Default: the newest.' },
    ...TOOL_OPTIONS,
  },
  examples: ['collet tools show Mail.Send', 'collet tools show Mail_Send --version 1.0.0 --json'],
  async run(args, context) {
    const { output, json } = context
    const [name = ''] = args.positionals
    const tool = await new ToolReader(args, context).show(name, args.text('version'))
    if (json) output.json(tool)
    else for (const line of toolLines(tool)) output.sentence(cleanText(line))
  },
})

const TOOLSET_COLUMNS: Columns<Toolset> = {
  TOOLSET: ({ name }) => name,
  TOOLS: ({ tools: all }) => all.length,
  AT: ({ path }) => path,
  KEYS: ({ keys }) => listed(keys),
  ROLES: ({ roles }) => listed(roles),
  DESCRIPTION: ({ description }) => description ?? '',
}
const NO_TOOLSETS =
  "There are no toolsets. Write some into the config: toolsets: { crm: { include: ['Crm.*'] } }"

const toolsets = defineCommand<AdminOption>({
  name: 'toolsets',
  summary:
    'Lists the toolsets of the config: how many tools each has, where it is served, and who is limited to it.',
  details: [
    'Without --url it looks at the config and the store: tools of sources count as they were last accepted.',
    'KEYS and ROLES are limited to the toolset; all other callers may use it as far as their scopes allow. --json lists the tools too.',
  ],
  options: adminOptions('admin:keys'),
  examples: ['collet toolsets', 'collet toolsets --json', 'collet tools --toolset crm'],
  async run(args, context) {
    const found = await askToolsets(args, context)
    printRows(found, { columns: TOOLSET_COLUMNS, empty: NO_TOOLSETS, fitsTerminal: true }, context)
  },
})

async function askToolsets(
  args: Arguments<AdminOption>,
  context: CommandContext,
): Promise<readonly Toolset[]> {
  if (isStoreAlone(args)) {
    const message = 'Toolsets are in the config. Leave --store out, or name its --config too.'
    throw new ConfigError([{ severity: 'error', message }])
  }
  if (!isServerNamed(args) && !(await hasStore(args, context))) {
    const parts = await partsOf(undefined)
    return listToolsets(parts, parts.apiKeys)
  }
  const client = new AdminClient(args, context, {
    async onStore({ store, access }) {
      const parts = await partsOf(store)
      return createToolsetRoutes(access, store.keys, () => parts)
    },
  })
  return (await client.ask(LIST_TOOLSETS)).toolsets

  async function partsOf(store: Store | undefined): Promise<ToolsetParts> {
    const { loaded, tools: own } = await loadProject(args.text('config'), context)
    const { toolsets: written, auth } = loaded.config
    const { tools } = await findKnownTools(loaded.config, own, store)
    return {
      tools,
      toolsets: new Map(Object.entries(written)),
      roles: new Map(Object.entries(auth.roles)),
      apiKeys: auth.apiKeys,
    }
  }
}

const MAX_NAMED = 3

/** Limits how many names a cell shows. */
function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMED
  return [...names.slice(0, MAX_NAMED), ...(more > 0 ? [`and ${more} more`] : [])].join(', ')
}

export const COMMANDS = [tools, show, toolsets, types]
