import { cleanText } from '#cli/clean-text'
import { type CommandContext, defineCommand } from '#cli/command'
import { EXIT, type ExitCode } from '#cli/exit-codes'
import { loadProject } from '#cli/load-project'
import { reportFailure } from '#cli/report-call-failure'
import { readServerAddress, SERVER_OPTIONS, type ServerAddress } from '#cli/server-address'
import { renderTable } from '#cli/table'
import { CallFailure } from '#client/index'
import type { Tool } from '#core/tool'

export const tools = defineCommand<'config' | 'url' | 'key'>({
  name: 'tools',
  summary: 'Lists the tools of a config, or of a running server.',
  details: [
    'Without --url the config is loaded and its tools are checked; what is wrong with them is shown.',
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
      found.map(({ id, policy, description }) => [id, policy.safetyTier, firstLine(description)]),
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
      found.map(({ id, description }) => [id, firstLine(description)]),
      context,
    )
  } catch (error) {
    if (error instanceof CallFailure) return reportFailure(error, output)
    throw error
  }
}

function list(
  forMachines: readonly object[],
  rows: readonly (readonly string[])[],
  { output, json }: CommandContext,
): ExitCode {
  if (json) {
    output.json(forMachines)
    return EXIT.ok
  }
  if (rows.length === 0) output.note('There are no tools.')
  const [first] = rows
  const headings = first?.length === 2 ? ['TOOL', 'DESCRIPTION'] : ['TOOL', 'TIER', 'DESCRIPTION']
  if (first !== undefined) for (const line of renderTable(headings, rows, output.width)) output.data(line)
  return EXIT.ok
}

function describe({
  id,
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  requirements,
  policy,
}: Tool): object {
  return { id, name, title, description, inputSchema, outputSchema, requirements, policy }
}

/** Imported descriptions may be whole pages. */
function firstLine(description: string): string {
  const [line = ''] = description.split('\n', 1)
  return cleanText(line.trim())
}
