import { type Overview, READ_OVERVIEW } from '#admin-api/overview'
import { type Budget, READ_BUDGETS, READ_USAGE, type Usage } from '#admin-api/usage'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { type Arguments, type CommandContext, UsageError } from '#cli/command'
import { type Columns, operatorCommand, printRows } from '#cli/operator-command'
import { counted, renderList, renderTable } from '#cli/output'
import { configHere } from '#cli/store-access'
import { loadTools } from '#config/load-tools'
import { createUsageRoutes, quantile } from '#server/admin/usage'
import { createOverviewRoutes } from '#server/overview/overview-routes'

/**
 * `collet overview`, `collet usage` and `collet budgets`: how calls go, who used what, and what is left of each budget.
 * Invariant: costs and limits come from the config, so a store without a config shows neither.
 */

const GROUPS = ['tenant', 'principal', 'tool'] as const
type Group = (typeof GROUPS)[number]

const DEFAULT_SINCE_MS = 7 * 86_400_000

const usage = operatorCommand({
  name: 'usage',
  summary: 'Shows who used what: calls, errors, rejected requests, seconds, cost and how long calls take.',
  details: [
    'P50 and P95 are percentiles of the duration, in milliseconds. COST adds the cost in the policy of each tool, 1 by default.',
    'REJECTED counts requests that were turned down before a call was recorded: unknown tool, invalid input, used-up budget and so on. "collet calls --state rejected" shows the reasons.',
    'It counts recorded calls. Calls of pure and read tools are kept for calls.retentionHours, 24 by default; for a week set 168. Reads the store directly; with --url it asks the server.',
  ],
  options: {
    by: { value: 'WHAT', help: 'tenant, principal, tool, or several separated by commas. Default: tenant.' },
    since: {
      value: 'TIME',
      help: 'Only calls from this time on: 2026-01-31, 2026-01-31T10:00:00Z, or an age: 30m, 12h, 7d. Default 7d.',
    },
    until: { value: 'TIME', help: 'Only calls before this time.' },
    tenant: { value: 'T', help: 'Only this tenant.' },
    ...adminOptions('admin:calls'),
  },
  examples: [
    'collet usage',
    'collet usage --by tenant,tool --since 24h',
    'collet usage --by principal --tenant team1 --since 2026-01-01 --json',
  ],
  client: usageClient,
  operation: READ_USAGE,
  request(args, { clock }) {
    readGroups(args)
    const since = args.moment('since', clock.nowMs()) ?? new Date(clock.nowMs() - DEFAULT_SINCE_MS)
    const until = args.moment('until', clock.nowMs())
    return {
      query: { since: since.toISOString(), until: until?.toISOString(), tenant: args.text('tenant') },
    }
  },
  waiting: 'Counting calls',
  json: ({ usage: found }, args) => groupBy(found, readGroups(args)),
  print({ usage: found }, { args, context }) {
    const by = readGroups(args)
    const table = { columns: columnsOf(by), empty: 'There are no calls in this period.' }
    printRows(groupBy(found, by), table, context)
  },
  note({ whole }, { output }) {
    if (!whole) output.warn('There are more calls than were counted: choose a shorter period with --since.')
  },
})

function readGroups(args: Arguments<'by'>): readonly Group[] {
  const text = args.text('by') ?? 'tenant'
  return text.split(',').map((word) => {
    const group = GROUPS.find((known) => known === word.trim())
    if (group !== undefined) return group
    throw new UsageError(
      `--by expects ${GROUPS.join(', ')}, or several of them separated by commas; got "${text}".`,
    )
  })
}

function groupBy(found: readonly Usage[], by: readonly Group[]) {
  const byNames = Map.groupBy(found, (row) => JSON.stringify(by.map((group) => row[group])))
  return [...byNames.values()].map((rows) => sumOf(rows, by)).sort((left, right) => right.calls - left.calls)
}

function sumOf(rows: readonly Usage[], by: readonly Group[]) {
  const sum = (member: 'calls' | 'errors' | 'rejected' | 'seconds' | 'cost'): number =>
    rows.reduce((total, row) => total + row[member], 0)
  const durations = rows.flatMap((row) => row.durations)
  return {
    names: Object.fromEntries(by.map((group) => [group, rows[0]?.[group] ?? ''])),
    calls: sum('calls'),
    errors: sum('errors'),
    rejected: sum('rejected'),
    seconds: Math.round(sum('seconds') * 10) / 10,
    cost: Math.round(sum('cost') * 1_000) / 1_000,
    p50_ms: quantile(durations, 0.5),
    p95_ms: quantile(durations, 0.95),
  }
}

function columnsOf(by: readonly Group[]): Columns<ReturnType<typeof sumOf>> {
  return {
    ...Object.fromEntries(
      by.map((group) => [group.toUpperCase(), ({ names }: ReturnType<typeof sumOf>) => names[group] || null]),
    ),
    CALLS: ({ calls }) => calls,
    ERRORS: ({ errors }) => errors,
    REJECTED: ({ rejected }) => rejected,
    SECONDS: ({ seconds }) => seconds,
    COST: ({ cost }) => cost,
    'P50 MS': ({ p50_ms: p50 }) => p50,
    'P95 MS': ({ p95_ms: p95 }) => p95,
  }
}

const budgets = operatorCommand({
  name: 'budgets',
  summary: 'Shows what is left of each budget, and when it resets.',
  details: [
    'Lists the budgets that have been used in their current window. USED includes what servers have reserved for future calls, so it is slightly more than was spent.',
    'With --store alone there is no config, so no limits are shown.',
  ],
  options: { tenant: { value: 'T', help: 'Only this tenant.' }, ...adminOptions('admin:calls') },
  examples: ['collet budgets', 'collet budgets --tenant team1 --json'],
  client: usageClient,
  operation: READ_BUDGETS,
  request: (args) => ({ query: { tenant: args.text('tenant') } }),
  json: ({ budgets: found }) => found,
  print({ budgets: found }, { context }) {
    const rows = found.flatMap(({ units, ...budget }) => units.map((unit) => ({ ...budget, ...unit })))
    printRows(rows, { columns: BUDGET_COLUMNS, empty: NO_BUDGETS }, context)
  },
})

type BudgetRow = Omit<Budget, 'units'> & Budget['units'][number]

const BUDGET_COLUMNS: Columns<BudgetRow> = {
  TENANT: ({ tenant }) => tenant,
  PRINCIPAL: ({ principal }) => principal,
  WINDOW: ({ window_seconds: seconds }) => windowText(seconds),
  UNIT: ({ unit }) => unit,
  LIMIT: ({ limit }) => limit,
  USED: ({ used }) => used,
  LEFT: ({ left }) => left,
  'RESETS AT': ({ resets_at: at }) => at,
}

const NO_BUDGETS = 'No budget has been used yet. Budgets are defined under `budgets` in the config.'

function windowText(seconds: number): string {
  if (seconds % 86_400 === 0) return `${seconds / 86_400}d`
  return seconds % 3_600 === 0 ? `${seconds / 3_600}h` : `${seconds / 60}m`
}

const overview = operatorCommand({
  name: 'overview',
  summary: 'Shows how calls go: errors, run times, what needs attention, failing tools and busiest callers.',
  details: [
    'Calls count when they end. The counts are kept as long as the journal, in steps of a minute for two days, of 15 minutes for eight days, and of three hours afterwards, and the start of the range is rounded down to a step.',
    'A running server writes its counts every two seconds. If it was killed, its last counts are added when a server starts again. Sources and changed definitions are known only to a server: ask it with --url.',
  ],
  options: {
    range: { value: 'LENGTH', help: 'The range ends now: 1h, 24h, 7d, 30d or another length. Default 24h.' },
    since: {
      value: 'TIME',
      help: 'Start of a fixed range: 2026-01-31, 2026-01-31T10:00:00Z, or an age: 30m.',
    },
    until: { value: 'TIME', help: 'End of a fixed range.' },
    tenant: { value: 'T', help: 'Only this tenant.' },
    ...adminOptions('admin:calls'),
  },
  examples: [
    'collet overview',
    'collet overview --range 7d',
    'collet overview --tenant team1 --range 1h --json',
  ],
  client: usageClient,
  operation: READ_OVERVIEW,
  request: (args, { clock }) => ({
    query: {
      range: args.text('range'),
      since: args.moment('since', clock.nowMs())?.toISOString(),
      until: args.moment('until', clock.nowMs())?.toISOString(),
      tenant: args.text('tenant'),
    },
  }),
  waiting: 'Reading counts',
  print(found, { output }) {
    const { since, until, failing_tools: tools, callers, rejections, attention } = found
    output.data(`${since} to ${until}`)
    output.data(totalsText(found))
    const tables: readonly (readonly [string, readonly string[]])[] = [
      ['Needs attention', renderList(attentionRows(attention))],
      [
        'Rejected requests',
        renderTable(
          ['CAUSE', 'REQUESTS'],
          rejections.map(({ code, requests }) => [code, String(requests)]),
        ),
      ],
      [
        'Failing tools',
        renderTable(
          ['TOOL', 'CALLS', 'ERRORS'],
          tools.map(({ tool, calls, errors }) => [tool, String(calls), String(errors)]),
        ),
      ],
      [
        'Callers',
        renderTable(
          ['TENANT', 'PRINCIPAL', 'CALLS', 'ERRORS', 'REJECTED'],
          callers.map((row) => [
            row.tenant,
            row.principal,
            ...[row.calls, row.errors, row.rejected].map(String),
          ]),
        ),
      ],
    ]
    for (const [title, lines] of tables) {
      if (lines.length <= (title === 'Needs attention' ? 0 : 1)) continue
      output.data('')
      output.data(`${title}:`)
      for (const line of lines) output.data(line)
    }
  },
})

function totalsText({ calls, errors, rejected, p50_ms: p50, p95_ms: p95 }: Overview): string {
  const share = calls === 0 ? '' : ` (${((errors / calls) * 100).toFixed(1)} %)`
  const times = p50 === null || p95 === null ? '' : `; p50 ${p50} ms, p95 ${p95} ms`
  return `${counted(calls, 'call')}, ${counted(errors, 'error')}${share}, ${counted(rejected, 'rejected request')}${times}`
}

/** What needs attention, with the command that shows it. */
function attentionRows({ approvals, ambiguous, held, sources, budgets }: Overview['attention']): string[][] {
  const some = (count: number | null, what: string, command: string): string[][] =>
    count === null || count === 0 ? [] : [[`${counted(count, 'call')} ${what}`, command]]
  return [
    ...some(approvals, 'waiting for approval', 'collet approvals'),
    ...some(ambiguous, 'with an unknown outcome', 'collet calls --state ambiguous'),
    ...(held ?? []).map(({ source, definitions }) => [
      `${source}: ${counted(definitions, 'changed definition')}`,
      'collet pins list',
    ]),
    ...(sources ?? []).map(({ key, state, since, reason }) => [
      `${key} is ${state} since ${since}${reason === null ? '' : `: ${reason}`}`,
      'collet sources',
    ]),
    ...budgets.map(({ tenant, principal, unit, used, limit, resets_at: at }) => [
      `${principal ?? `tenant ${tenant}`}: ${used} of ${limit} ${unit} used, resets at ${at}`,
      'collet budgets',
    ]),
  ]
}

/** Costs and limits come from the config; a store that is named alone has none. */
function usageClient(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  return new AdminClient(args, context, {
    async onStore({ store, access }) {
      const loaded = await configHere(args, context)
      const tools = loaded === undefined ? [] : (await loadTools(loaded)).tools
      const costs = new Map(tools.map(({ id, policy }) => [id, policy.cost]))
      const shared = { store, clock: context.clock, budgets: () => loaded?.config.budgets }
      return [
        ...createUsageRoutes(access, { ...shared, costOf: (tool) => costs.get(tool) }),
        ...createOverviewRoutes(access, shared),
      ]
    },
  })
}

export const COMMANDS = [overview, usage, budgets]
