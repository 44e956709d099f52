import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '#kernel/base/clock'
import type { ToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import type { CallError, CallState } from '#kernel/call/call'
import type { CallRecord, Settlement } from '#kernel/call/call-record'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { tallyRejections } from '#server/overview/rejected-requests'
import type { TallyQuery } from '#store/call-filter'
import type { Store } from '#store/collet-store'
import type { TallyPage } from '#store/operator-views'
import {
  adminRoute,
  badRequest,
  momentOf,
  NO_STORE,
  type OperatorAccess,
  tenantWithin,
  wholeNumber,
} from './access.ts'
import { type BaseOf, REJECTED, readCallFilter } from './call-filter.ts'
import { renderCall, renderDetails, timelinesOf } from './call-view.ts'

const LIST_SCOPE = 'admin:calls'
const READ_SCOPE = 'calls:read'
const APPROVAL_SCOPES = ['approvals:read', 'approvals:respond'] as const
const SETTLE_SCOPE = 'calls:settle'
const MAX_STEPS = 200

/** What operators may do to calls; a store has it all. */
type AdminCalls = Pick<
  Store,
  | 'list'
  | 'tally'
  | 'findByRecord'
  | 'findByPrefix'
  | 'stepsOf'
  | 'journalOf'
  | 'readInput'
  | 'readRun'
  | 'settle'
  | 'isWriterAlive'
  | 'rejections'
> & { readonly approvals: Pick<Store['approvals'], 'findFor'> }

interface CallRoutesOptions {
  readonly calls: AdminCalls
  readonly clock: Clock
  /** Asked before an operator's word for the value of a call is taken; throws what speaks against it. */
  checkValue?(tool: string, value: JsonValue): Promise<void>
  readonly baseOf?: BaseOf
}

/**
 * Calls over HTTP: for the start token everywhere, for scopes in their own tenant. `admin:calls` sees what happened,
 * `calls:read` input and outcome too, `calls:settle` settles.
 */
export function createCallRoutes(
  { calls, clock, checkValue, baseOf }: CallRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const list = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, LIST_SCOPE)
    const filter = readCallFilter(query, clock.nowMs(), baseOf)
    const tenant = tenantWithin(principal)
    const prefix = query.get('record') ?? ''
    const page =
      prefix === ''
        ? await calls.list({ ...filter, tenant: tenant ?? filter.tenant })
        : { calls: await calls.findByPrefix(prefix, filter.limit) }
    const found = page.calls.filter((call) => isWithin(tenant, call)).map(renderCall)
    return jsonReply(200, { calls: found, next: page.next ?? null })
  }
  const stats = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, LIST_SCOPE)
    const nowMs = clock.nowMs()
    const filter = readCallFilter(query, nowMs, baseOf)
    const tenant = tenantWithin(principal) ?? filter.tenant
    const untilMs = filter.untilMs ?? nowMs
    const sinceMs = filter.sinceMs ?? untilMs - DEFAULT_SPAN_MS
    const buckets = wholeNumber(query, 'buckets', DEFAULT_BUCKETS, MAX_BUCKETS)
    if (sinceMs >= untilMs) throw badRequest('`since` is before `until`.')
    if (buckets < 1) throw badRequest('`buckets` is at least 1.')
    const bucketMs = roundSpan((untilMs - sinceMs) / buckets)
    // Aligned, so that a call stays in its bucket however often the same span is asked for.
    const originMs = Math.floor(sinceMs / bucketMs) * bucketMs
    const asked = { ...filter, tenant, sinceMs, bucketMs, originMs }
    const tally = await tallyAll(calls, asked)
    const rejected = isRejectedAsked(query) ? await tallyRejections(calls.rejections, asked) : NONE_REJECTED
    const filled = [...new Set([...tally.parts.keys(), ...rejected.buckets.keys()])].toSorted(
      (one, other) => one - other,
    )
    return jsonReply(
      200,
      {
        ...{ since: momentOf(sinceMs), until: momentOf(untilMs), bucket_ms: bucketMs },
        ...{ states: tally.states, rejected: rejected.codes },
        buckets: filled.map((bucket) => ({
          at: momentOf(originMs + bucket * bucketMs),
          states: tally.parts.get(bucket) ?? {},
          rejected: rejected.buckets.get(bucket) ?? 0,
        })),
        whole: tally.whole,
      },
      NO_STORE,
    )
  }
  const show = async ({ principal, params, query }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, LIST_SCOPE)
    const record = params.record ?? ''
    const call = await calls.findByRecord(record)
    if (call === undefined || !isWithin(tenantWithin(principal), call)) throw notFound()
    const look = { record, by: principal.id, atMs: clock.nowMs() }
    const mayRead = access.hasScope(principal, READ_SCOPE)
    const input = mayRead ? (isContentsAsked(query) ? await calls.readInput(look) : 'unasked') : 'hidden'
    const steps = await calls.stepsOf(record, MAX_STEPS)
    const timelines = await timelinesOf(calls, call, steps)
    const journal = await calls.journalOf(record)
    const seesApprovals = APPROVAL_SCOPES.some((scope) => access.hasScope(principal, scope))
    const approval = seesApprovals ? await calls.approvals.findFor(call) : undefined
    const details = renderDetails({ call, steps, timelines, journal, approval, input })
    return jsonReply(200, { call: details }, NO_STORE)
  }
  const settle = async ({ principal, params, body }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, SETTLE_SCOPE)
    const record = params.record ?? ''
    const { value, ...settlement } = readSettlement(body, {
      record,
      who: principal.id,
      atMs: clock.nowMs(),
    })
    const call = await calls.findByRecord(record)
    if (call === undefined || !isWithin(tenantWithin(principal), call)) throw notFound()
    if (call.state !== 'ambiguous') throw await notAmbiguous(calls, call)
    if (value !== undefined) await checkValue?.(call.tool, value)
    const result = await calls.settle(settlement)
    if (result === 'not_found') throw notFound()
    if (result === 'not_ambiguous') throw await notAmbiguous(calls)
    return jsonReply(200, { record, settled_as: settlement.as })
  }
  return [
    adminRoute(access, 'GET', '/admin/calls', list),
    adminRoute(access, 'GET', '/admin/calls/stats', stats),
    adminRoute(access, 'GET', '/admin/calls/:record', show),
    adminRoute(access, 'POST', '/admin/calls/:record/settle', settle),
  ]
}

const [SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS] = [1_000, 60_000, 3_600_000, 86_400_000]
const ROUND_SPANS_MS = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND_MS),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_MS),
]

/** The smallest round span of at least so many milliseconds: seconds, minutes or hours that divide a day, or whole days. */
function roundSpan(leastMs: number): number {
  return ROUND_SPANS_MS.find((spanMs) => spanMs >= leastMs) ?? Math.ceil(leastMs / DAY_MS) * DAY_MS
}

const DEFAULT_SPAN_MS = 30 * 60_000
const DEFAULT_BUCKETS = 60
const MAX_BUCKETS = 500
/** A page looks at some ten thousand calls; the rest of a longer time is left out, and that is said. */
const MAX_PAGES = 200

/** How many calls were asked for when, and what became of them. */
async function tallyAll(calls: Pick<AdminCalls, 'tally'>, query: TallyQuery) {
  const states: Partial<Record<CallState, number>> = {}
  const parts = new Map<number, Partial<Record<CallState, number>>>()
  let page: TallyPage = { rows: [] }
  for (let pages = 0; pages === 0 || (page.next !== undefined && pages < MAX_PAGES); pages += 1) {
    // SQLite answers in this thread: calls have their turn between two pages.
    if (pages > 0) await nextTurn()
    page = await calls.tally({ ...query, before: page.next ?? query.before })
    for (const { state, bucket, calls: count } of page.rows) {
      const part = parts.get(bucket) ?? {}
      parts.set(bucket, part)
      for (const tally of [states, part]) tally[state] = (tally[state] ?? 0) + count
    }
  }
  return { states, parts, whole: page.next === undefined }
}

const NONE_REJECTED = { codes: {}, buckets: new Map<number, number>() }

function isRejectedAsked(query: URLSearchParams): boolean {
  const asked = query.get('state') || REJECTED
  return asked.split(',').includes(REJECTED)
}

/** Whoever looks at a call without its contents leaves no trace; what is asked for is journaled before it is given out. */
function isContentsAsked(query: URLSearchParams): boolean {
  const asked = query.get('contents') ?? 'yes'
  if (asked === 'yes' || asked === 'no') return asked === 'yes'
  throw badRequest('`contents` is "yes" or "no".')
}

function isWithin(tenant: string | undefined, call: CallRecord): boolean {
  return tenant === undefined || call.tenant === tenant
}

function notFound(): ToolError {
  return httpFault(
    404,
    'There is no call with this record id. "collet calls" and GET /admin/calls list them.',
  )
}

/** Only the next server, which recovers it, can tell a call whose server died from a running one (rule 8). */
async function notAmbiguous(calls: AdminCalls, call?: CallRecord): Promise<ToolError> {
  if (call?.state !== 'running')
    return httpFault(
      400,
      'Only an ambiguous call can be settled, and this one is not ambiguous, or no longer so.',
    )
  return (await calls.isWriterAlive(call.writer))
    ? httpFault(400, 'The call is still running. "collet calls cancel" asks its server to stop it.')
    : httpFault(
        400,
        'The process that ran the call is gone. Start the server once, which recovers it; then settle it if it is ambiguous.',
      )
}

const MAX_REASON_LENGTH = 1_000
const MEMBERS: ReadonlySet<string> = new Set(['as', 'value', 'why'])

const SETTLED_AS_FAILED: CallError = {
  code: 'tool_failed',
  message: 'The call was interrupted, and an operator found that it had failed.',
  canRetry: false,
}

/** `{ as, value?, why }` of an operator who knows how an ambiguous call ended (rule 12). */
function readSettlement(
  body: JsonValue | undefined,
  by: Pick<Settlement, 'record' | 'who' | 'atMs'>,
): Settlement & { readonly value: JsonValue | undefined } {
  if (!isJsonObject(body)) throw badRequest('Send a JSON object with `as`, `why` and, optionally, `value`.')
  const stranger = Object.keys(body).find((name) => !MEMBERS.has(name))
  if (stranger !== undefined) throw badRequest('Only `as`, `value` and `why` may be sent.')
  const as = readAs(body.as)
  const value = Object.hasOwn(body, 'value') ? body.value : undefined
  if (value !== undefined && as !== 'succeeded')
    throw badRequest('`value` can only be sent with `as: "succeeded"`.')
  return {
    ...by,
    as,
    value,
    why: readWhy(body.why),
    valueJson: value === undefined ? undefined : JSON.stringify(value),
    error: as === 'failed' ? SETTLED_AS_FAILED : undefined,
  }
}

function readAs(as: JsonValue | undefined): Settlement['as'] {
  if (as === 'succeeded' || as === 'failed' || as === 'not-run') return as
  throw badRequest('`as` is one of "succeeded", "failed" and "not-run".')
}

function readWhy(why: JsonValue | undefined): string {
  if (typeof why === 'string' && why.trim() !== '' && why.length <= MAX_REASON_LENGTH && !why.includes('\0'))
    return why
  throw badRequest(
    `\`why\` is a text of 1 to ${MAX_REASON_LENGTH} characters, without NUL, that says how you know.`,
  )
}
