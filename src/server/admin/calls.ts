import { CALL_STATES, type CallError } from '#core/call'
import type { ToolError } from '#core/errors'
import { ownRunId } from '#core/ids'
import { isJsonObject, type JsonValue } from '#core/json'
import type { AuditStore } from '#core/ports/key-store'
import type { CallFilter, CallRecord, Settlement, Store } from '#core/ports/store'
import type { Clock } from '#core/runtime'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { adminRoute, badRequest, type OperatorAccess, tenantWithin } from './access.ts'

const LIST_SCOPE = 'admin:calls'
const SETTLE_SCOPE = 'calls:settle'
const AUDIT_SCOPE = 'audit:read'
const DEFAULT_LIMIT = 100
const HIGHEST_LIMIT = 1_000

/** What operators may do to calls; a store has it all. */
type AdminCalls = Pick<Store, 'list' | 'findByRecord' | 'settle' | 'isWriterAlive'>

interface CallRoutesOptions {
  readonly calls: AdminCalls
  readonly clock: Clock
  /** Asked before an operator's word for the value of a call is taken; throws what speaks against it. */
  checkValue?(tool: string, value: JsonValue): Promise<void>
}

/** Calls over HTTP: for the start token everywhere, for the scopes `admin:calls` and `calls:settle` in their own tenant. */
export function createCallRoutes(
  { calls, clock, checkValue }: CallRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const list = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, LIST_SCOPE)
    const filter = readCallFilter(query)
    const tenant = tenantWithin(principal)
    const found = await calls.list(tenant === undefined ? filter : { ...filter, tenant })
    return jsonReply(200, { calls: found.filter((call) => isWithin(tenant, call)).map(renderCall) })
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
    adminRoute(access, 'POST', '/admin/calls/:record/settle', settle),
  ]
}

/** `GET /admin/audit?after=&limit=`: who was refused what, oldest first (rule 30a, OWP-62). */
export function createAuditRoutes(audit: AuditStore, access: OperatorAccess): readonly ServerRoute[] {
  const read = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, AUDIT_SCOPE)
    const tenant = tenantWithin(principal)
    const filter = {
      after: wholeNumber(query, 'after', 0, Number.MAX_SAFE_INTEGER),
      limit: wholeNumber(query, 'limit', DEFAULT_LIMIT, HIGHEST_LIMIT),
      ...(tenant === undefined ? {} : { tenant }),
    }
    const denials = await audit.readDenials(filter)
    const events = denials.map(({ no, atMs, ...denial }) => ({
      no,
      type: 'authorization.decided',
      at: new Date(atMs).toISOString(),
      ...denial,
      allowed: false,
    }))
    return jsonReply(
      200,
      { events, next: denials.at(-1)?.no ?? filter.after },
      { 'cache-control': 'no-store' },
    )
  }
  return [adminRoute(access, 'GET', '/admin/audit', read)]
}

function wholeNumber(query: URLSearchParams, name: string, fallback: number, most: number): number {
  const text = query.get(name)
  if (text === null) return fallback
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (number <= most) return number
  throw httpFault(400, `${name}: expected a whole number up to ${most}.`)
}

function isWithin(tenant: string | undefined, call: CallRecord): boolean {
  return tenant === undefined || call.tenant === tenant
}

function notFound(): ToolError {
  return httpFault(
    404,
    'There is no call with this record id. "collet calls --state ambiguous" and GET /admin/calls?state=ambiguous list them.',
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

/** A call as operators see it. */
export type RenderedCall = ReturnType<typeof renderCall>

/** What happened, without input and output. */
function renderCall(call: CallRecord) {
  const { outcome } = call
  return {
    record: call.record,
    call_id: call.callId,
    run_id: call.runId ?? ownRunId(call.record),
    trace_id: call.traceId,
    protocol: call.protocol ?? null,
    user_id: call.userId ?? null,
    tenant: call.tenant,
    principal: call.principal,
    tool: call.tool,
    safety_tier: call.tier,
    state: call.state,
    attempt: call.attempt,
    created_at: new Date(call.createdAtMs).toISOString(),
    finished_at: call.finishedAtMs === undefined ? null : new Date(call.finishedAtMs).toISOString(),
    error_code: outcome === undefined || outcome.ok ? null : outcome.error.code,
    result_expired: call.expired,
    has_late_result: call.late !== undefined,
  }
}

const LONGEST_WHY = 1_000
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
  if (typeof why === 'string' && why.trim() !== '' && why.length <= LONGEST_WHY && !why.includes('\0'))
    return why
  throw badRequest(
    `\`why\` is a text of 1 to ${LONGEST_WHY} characters, without NUL, that says how you know.`,
  )
}

/** `?state=&limit=` of the operators' list. */
function readCallFilter(query: URLSearchParams): CallFilter {
  const limit = readLimit(query.get('limit'))
  const asked = query.get('state')
  if (asked === null || asked === '') return { limit }
  const state = CALL_STATES.find((known) => known === asked)
  if (state === undefined) throw httpFault(400, `\`state\` is one of ${CALL_STATES.join(', ')}.`)
  return { limit, state }
}

function readLimit(text: string | null): number {
  if (text === null || text === '') return DEFAULT_LIMIT
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= HIGHEST_LIMIT) return limit
  throw httpFault(400, `\`limit\` is a whole number from 1 to ${HIGHEST_LIMIT}.`)
}
