import {
  APPROVAL_OPTIONS,
  askAboutApprovals,
  asksServerAboutApprovals,
  noCollet,
  withApprovals,
} from '#cli/approval-access'
import { APPROVAL_HEADINGS, approvalCells, rowOfApproval, rowsOfApprovals } from '#cli/approval-row'
import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { renderTable } from '#cli/table'
import type { ApprovalState } from '#core/ports/approval-store'

const MOST = 1_000
const DEFAULT_LIMIT = 100
const STATE_NAMES = [
  'pending',
  'granted',
  'used',
  'rejected',
  'expired',
  'cancelled',
] as const satisfies readonly ApprovalState[]

export const approvalsList = defineCommand({
  name: 'approvals list',
  summary: 'Lists calls that wait for an approval, and what was decided.',
  details: ['Reads the store itself, also while a server uses it. With --url it asks the server.'],
  positionals: [],
  options: {
    state: {
      value: 'S',
      help: `Only such as are: ${STATE_NAMES.join(', ')}. Default pending; "all" for all.`,
    },
    limit: { value: 'N', help: `At most so many. Default ${DEFAULT_LIMIT}.` },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals list', 'collet approvals list --state rejected --json'],
  async run(args, context) {
    const { output, json, clock } = context
    const asked = args.oneOf('state', ['all', ...STATE_NAMES]) ?? 'pending'
    const state = asked === 'all' ? undefined : asked
    const limit = args.integer('limit', { least: 1, most: MOST }) ?? DEFAULT_LIMIT
    const filter = { limit, ...(state === undefined ? {} : { state }) }
    const query = new URLSearchParams({ limit: String(limit), ...(state === undefined ? {} : { state }) })
    const rows = !asksServerAboutApprovals(args, context)
      ? await withApprovals(args, context, async (desk, approver) =>
          (await desk.list(approver, filter)).map((found) =>
            rowOfApproval(found, { nowMs: clock.nowMs(), isStale: desk.isStale(found) }),
          ),
        )
      : rowsOfApprovals(await askAboutApprovals({ method: 'GET', path: `?${query}` }, args, context))
    if (rows === undefined) throw noCollet(args)
    if (json) output.json(rows)
    else if (rows.length === 0) output.note('There are no such approvals.')
    else for (const line of renderTable(APPROVAL_HEADINGS, rows.map(approvalCells))) output.data(line)
    return EXIT.ok
  },
})
