import type { Budget, Usage } from '#admin-api/usage'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import {
  type Arguments,
  type Command,
  type CommandContext,
  defineCommand,
  EXIT,
  UsageError,
} from '#cli/command'
import { renderTable } from '#cli/output'
import { isStoreAlone, loadProjectConfig } from '#cli/store-access'
import { loadTools } from '#config/load-tools'
import { createUsageRoutes, quantile } from '#server/admin/usage'

/**
 * `collet usage` and `collet budgets`: who used what, and what is left of each budget. Invariant: costs and limits
 * come from the config, so a store without a config shows neither.
 */

const GROUPS = ['tenant', 'principal', 'tool'] as const
type Group = (typeof GROUPS)[number]

const DEFAULT_SINCE_MS = 7 * 86_400_000

const usage = defineCommand<'by' | 'since' | 'until' | 'tenant' | AdminOption>({
  name: 'usage',
  summary: 'Shows who used what: calls, errors, rejected requests, seconds, cost and how long calls take.',
  details: [
    'P50 and P95 are percentiles of the duration, in milliseconds. COST adds the cost in the policy of each tool, 1 by default.',
    'REJECTED counts requests that were turned down before a call was recorded: unknown tool, invalid input, used-up budget and so on. "collet calls --state rejected" says why.',
    'It counts recorded calls. Calls of pure and read tools are kept for calls.retentionHours, 24 by default; for a week set 168. Reads the store directly; with --url it asks the server.',
  ],
  positionals: [],
  options: {
    by: { value: 'WHAT', help: 'tenant, principal, tool, or several with commas. Default: tenant.' },
    since: {
      value: 'TIME',
      help: 'From then on: 2026-01-31, 2026-01-31T10:00:00Z, or ago: 30m, 12h, 7d. Default 7d.',
    },
    until: { value: 'TIME', help: 'Up to then.' },
    tenant: { value: 'T', help: 'Only this tenant.' },
    ...adminOptions('admin:calls'),
  },
  examples: [
    'collet usage',
    'collet usage --by tenant,tool --since 24h',
    'collet usage --by principal --tenant team1 --since 2026-01-01 --json',
  ],
  async run(args, context) {
    const { output, json, clock } = context
    const by = readGroups(args.text('by') ?? 'tenant')
    const since = args.moment('since', clock.nowMs()) ?? new Date(clock.nowMs() - DEFAULT_SINCE_MS)
    const until = args.moment('until', clock.nowMs())
    const tenant = args.text('tenant')
    const query = new URLSearchParams({
      since: since.toISOString(),
      ...(until === undefined ? {} : { until: until.toISOString() }),
      ...(tenant === undefined ? {} : { tenant }),
    })
    const client = await clientOf(args, context)
    const { usage: found, whole } = await output.during(
      'Counting calls',
      client.request<{ readonly usage: readonly Usage[]; readonly whole: boolean }>(
        { method: 'GET', path: `/admin/usage?${query}` },
        'usage',
      ),
    )
    const rows = groupBy(found, by)
    if (json) output.json(rows)
    else if (rows.length === 0) output.note('There are no calls in this time.')
    else
      for (const line of renderTable(
        headingsOf(by),
        rows.map((row) => cellsOf(row, by)),
      ))
        output.data(line)
    if (!whole) output.warn('There are more calls than were counted: name a shorter time with --since.')
    return EXIT.ok
  },
})

function readGroups(text: string): readonly Group[] {
  return text.split(',').map((word) => {
    const group = GROUPS.find((known) => known === word.trim())
    if (group !== undefined) return group
    throw new UsageError(`--by expects ${GROUPS.join(', ')}, or several of them with commas; got "${text}".`)
  })
}

function groupBy(found: readonly Usage[], by: readonly Group[]) {
  const alike = Map.groupBy(found, (row) => JSON.stringify(by.map((group) => row[group])))
  return [...alike.values()].map((rows) => sumOf(rows, by)).sort((left, right) => right.calls - left.calls)
}

function sumOf(rows: readonly Usage[], by: readonly Group[]) {
  const sum = (member: 'calls' | 'errors' | 'rejected' | 'seconds' | 'cost'): number =>
    rows.reduce((total, row) => total + row[member], 0)
  const durations = rows.flatMap((row) => row.durations)
  const named = Object.fromEntries(by.map((group) => [group, rows[0]?.[group] ?? '']))
  return {
    names: named,
    calls: sum('calls'),
    errors: sum('errors'),
    rejected: sum('rejected'),
    seconds: Math.round(sum('seconds') * 10) / 10,
    cost: Math.round(sum('cost') * 1_000) / 1_000,
    p50_ms: quantile(durations, 0.5),
    p95_ms: quantile(durations, 0.95),
  }
}

function headingsOf(by: readonly Group[]): readonly string[] {
  return [
    ...by.map((group) => group.toUpperCase()),
    'CALLS',
    'ERRORS',
    'REJECTED',
    'SECONDS',
    'COST',
    'P50 MS',
    'P95 MS',
  ]
}

function cellsOf(row: ReturnType<typeof sumOf>, by: readonly Group[]): readonly string[] {
  const { names, calls, errors, rejected, seconds, cost, p50_ms: p50, p95_ms: p95 } = row
  const numbers = [calls, errors, rejected, seconds, cost, p50, p95].map((each) =>
    each === null ? '-' : String(each),
  )
  return [...by.map((group) => names[group] || '-'), ...numbers]
}

const budgets = defineCommand<'tenant' | AdminOption>({
  name: 'budgets',
  summary: 'Shows what is left of each budget, and when it resets.',
  details: [
    'Lists the budgets that have been used in their current window. USED includes what servers have reserved for future calls, so it is slightly more than was spent.',
    'With --store alone no configuration is known, and so no limits.',
  ],
  positionals: [],
  options: { tenant: { value: 'T', help: 'Only this tenant.' }, ...adminOptions('admin:calls') },
  examples: ['collet budgets', 'collet budgets --tenant team1 --json'],
  async run(args, context) {
    const { output, json } = context
    const tenant = args.text('tenant')
    const query = new URLSearchParams(tenant === undefined ? {} : { tenant })
    const client = await clientOf(args, context)
    const { budgets: found } = await client.request<{ readonly budgets: readonly Budget[] }>(
      { method: 'GET', path: `/admin/budgets?${query}` },
      'budgets',
    )
    if (json) output.json(found)
    else if (found.length === 0)
      output.note('No budget has been used yet. Budgets are defined under `budgets` in the config.')
    else
      for (const line of renderTable(
        ['TENANT', 'PRINCIPAL', 'WINDOW', 'UNIT', 'LIMIT', 'USED', 'LEFT', 'RESETS AT'],
        found.flatMap(budgetRows),
      ))
        output.data(line)
    return EXIT.ok
  },
})

function budgetRows(budget: Budget): readonly (readonly string[])[] {
  const { tenant, principal, window_seconds: seconds, resets_at: resetsAt, units } = budget
  return units.map(({ unit, limit, used, left }) => [
    ...[tenant, principal ?? '-', windowText(seconds), unit],
    ...[limit === null ? '-' : String(limit), String(used), left === null ? '-' : String(left), resetsAt],
  ])
}

function windowText(seconds: number): string {
  if (seconds % 86_400 === 0) return `${seconds / 86_400}d`
  return seconds % 3_600 === 0 ? `${seconds / 3_600}h` : `${seconds / 60}m`
}

/** Costs and limits come from the config; a store that is named alone has none. */
async function clientOf(args: Arguments<AdminOption>, context: CommandContext): Promise<AdminClient> {
  return new AdminClient(args, context, {
    async onStore({ store, access }) {
      const loaded = isStoreAlone(args) ? undefined : await loadProjectConfig(args.text('config'), context)
      const tools = loaded === undefined ? [] : (await loadTools(loaded)).tools
      const costs = new Map(tools.map(({ id, policy }) => [id, policy.cost]))
      const rules = loaded?.config.budgets
      return createUsageRoutes(
        { store, clock: context.clock, costOf: (tool) => costs.get(tool), budgets: () => rules },
        access,
      )
    },
  })
}

export const COMMANDS: readonly Command[] = [usage, budgets]
