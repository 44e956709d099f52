/**
 * Reads the rows of each export, page by page: the journal, calls, usage, approvals and denials. The export routes are the only user.
 * Memory stays constant, because only one page is kept, and each page takes a few milliseconds, because SQLite reads in this thread.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ApprovalFilter, ApprovalRecord } from '#kernel/approval/approval'
import { defined } from '#kernel/base/json'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CallRecord } from '#kernel/call/call-record'
import { timeOf } from '#server/admin/admin-route'
import { renderDecisions } from '#server/admin/approvals'
import { quantile, readUsage } from '#server/admin/usage'
import { renderCall } from '#server/calls/call-rows'
import { isAbout, renderDenial } from '#server/telemetry/audit'
import type { JournalSearch } from '#store/audit/journal-reader'
import type { CallFilter } from '#store/call-filter'
import type { Store } from '#store/collet-store'
import type { RecordedDenial } from '#store/keys'
import type { UsageQuery } from '#store/operator-views'
import type { ExportRow, ExportRows } from './export-text.ts'
import { type Names, renderEntry } from './journal-routes.ts'

/** The rows of one export. Reading ends when `ended` is aborted. */
export type ReadRows = (ended: AbortSignal) => ExportRows

export function journalRows(store: Pick<Store, 'journal'>, search: JournalSearch, names: Names): ReadRows {
  return (ended) => ({
    columns: [
      ...['id', 'at', 'type', 'who', 'who_name', 'tenant', 'principal', 'object_kind', 'object', 'why'],
      ...['record', 'approval', 'facts', 'writer', 'group', 'link'],
    ],
    batches: mapped(store.journal.readAll(search, ended), (entries) =>
      entries.map((entry) => {
        const { object, facts, ...row } = renderEntry(entry, names)
        // Facts of an event are JSON values, because the event was read from JSON.
        const inner = JSON.stringify(facts)
        return { ...row, object_kind: object?.kind, object: object?.id, facts: JSON.parse(inner) }
      }),
    ),
  })
}

export function callRows(store: Pick<Store, 'list'>, filter: Omit<CallFilter, 'limit'>): ReadRows {
  return (ended) => ({
    columns: [
      ...[
        'record',
        'created_at',
        'finished_at',
        'tenant',
        'principal',
        'by',
        'user_id',
        'tool',
        'safety_tier',
      ],
      ...['state', 'error_code', 'attempt', 'took_ms', 'ran_ms', 'protocol', 'call_id', 'run_id', 'trace_id'],
      ...['session_id', 'error_message', 'parent', 'result_expired', 'has_late_result'],
    ],
    batches: mapped(callPages(store, filter, ended), (calls) =>
      calls.map((call) => ({ ...renderCall(call) })),
    ),
  })
}

/** Calls in pages, newest first. */
export function callPages(
  store: Pick<Store, 'list'>,
  filter: Omit<CallFilter, 'limit'>,
  ended: AbortSignal,
): AsyncGenerator<readonly CallRecord[]> {
  return pages(async (before: number | undefined, limit: number) => {
    const { calls, next } = await store.list({ ...filter, before, limit })
    return { rows: calls, ...defined({ next }) }
  }, ended)
}

export function approvalRows(
  store: Pick<Store, 'approvals'>,
  filter: Omit<ApprovalFilter, 'before' | 'limit'>,
  { sinceMs = -Infinity, untilMs = Infinity }: Pick<CallFilter, 'sinceMs' | 'untilMs'>,
): ReadRows {
  const readPage = async (before: number | undefined, limit: number) => {
    const { approvals, next } = await store.approvals.listPage({ ...filter, ...defined({ before }), limit })
    return { rows: approvals, ...defined({ next }) }
  }
  const isWithin = ({ createdAtMs }: ApprovalRecord) => createdAtMs >= sinceMs && createdAtMs < untilMs
  return (ended) => ({
    columns: [
      ...['id', 'created_at', 'decided_at', 'expires_at', 'state', 'tenant', 'principal', 'user_id', 'tool'],
      ...['safety_tier', 'record', 'call_id', 'run_id', 'attempt', 'args_hash', 'definition_hash', 'quorum'],
      ...['required_scope', 'decided_by', 'reason', 'decisions'],
    ],
    batches: mapped(pages(readPage, ended), (found) => found.filter(isWithin).map(renderApprovalRow)),
  })
}

function renderApprovalRow(approval: ApprovalRecord): ExportRow {
  const { subject, decisions } = approval
  const rendered = renderDecisions(decisions)
  return {
    id: approval.id,
    created_at: timeOf(approval.createdAtMs),
    decided_at: timeOf(approval.decidedAtMs),
    expires_at: timeOf(approval.expiresAtMs),
    state: approval.state,
    tenant: approval.tenant,
    principal: approval.principal,
    user_id: subject.userId,
    tool: approval.tool,
    safety_tier: approval.tier,
    record: approval.record,
    call_id: subject.callId,
    run_id: subject.runId,
    attempt: approval.attempt,
    args_hash: subject.argsHash,
    definition_hash: approval.definitionHash,
    quorum: approval.quorum,
    required_scope: approval.requiredScope,
    decided_by: rendered.map(({ by }) => by).join(' '),
    reason: rendered.at(-1)?.reason,
    decisions: rendered.map((decision) => ({ ...decision })),
  }
}

export function denialRows(
  store: Pick<Store, 'audit' | 'digest'>,
  filter: Pick<CallFilter, 'tenant' | 'principal' | 'sinceMs' | 'untilMs'>,
  names: Names,
): ReadRows {
  const { tenant, principal, sinceMs = -Infinity, untilMs = Infinity } = filter
  const readPage = async (after: number | undefined, limit: number) => {
    const rows = await store.audit.readDenials(defined({ after: after ?? 0, limit, tenant }))
    return { rows, ...defined({ next: rows.at(-1)?.no }) }
  }
  const isWanted = (denial: RecordedDenial) =>
    denial.atMs >= sinceMs && denial.atMs < untilMs && isAbout(store, denial, principal)
  return (ended) => ({
    columns: ['no', 'at', 'tenant', 'principal', 'principal_id', 'action', 'resource', 'reason', 'count'],
    batches: mapped(pages(readPage, ended), (denials) =>
      denials.filter(isWanted).map((denial) => ({ ...renderDenial(denial, names.get(denial.principal)) })),
    ),
  })
}

/** Usage is counted before the first row is sent: it is one row per caller and tool. */
export async function usageRows(
  options: Parameters<typeof readUsage>[0],
  range: Pick<UsageQuery, 'tenant' | 'sinceMs' | 'untilMs'>,
): Promise<{ readonly whole: boolean; readonly read: ReadRows }> {
  const { usage, whole } = await readUsage(options, range)
  const rows = usage.map(({ durations, ...row }): ExportRow => {
    return { ...row, p50_ms: quantile(durations, 0.5), p95_ms: quantile(durations, 0.95) }
  })
  const columns = [
    ...['tenant', 'principal', 'tool', 'calls', 'errors', 'rejected', 'seconds', 'cost', 'p50_ms', 'p95_ms'],
  ]
  return { whole, read: () => ({ columns, batches: only(rows) }) }
}

/** A page that took longer than this is followed by a smaller one. */
const PAGE_MS = 10
const [MIN_PAGE, FIRST_PAGE, MAX_PAGE] = [10, 50, 500]

interface Page<Row> {
  readonly rows: readonly Row[]
  /** Where the next page starts; absent at the end. */
  readonly next?: number
}

/** Reads pages whose size follows the time that they take, until there are no more or `ended` is aborted. */
async function* pages<Row>(
  readPage: (position: number | undefined, limit: number) => MaybePromise<Page<Row>>,
  ended: AbortSignal,
): AsyncGenerator<readonly Row[]> {
  let position: number | undefined
  let limit = FIRST_PAGE
  while (!ended.aborted) {
    const startedMs = performance.now()
    const { rows, next } = await readPage(position, limit)
    const tookMs = performance.now() - startedMs
    yield rows
    if (next === undefined) return
    position = next
    limit = tookMs > PAGE_MS ? Math.max(MIN_PAGE, Math.floor(limit / 2)) : Math.min(MAX_PAGE, limit * 2)
    await nextTurn()
  }
}

async function* mapped<From, To>(
  items: AsyncIterable<From>,
  convert: (item: From) => To,
): AsyncGenerator<To> {
  for await (const item of items) yield convert(item)
}

async function* only<Item>(item: Item): AsyncGenerator<Item> {
  yield item
}
