import type { Source } from '#admin-api/sources'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import {
  type Arguments,
  type Command,
  type CommandContext,
  defineCommand,
  EXIT,
  UsageError,
} from '#cli/command'
import { resolveName } from '#cli/id-prefix'
import { SourceRegistry } from '#cli/import/registry'
import { counted, renderTable } from '#cli/output'
import { cleanText, type JsonObject } from '#kernel/base/json'
import { POLICY_FIELDS } from '#kernel/tool/tool'
import type { CheckedSource } from '#server/import/check-source'

/**
 * `collet sources`, `sources refresh|check|set|remove`: the sources of a running server. Invariant: a key may be
 * abbreviated, but an ambiguous abbreviation is refused.
 */

/** The state of a source is known only to the running server. */
const SOURCE_OPTIONS = {
  ...adminOptions('admin:sources'),
  url: { value: 'U', help: 'Server to talk to. Default: COLLET_URL, or the address of the config.' },
} as const

const KEY = {
  name: 'KEY',
  help: 'The source, as "collet sources" lists it, or its beginning.',
} as const
const HEADINGS = ['SOURCE', 'TYPE', 'STATE', 'TOOLS', 'WAITING', 'READ', 'WHY'] as const
const MAX_WARNINGS = 5

const sources = defineCommand<AdminOption>({
  name: 'sources',
  summary: 'Lists the sources that tools come from, and their state.',
  details: [
    'TOOLS counts what agents see; WAITING counts changed definitions that no operator has decided about yet',
    '("collet pins list"). A source that is down keeps its tools, but calls to them fail until it answers again.',
  ],
  positionals: [],
  options: SOURCE_OPTIONS,
  examples: ['collet sources', 'collet sources --json'],
  async run(args, context) {
    print(await listed(new AdminClient(args, context)), context)
    return EXIT.ok
  },
})

async function listed(client: AdminClient): Promise<readonly Source[]> {
  const { sources: found } = await client.request<{ readonly sources: readonly Source[] }>(
    { method: 'GET', path: '/admin/sources' },
    'sources',
  )
  return found
}

function print(rows: readonly Source[], { output, json }: CommandContext): void {
  if (json) {
    output.json(rows.map(shown))
    return
  }
  if (rows.length === 0) {
    output.note('There are no sources. Add one with "collet import", or under `sources` in the config.')
    return
  }
  for (const line of renderTable(HEADINGS, rows.map(cellsOf), output.width)) output.data(line)
  for (const { key, warnings, left_out: leftOut } of rows) {
    const said = [...warnings, ...leftOut.map(({ tool, problem, fix }) => `${tool}: ${problem} ${fix}`)]
    for (const warning of said.slice(0, MAX_WARNINGS)) output.warn(`${key}: ${cleanText(warning)}`)
    const more = said.length - MAX_WARNINGS
    if (more > 0) output.warn(`${key}: ${more} more; --json shows all.`)
  }
}

function cellsOf(row: Source): readonly string[] {
  return [
    row.key,
    row.type,
    row.state,
    String(row.tools),
    row.waiting === 0 ? '' : String(row.waiting),
    row.read_at ?? 'never',
    cleanText(row.reason ?? ''),
  ]
}

const sourcesRefresh = defineCommand<AdminOption>({
  name: 'sources refresh',
  summary: 'Reads the tools of a source again.',
  details: [
    'It opens new connections and starts programs again; calls in progress finish undisturbed.',
    'Upstream changes wait for a decision: "collet pins list".',
  ],
  positionals: [KEY],
  options: SOURCE_OPTIONS,
  examples: ['collet sources refresh GitHub'],
  async run(args, context) {
    const client = new AdminClient(args, context)
    const key = await resolveSourceKey(args, client)
    const path = `/admin/sources/${encodeURIComponent(key)}/refresh`
    const { source } = await client.request<{ readonly source: Source }>(
      { method: 'POST', path, body: {} },
      'source',
    )
    if (context.json) context.output.json(shown(source))
    else {
      const waiting =
        source.waiting === 0 ? '' : `, ${source.waiting} waiting for a decision: collet pins list`
      context.output.data(`${source.key} is ${source.state}: ${counted(source.tools, 'tool')}${waiting}`)
      if (source.reason !== null) context.output.note(source.reason)
    }
    return source.state === 'down' ? EXIT.toolFailed : EXIT.ok
  },
})

const sourcesCheck = defineCommand<AdminOption>({
  name: 'sources check',
  summary: 'Diagnoses a source step by step: name, connection, certificate, handshake, list of tools.',
  details: [
    'The running server takes these steps, and the command says which one fails and what to do.',
    'It opens the source again, beside the one that is served; for that, a program is started a second time.',
  ],
  positionals: [KEY],
  options: SOURCE_OPTIONS,
  examples: ['collet sources check GitHub'],
  async run(args, context) {
    const client = new AdminClient(args, context)
    const key = await resolveSourceKey(args, client)
    const path = `/admin/sources/${encodeURIComponent(key)}/check`
    const looking = client.request<CheckedSource>(
      { method: 'POST', path, body: {}, isQuestion: true },
      'steps',
    )
    const checked = await context.output.during(`Checking ${key}`, looking)
    if (context.json) context.output.json(checked)
    else {
      for (const line of renderTable(STEP_HEADINGS, checked.steps.map(stepCells), context.output.width))
        context.output.data(line)
      context.output.data(`Next step: ${cleanText(checked.advice)}`)
    }
    return checked.ok ? EXIT.ok : EXIT.toolFailed
  },
})

const STEP_HEADINGS = ['STEP', 'RESULT', 'TOOK', 'FOUND'] as const

function stepCells({ step, state, says, took_ms: took }: CheckedSource['steps'][number]): readonly string[] {
  return [step, state.replace('_', ' '), took === null ? '' : `${took} ms`, cleanText(says)]
}

const ID_KIND = { noun: 'source', listedBy: 'collet sources' } as const

async function resolveSourceKey(
  { positionals: [typed = ''] }: Arguments<AdminOption>,
  client: AdminClient,
): Promise<string> {
  return await resolveName(typed, async () => (await listed(client)).map(({ key }) => key), ID_KIND)
}

type SetOption =
  | AdminOption
  | 'trust'
  | 'include'
  | 'exclude'
  | 'approval'
  | 'tier'
  | 'call-timeout'
  | 'timeout'

const sourcesSet = defineCommand<SetOption>({
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
      help: 'MCP: believe what it says about the effects of its tools (annotations), or nothing.',
    },
    include: {
      value: 'NAME',
      many: true,
      help: 'Only these tools from now on; * stands for any characters, alone for all. May be repeated.',
    },
    exclude: { value: 'NAME', many: true, help: 'All but these tools from now on. May be repeated.' },
    approval: {
      value: '[TOOL=]WHEN',
      many: true,
      help: 'never, conditional or always, for all its tools or for one; default takes it back. May be repeated.',
    },
    tier: {
      value: '[TOOL=]TIER',
      many: true,
      help: 'pure, read or write, for all its tools or for one; default takes it back. May be repeated.',
    },
    'call-timeout': {
      value: '[TOOL=]SECONDS',
      many: true,
      help: 'How long a call may take, of all its tools or of one; default takes it back. May be repeated.',
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
        'Say what to change: --trust, --include, --exclude, --approval, --tier, --call-timeout or --timeout.',
      )
    const registry = new SourceRegistry(
      {
        url: args.text('url'),
        credential: args.text('key'),
        store: args.text('store'),
        config: args.text('config'),
      },
      context,
    )
    const key = await resolveName(typed, async () => (await registry.find([])).taken, ID_KIND)
    const warnings = await registry.change(key, changes)
    if (context.json) context.output.json({ key, warnings })
    else {
      for (const warning of warnings) context.output.warn(cleanText(warning))
      context.output.done(`${key} is changed.`)
    }
    return EXIT.ok
  },
})

const MAX_SECONDS = 600
const EVERYTHING = '*'

/** The changes in the spelling of a source's options; `null` removes one. */
function readChanges(args: Arguments<SetOption>): JsonObject {
  const trust = args.oneOf('trust', ['nothing', 'annotations'])
  const include = args.texts('include')
  const exclude = args.texts('exclude')
  const seconds = args.integer('timeout', { min: 1, max: MAX_SECONDS })
  const said = [
    ...args.texts('approval').map((text) => readTerm('approval', text, ['never', 'conditional', 'always'])),
    ...args.texts('tier').map((text) => readTerm('tier', text, ['pure', 'read', 'write'])),
    ...args.texts('call-timeout').map(readCallTimeout),
  ]
  const policy = joined(said.flatMap(({ tool, term }) => (tool === undefined ? [term] : [])))
  const byTool = Map.groupBy(said, ({ tool }) => tool)
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

const sourcesRemove = defineCommand<AdminOption>({
  name: 'sources remove',
  summary: 'Removes an imported source and its tools.',
  details: [
    'Its pins are kept: importing the same source again does not accept what changed in the meantime.',
    'A source from the config has to be removed there.',
  ],
  positionals: [KEY],
  options: SOURCE_OPTIONS,
  examples: ['collet sources remove GitHub'],
  async run(args, context) {
    const client = new AdminClient(args, context)
    const key = await resolveSourceKey(args, client)
    const path = `/admin/sources/${encodeURIComponent(key)}`
    await client.request<{ readonly removed: true }>({ method: 'DELETE', path }, 'removed')
    if (context.json) context.output.json({ key, removed: true })
    else context.output.note(`${key} is removed; servers on the same store notice within a second.`)
    return EXIT.ok
  },
})

/** `oddities` are tolerated deviations; they are for the server's log. */
function shown({ oddities: _tolerated, ...source }: Source) {
  return source
}

export const COMMANDS: readonly Command[] = [sources, sourcesRefresh, sourcesCheck, sourcesSet, sourcesRemove]
