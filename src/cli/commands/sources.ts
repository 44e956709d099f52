import {
  CHECK_SOURCE,
  type CheckedSource,
  LIST_SOURCES,
  REFRESH_SOURCE,
  REMOVE_SOURCE,
} from '#admin-api/sources'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { type Arguments, type CommandContext, defineCommand, EXIT, UsageError } from '#cli/command'
import { resolvePrefix } from '#cli/id-prefix'
import { SourceRegistry } from '#cli/import/registry'
import { type Columns, listCommand, operatorCommand, printRows } from '#cli/operator-command'
import { cleanText, type JsonObject } from '#kernel/base/json'
import { POLICY_FIELDS } from '#kernel/tool/tool'
import { countsText } from '#sources/kit/offer-counts'

/**
 * `collet sources`, `sources refresh|check|set|remove`: the sources of a running server. Invariant: a key may be
 * abbreviated, but an ambiguous abbreviation is refused.
 */

const SOURCE_OPTIONS = {
  ...adminOptions('admin:sources'),
  url: { value: 'U', help: 'Server to talk to. Default: COLLET_URL, or the address in the config.' },
} as const

const KEY = {
  id: 'source',
  name: 'KEY',
  help: 'The key that "collet sources" shows, or its first characters.',
} as const
const MAX_WARNINGS = 5

/** Only a server knows the state of its sources. */
const client = (args: Arguments<AdminOption>, context: CommandContext) => new AdminClient(args, context)

const sources = listCommand({
  name: 'sources',
  summary: 'Lists the sources that tools come from, and their state.',
  details: [
    'TOOLS counts what agents see; WAITING counts changed definitions that wait for an operator',
    '("collet pins list"). A source that is down keeps its tools, but calls to them fail until it answers again.',
  ],
  options: SOURCE_OPTIONS,
  examples: ['collet sources', 'collet sources --json'],
  client,
  operation: LIST_SOURCES,
  rows: ({ sources: found }) => found,
  columns: {
    SOURCE: ({ key }) => key,
    TYPE: ({ type }) => type,
    STATE: ({ state }) => state,
    TOOLS: ({ tools }) => tools,
    PROMPTS: ({ prompts }) => prompts || '',
    TEMPLATES: ({ templates }) => templates || '',
    SKILLS: ({ skills }) => skills || '',
    WAITING: ({ waiting }) => waiting || '',
    READ: ({ read_at: at }) => at ?? 'never',
    REASON: ({ reason }) => reason ?? '',
  },
  empty: 'There are no sources. Add one with "collet import", or under `sources` in the config.',
  fitsTerminal: true,
  note({ sources: found }, { output, context }) {
    for (const { key, warnings, left_out: leftOut } of context.json ? [] : found) {
      const all = [...warnings, ...leftOut.map(({ tool, problem, fix }) => `${tool}: ${problem} ${fix}`)]
      for (const warning of all.slice(0, MAX_WARNINGS)) output.warn(`${key}: ${cleanText(warning)}`)
      const more = all.length - MAX_WARNINGS
      if (more > 0) output.warn(`${key}: ${more} more; --json shows all.`)
    }
  },
})

const sourcesRefresh = operatorCommand({
  name: 'sources refresh',
  summary: 'Reads the tools of a source again.',
  details: [
    'It opens new connections and starts programs again; calls in progress finish undisturbed.',
    'Upstream changes wait for a decision: "collet pins list".',
  ],
  positionals: [KEY],
  options: SOURCE_OPTIONS,
  examples: ['collet sources refresh GitHub'],
  client,
  operation: REFRESH_SOURCE,
  json: ({ source }) => source ?? {},
  print({ source }, { output }) {
    if (source === null) return
    const { key, state, waiting, reason } = source
    const held = waiting === 0 ? '' : `, ${waiting} waiting for a decision: collet pins list`
    output.data(`${key} is ${state}: ${countsText(source)}${held}`)
    if (reason !== null) output.note(reason)
  },
  exit: ({ source }) => (source?.state === 'down' ? EXIT.toolFailed : EXIT.ok),
})

const STEP_COLUMNS: Columns<CheckedSource['steps'][number]> = {
  STEP: ({ step }) => step,
  RESULT: ({ state }) => state.replace('_', ' '),
  TOOK: ({ took_ms: took }) => (took === null ? '' : `${took} ms`),
  FOUND: ({ says }) => says,
}

const sourcesCheck = operatorCommand({
  name: 'sources check',
  summary: 'Diagnoses a source step by step: name, connection, certificate, handshake, list of tools.',
  details: [
    'The running server takes these steps; the command names the one that fails and what to do.',
    'It opens the source again, beside the one that is served; for that, a program is started a second time.',
  ],
  positionals: [KEY],
  options: SOURCE_OPTIONS,
  examples: ['collet sources check GitHub'],
  client,
  operation: CHECK_SOURCE,
  request: () => ({ isReadOnly: true }),
  waiting: 'Checking the source',
  print({ steps, advice }, { output, context }) {
    printRows(steps, { columns: STEP_COLUMNS, empty: '', fitsTerminal: true }, context)
    output.data(`Next step: ${cleanText(advice)}`)
  },
  exit: ({ ok }) => (ok ? EXIT.ok : EXIT.toolFailed),
})

const sourcesSet = defineCommand({
  name: 'sources set',
  summary: 'Changes the rules for the tools of an imported source.',
  details: [
    'Options that are not given stay unchanged. Servers on the same store notice within a second; the journal records who made the change.',
    'A source from the config has to be changed there.',
  ],
  positionals: [KEY],
  options: {
    trust: {
      value: 'T',
      help: 'MCP: trust the annotations of its tools (read-only, idempotent), or nothing.',
    },
    include: {
      value: 'NAME',
      many: true,
      help: 'Only these tools from now on; * stands for any characters, and * alone for all tools. May be repeated.',
    },
    exclude: { value: 'NAME', many: true, help: 'All but these tools from now on. May be repeated.' },
    approval: {
      value: '[TOOL=]WHEN',
      many: true,
      help: 'never, conditional or always, for all its tools or for one; default resets it. May be repeated.',
    },
    tier: {
      value: '[TOOL=]TIER',
      many: true,
      help: 'pure, read or write, for all its tools or for one; default resets it. May be repeated.',
    },
    'call-timeout': {
      value: '[TOOL=]SECONDS',
      many: true,
      help: 'Timeout of a call, for all its tools or for one; default resets it. May be repeated.',
    },
    timeout: { value: 'SECONDS', help: 'MCP: how long it may take to start.' },
    ...adminOptions('admin:sources'),
  },
  examples: [
    'collet sources set Files --trust annotations',
    'collet sources set Files --approval write_file=always --exclude move_file',
    "collet sources set GitHub --include 'issues_*' --timeout 90",
    'collet sources set Research --call-timeout 300 --call-timeout ping=5',
  ],
  async run(args, context) {
    const [typed = ''] = args.positionals
    const changes = readChanges(args)
    if (Object.keys(changes).length === 0)
      throw new UsageError(
        'Name what to change: --trust, --include, --exclude, --approval, --tier, --call-timeout or --timeout.',
      )
    const registry = new SourceRegistry(args, 'key', context)
    const taken = (await registry.find([])).taken.map((id) => ({ id, about: [] }))
    const isPrefix = taken.some(({ id }) => id.startsWith(typed))
    const key = isPrefix ? resolvePrefix(typed, taken, { noun: 'source', listedBy: 'collet sources' }) : typed
    const warnings = await registry.change(key, changes)
    if (context.json) context.output.json({ key, warnings })
    else {
      for (const warning of warnings) context.output.warn(cleanText(warning))
      context.output.done(`${key} is changed.`)
    }
  },
})

type ChangeOption = 'trust' | 'include' | 'exclude' | 'approval' | 'tier' | 'call-timeout' | 'timeout'

const MAX_SECONDS = 600
const EVERYTHING = '*'

/** The changes in the spelling of a source's options; `null` removes one. */
function readChanges(args: Arguments<ChangeOption>): JsonObject {
  const trust = args.oneOf('trust', ['nothing', 'annotations'])
  const include = args.texts('include')
  const exclude = args.texts('exclude')
  const seconds = args.integer('timeout', { min: 1, max: MAX_SECONDS })
  const terms = [
    ...args.texts('approval').map((text) => readTerm('approval', text, ['never', 'conditional', 'always'])),
    ...args.texts('tier').map((text) => readTerm('tier', text, ['pure', 'read', 'write'])),
    ...args.texts('call-timeout').map(readCallTimeout),
  ]
  const policy = joined(terms.flatMap(({ tool, term }) => (tool === undefined ? [term] : [])))
  const byTool = Map.groupBy(terms, ({ tool }) => tool)
  const tools = [...byTool].flatMap(([tool, terms]): [string, JsonObject][] =>
    tool === undefined ? [] : [[tool, joined(terms.map(({ term }) => term))]],
  )
  return {
    ...(trust === undefined ? {} : { trust }),
    ...(include.length === 0 ? {} : { include: include.includes(EVERYTHING) ? null : [...include] }),
    ...(exclude.length === 0 ? {} : { exclude: [...exclude] }),
    ...(seconds === undefined ? {} : { connectTimeoutMs: seconds * 1000 }),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
    ...(tools.length === 0 ? {} : { tools: Object.fromEntries(tools) }),
  }
}

function joined(terms: readonly JsonObject[]): JsonObject {
  return Object.fromEntries(terms.flatMap((term) => Object.entries(term)))
}

const DEFAULT = 'default'
const FIELDS = { approval: 'approval', tier: 'safetyTier' } as const

interface Term {
  /** `undefined` for all tools. */
  readonly tool: string | undefined
  readonly term: JsonObject
}

/** `always` applies to all tools, `write_file=always` to one. */
function readTerm(option: keyof typeof FIELDS, text: string, choices: readonly string[]): Term {
  const { tool, value } = splitTerm(text)
  if ((value !== DEFAULT && !choices.includes(value)) || tool === '')
    throw new UsageError(
      `--${option} expects ${[...choices, DEFAULT].join(', ')}, alone or as TOOL=…; got "${text}".`,
    )
  return { tool, term: { [FIELDS[option]]: value === DEFAULT ? null : value } }
}

function readCallTimeout(text: string): Term {
  const { tool, value } = splitTerm(text)
  const { min, max } = POLICY_FIELDS.timeoutMs
  const ms = /^\d+(\.\d+)?$/.test(value) ? Math.round(Number(value) * 1_000) : Number.NaN
  if ((value !== DEFAULT && !(ms >= min && ms <= max)) || tool === '')
    throw new UsageError(
      `--call-timeout expects seconds up to ${Math.floor(max / 1_000)}, or ${DEFAULT}, alone or as TOOL=…; got "${text}".`,
    )
  return { tool, term: { timeoutMs: value === DEFAULT ? null : ms } }
}

function splitTerm(text: string): { readonly tool: string | undefined; readonly value: string } {
  const cut = text.lastIndexOf('=')
  return { tool: cut === -1 ? undefined : text.slice(0, cut), value: text.slice(cut + 1) }
}

const sourcesRemove = operatorCommand({
  name: 'sources remove',
  summary: 'Removes an imported source and its tools.',
  details: [
    'Its pins are kept: importing the same source again does not accept what changed in the meantime.',
    'A source from the config has to be removed there.',
  ],
  positionals: [KEY],
  options: SOURCE_OPTIONS,
  examples: ['collet sources remove GitHub'],
  client,
  operation: REMOVE_SOURCE,
  print: ({ key }, { output }) =>
    output.note(`${key} is removed; servers on the same store notice within a second.`),
})

export const COMMANDS = [sources, sourcesRefresh, sourcesCheck, sourcesSet, sourcesRemove]
