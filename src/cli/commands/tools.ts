import { type CommandContext, defineCommand } from '#cli/command'
import { EXIT, type ExitCode } from '#cli/exit-codes'
import { loadProject } from '#cli/load-project'
import { reportFailure } from '#cli/report-call-failure'
import { readServerAddress, SERVER_OPTIONS, type ServerAddress } from '#cli/server-address'
import { renderTable } from '#cli/table'
import { CallFailure } from '#client/index'
import { cleanText } from '#core/json'
import type { Tool } from '#core/tool'
import { factsOf, needsOf, type ToolFacts, type ToolNeeds } from '#core/tools/facts'

export const tools = defineCommand<'config' | 'url' | 'key'>({
  name: 'tools',
  summary: 'Lists the tools of a config, or of a running server.',
  details: [
    'Without --url the config is loaded and its tools are checked; what is wrong with them is shown.',
    'TOOL, NAME and CATALOG ID are names of one tool: any of them can be called. TIER is what a call can do at worst',
    '(pure, read, write, exec), APPROVAL whether somebody has to say yes first, NEEDS what it uses besides its input.',
    'A terminal that is too narrow gets no NAME and CATALOG ID; --json has everything.',
  ],
  positionals: [],
  options: {
    config: {
      value: 'F',
      help: 'Config file. Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here.',
    },
    ...SERVER_OPTIONS,
    url: { value: 'U', help: 'List what this server offers instead.' },
  },
  examples: ['collet tools', 'collet tools --json', 'collet tools --url http://127.0.0.1:4100'],
  async run(args, context) {
    if (args.text('url') !== undefined) return await listRemote(readServerAddress(args, context), context)
    const { tools: found } = await loadProject(args.text('config'), context)
    return list(
      found.map(describe),
      found.map((tool) => ({ ...tool, needs: needsOf(tool), facts: factsOf(tool) })),
      context,
    )
  },
})

async function listRemote({ url, apiKey }: ServerAddress, context: CommandContext): Promise<ExitCode> {
  const { output, services } = context
  try {
    const client = await services.connect(url, { apiKey })
    const found = await output.during(`Asking ${url}`, client.list())
    return list(
      found,
      found.map(({ requirements, ...tool }) => {
        const { authorization, secrets, userId } = requirements
        return { ...tool, needs: { authorization, secrets: secrets.map(({ id }) => id), userId } }
      }),
      context,
    )
  } catch (error) {
    if (error instanceof CallFailure) return reportFailure(error, output)
    throw error
  }
}

interface Row {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly needs: ToolNeeds
  /** Servers that are not of this package tell none. */
  readonly facts?: ToolFacts
}

const HEADINGS = ['TOOL', 'NAME', 'CATALOG ID', 'SOURCE', 'TIER', 'APPROVAL', 'NEEDS', 'DESCRIPTION']
/** The other names. */
const FIRST_TO_GO = new Set(['NAME', 'CATALOG ID'])

function list(
  forMachines: readonly object[],
  rows: readonly Row[],
  { output, json }: CommandContext,
): ExitCode {
  if (json) {
    output.json(forMachines)
    return EXIT.ok
  }
  if (rows.length === 0) output.note('There are no tools.')
  else for (const line of render(rows.map(cellsOf), output.width)) output.data(line)
  return EXIT.ok
}

function cellsOf({ id, name, description, needs, facts }: Row): readonly string[] {
  const { authorization, secrets, userId } = needs
  const named = [
    ...authorization.map((each) => each.id),
    ...secrets,
    ...(userId === false ? [] : ['user id']),
  ]
  // A workflow needs what its steps need.
  const needed = named.length === 0 && facts?.credential === true ? ['credential'] : named
  return [
    id,
    name,
    facts?.catalogId ?? '',
    facts?.source ?? '',
    facts?.safetyTier ?? '',
    facts === undefined || facts.approval === 'never' ? '' : facts.approval,
    needed.join(', '),
    firstLine(description),
  ].map((cell) => (cell === '' ? '-' : cell))
}

function render(rows: readonly (readonly string[])[], width: number | undefined): readonly string[] {
  const whole = renderTable(HEADINGS, rows, width)
  if (width === undefined || whole.every((line) => line.length <= width)) return whole
  const isKept = (_: string, column: number) => !FIRST_TO_GO.has(HEADINGS[column] ?? '')
  return renderTable(
    HEADINGS.filter(isKept),
    rows.map((row) => row.filter(isKept)),
    width,
  )
}

function describe(tool: Tool): object {
  const { id, name, title, description, inputSchema, outputSchema, requirements, policy } = tool
  return {
    ...{ id, name, title, description, inputSchema, outputSchema, requirements, policy },
    facts: factsOf(tool),
  }
}

/** Imported descriptions may be whole pages. */
function firstLine(description: string): string {
  const [line = ''] = description.split('\n', 1)
  return cleanText(line.trim())
}
