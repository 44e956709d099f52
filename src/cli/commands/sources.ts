import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { type Command, type CommandContext, defineCommand, EXIT } from '#cli/command'
import { renderTable } from '#cli/output'
import { cleanText } from '#core/json'
import type { RenderedSource } from '#server/admin/sources'

/** Sources live in a running server: only that knows how they are. */
const SOURCE_OPTIONS = {
  ...adminOptions('admin:sources'),
  url: { value: 'U', help: 'Server to talk to. Default: COLLET_URL, or the address of the config.' },
} as const

const KEY = { name: 'KEY', help: 'The source, as "collet sources" lists it.' } as const
const HEADINGS = ['SOURCE', 'TYPE', 'STATE', 'TOOLS', 'WAITING', 'READ', 'WHY'] as const
const MOST_WARNINGS = 5

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
    const { sources: found } = await new AdminClient(args, context).request<{
      readonly sources: readonly RenderedSource[]
    }>({ method: 'GET', path: '/admin/sources' }, 'sources')
    print(found, context)
    return EXIT.ok
  },
})

function print(rows: readonly RenderedSource[], { output, json }: CommandContext): void {
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
    for (const warning of said.slice(0, MOST_WARNINGS)) output.warn(`${key}: ${cleanText(warning)}`)
    const more = said.length - MOST_WARNINGS
    if (more > 0) output.warn(`${key}: ${more} more; --json shows all.`)
  }
}

function cellsOf(row: RenderedSource): readonly string[] {
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
  summary: 'Reads the tools of a source again now.',
  details: [
    'It opens new connections and starts programs again; calls in progress finish undisturbed.',
    'Whatever changed upstream waits for a decision: "collet pins list".',
  ],
  positionals: [KEY],
  options: SOURCE_OPTIONS,
  examples: ['collet sources refresh GitHub'],
  async run(args, context) {
    const [key = ''] = args.positionals
    const path = `/admin/sources/${encodeURIComponent(key)}/refresh`
    const { source } = await new AdminClient(args, context).request<{ readonly source: RenderedSource }>(
      { method: 'POST', path, body: {} },
      'source',
    )
    if (context.json) context.output.json(shown(source))
    else {
      const waiting =
        source.waiting === 0 ? '' : `, ${source.waiting} waiting for a decision: collet pins list`
      context.output.data(`${source.key} is ${source.state}: ${source.tools} tools${waiting}`)
      if (source.reason !== null) context.output.note(source.reason)
    }
    return source.state === 'down' ? EXIT.toolFailed : EXIT.ok
  },
})

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
    const [key = ''] = args.positionals
    const path = `/admin/sources/${encodeURIComponent(key)}`
    await new AdminClient(args, context).request<{ readonly removed: true }>(
      { method: 'DELETE', path },
      'removed',
    )
    if (context.json) context.output.json({ key, removed: true })
    else context.output.note(`${key} is removed; servers on the same store notice within a second.`)
    return EXIT.ok
  },
})

/** Oddities are what a server tolerates; they are for its logs. */
function shown({ oddities: _tolerated, ...source }: RenderedSource): object {
  return source
}

export const COMMANDS: readonly Command[] = [sources, sourcesRefresh, sourcesRemove]
