import { z } from 'zod'
import { type CommandContext, defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import {
  askAboutSources,
  readAnswer,
  SOURCE_COMMAND_OPTIONS,
  SOURCE_ROW,
  type SourceCommandOption,
  type SourceRow,
} from '#cli/source-access'
import { renderTable } from '#cli/table'
import { cleanText } from '#core/json'

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
