import { z } from 'zod'
import { askAsOperator, STORE_OPTIONS } from '#cli/admin-access'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type OptionSpecs,
} from '#cli/command'
import { renderTable } from '#cli/output'
import { cleanText, type JsonObject } from '#core/json'

/** Sources live in a running server: only that knows how they are. */
const SOURCE_COMMAND_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Server to talk to. Default: COLLET_URL, or the address of the config.' },
  key: {
    value: 'K',
    help: 'API key with the scope admin:sources. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

type SourceCommandOption = keyof typeof SOURCE_COMMAND_OPTIONS

/** As `GET /admin/sources` has them. */
const SOURCE_ROW = z.object({
  key: z.string(),
  type: z.string(),
  kind: z.string(),
  state: z.string(),
  reason: z.string().nullable(),
  tools: z.number(),
  offered: z.number().nullable(),
  waiting: z.number(),
  read_at: z.string().nullable(),
  warnings: z.array(z.string()),
  left_out: z.array(z.object({ tool: z.string(), problem: z.string(), fix: z.string() })),
})

type SourceRow = z.output<typeof SOURCE_ROW>

async function askAboutSources(
  request: { readonly method: 'GET' | 'POST' | 'DELETE'; readonly path: string; readonly body?: JsonObject },
  args: Arguments<SourceCommandOption>,
  context: CommandContext,
): Promise<JsonObject> {
  return await askAsOperator({ ...request, path: `/admin/sources${request.path}` }, args, context)
}

/** Reads the part of an answer that is known; else this is another server or version. */
function readAnswer<T>(shape: z.ZodType<T>, answer: JsonObject): T {
  const parsed = shape.safeParse(answer)
  if (parsed.success) return parsed.data
  throw new CommandFailure(EXIT.server, 'The server gave no sources. Is it a Collet server of this version?')
}

const HEADINGS = ['SOURCE', 'TYPE', 'STATE', 'TOOLS', 'WAITING', 'READ', 'WHY'] as const
const MOST_WARNINGS = 5

export const sources = defineCommand<SourceCommandOption>({
  name: 'sources',
  summary: 'Shows where tools come from, and how these sources are.',
  details: [
    'TOOLS are those that agents see; WAITING are changed definitions that an operator has not decided about',
    '("collet pins list"). A source that is down keeps its tools: their calls fail until it answers again.',
  ],
  positionals: [],
  options: SOURCE_COMMAND_OPTIONS,
  examples: ['collet sources', 'collet sources --json'],
  async run(args, context) {
    const answer = await askAboutSources({ method: 'GET', path: '' }, args, context)
    print(readAnswer(z.object({ sources: z.array(SOURCE_ROW) }), answer).sources, context)
    return EXIT.ok
  },
})

function print(rows: readonly SourceRow[], { output, json }: CommandContext): void {
  if (json) {
    output.json(rows)
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

function cellsOf(row: SourceRow): readonly string[] {
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

export const sourcesRefresh = defineCommand<SourceCommandOption>({
  name: 'sources refresh',
  summary: 'Reads the tools of a source again, now.',
  details: [
    'Connections are made anew for it, and programs started anew; calls under way end as they are.',
    'What changed upstream waits for a decision: "collet pins list".',
  ],
  positionals: [{ name: 'KEY', help: 'The source, as "collet sources" lists it.' }],
  options: SOURCE_COMMAND_OPTIONS,
  examples: ['collet sources refresh GitHub'],
  async run(args, context) {
    const [key = ''] = args.positionals
    const path = `/${encodeURIComponent(key)}/refresh`
    const answer = await askAboutSources({ method: 'POST', path, body: {} }, args, context)
    const { source } = readAnswer(z.object({ source: SOURCE_ROW }), answer)
    if (context.json) context.output.json(source)
    else {
      const waiting =
        source.waiting === 0 ? '' : `, ${source.waiting} waiting for a decision: collet pins list`
      context.output.data(`${source.key} is ${source.state}: ${source.tools} tools${waiting}`)
      if (source.reason !== null) context.output.note(source.reason)
    }
    return source.state === 'down' ? EXIT.toolFailed : EXIT.ok
  },
})

export const sourcesRemove = defineCommand<SourceCommandOption>({
  name: 'sources remove',
  summary: 'Takes a source that was imported away, with its tools.',
  details: [
    'What was pinned stays known: importing the same source again does not accept what changed meanwhile.',
    'A source of the config is taken out there.',
  ],
  positionals: [{ name: 'KEY', help: 'The source, as "collet sources" lists it.' }],
  options: SOURCE_COMMAND_OPTIONS,
  examples: ['collet sources remove GitHub'],
  async run(args, context) {
    const [key = ''] = args.positionals
    await askAboutSources({ method: 'DELETE', path: `/${encodeURIComponent(key)}` }, args, context)
    if (context.json) context.output.json({ key, removed: true })
    else context.output.note(`${key} is gone; servers on the same store see it within a second.`)
    return EXIT.ok
  },
})
