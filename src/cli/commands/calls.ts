import type { Arguments } from '#cli/arguments'
import { CALL_HEADINGS, type CallRow, callCells, rowOfRecord, rowsOfAnswer } from '#cli/call-row'
import { type CommandContext, defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { askAsOperator, asksServer } from '#cli/operator-credential'
import { STORE_OPTIONS, withStore } from '#cli/operator-store'
import { renderTable } from '#cli/table'
import type { CallFilter, CallState } from '#core/ports/store'

const MOST_CALLS = 1_000
const DEFAULT_LIMIT = 100

const STATE_NAMES = [
  'parked',
  'running',
  'succeeded',
  'failed',
  'released',
  'ambiguous',
] as const satisfies readonly CallState[]

type CallsOption = 'state' | 'limit' | 'store' | 'config' | 'url' | 'key'

export const calls = defineCommand<CallsOption>({
  name: 'calls',
  summary: 'Lists calls, newest first.',
  details: ['Reads the store itself, also while a server uses it. With --url it asks the server.'],
  positionals: [],
  options: {
    state: { value: 'S', help: `Only calls in this state: ${STATE_NAMES.join(', ')}.` },
    limit: { value: 'N', help: `At most so many. Default ${DEFAULT_LIMIT}.` },
    ...STORE_OPTIONS,
    url: { value: 'U', help: 'Ask this server instead.' },
    key: {
      value: 'K',
      help: 'API key with the scope admin:calls. Default: COLLET_API_KEY, else the start token of a server here.',
    },
  },
  examples: ['collet calls --state ambiguous', 'collet calls --limit 20 --json'],
  async run(args, context) {
    const { output, json } = context
    const state = args.oneOf('state', STATE_NAMES)
    const limit = args.integer('limit', { least: 1, most: MOST_CALLS }) ?? DEFAULT_LIMIT
    const filter: CallFilter = { limit, ...(state === undefined ? {} : { state }) }
    const rows = !asksServer(args)
      ? await withStore(args, context, async (store) => (await store.list(filter)).map(rowOfRecord))
      : await askServer(filter, args, context)
    if (json) output.json(rows)
    else if (rows.length === 0) output.note('There are no such calls.')
    // Never cut: an id that is not whole is worth nothing, and the terminal wraps long lines by itself.
    else for (const line of renderTable(CALL_HEADINGS, rows.map(callCells))) output.data(line)
    return EXIT.ok
  },
})

async function askServer(
  filter: CallFilter,
  args: Arguments<CallsOption>,
  context: CommandContext,
): Promise<readonly CallRow[]> {
  const query = new URLSearchParams({
    limit: String(filter.limit),
    ...(filter.state === undefined ? {} : { state: filter.state }),
  })
  const answer = await askAsOperator({ method: 'GET', path: `/admin/calls?${query}` }, args, context)
  const rows = rowsOfAnswer(answer)
  if (rows !== undefined) return rows
  throw new CommandFailure(
    EXIT.server,
    'The server gave no list of calls. Is it a Collet server of this version?',
  )
}
