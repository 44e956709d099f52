import { CALL_STATES, type CallError, type CallState } from '#core/call'
import type { ToolError } from '#core/errors'
import { isJsonObject, type JsonValue } from '#core/json'
import type { CallFilter } from '#core/ports/operator-store'
import type { CallRecord, Settlement, Store } from '#core/ports/store'
import type { Clock } from '#core/runtime'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { adminRoute, badRequest, NO_STORE, type OperatorAccess, tenantWithin } from './access.ts'
import { renderCall, renderDetails, timelineOf } from './call-view.ts'

const LIST_SCOPE = 'admin:calls'
const READ_SCOPE = 'calls:read'
const SETTLE_SCOPE = 'calls:settle'
const DEFAULT_LIMIT = 100
const HIGHEST_LIMIT = 1_000
const MOST_STEPS = 200
const MOST_NUMBER = Number.MAX_SAFE_INTEGER

/** What operators may do to calls; a store has it all. */
type AdminCalls = Pick<
  Store,
  'list' | 'findByRecord' | 'findByPrefix' | 'stepsOf' | 'readInput' | 'readRun' | 'settle' | 'isWriterAlive'
>

interface CallRoutesOptions {
  readonly calls: AdminCalls
  readonly clock: Clock
  /** Asked before an operator's word for the value of a call is taken; throws what speaks against it. */
  checkValue?(tool: string, value: JsonValue): Promise<void>
}

/**
 * Calls over HTTP: for the start token everywhere, for scopes in their own tenant. `admin:calls` sees what happened,
 * `calls:read` input and outcome too, `calls:settle` settles.
 */
export function createCallRoutes(
  { calls, clock, checkValue }: CallRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const list = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, LIST_SCOPE)
    const filter = readCallFilter(query, clock.nowMs())
    const tenant = tenantWithin(principal)
    const prefix = query.get('record') ?? ''
    const page =
      prefix === ''
        ? await calls.list(tenant === undefined ? filter : { ...filter, tenant })
        : { calls: await calls.findByPrefix(prefix, filter.limit) }
    const found = page.calls.filter((call) => isWithin(tenant, call)).map(renderCall)
    return jsonReply(200, { calls: found, next: page.next ?? null })
  }
  const show = async ({ principal, params }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, LIST_SCOPE)
    const record = params.record ?? ''
    const call = await calls.findByRecord(record)
    if (call === undefined || !isWithin(tenantWithin(principal), call)) throw notFound()
    const look = { record, by: principal.id, atMs: clock.nowMs() }
    const input = access.hasScope(principal, READ_SCOPE) ? await calls.readInput(look) : 'hidden'
    const [events, steps] = [await timelineOf(calls, call), await calls.stepsOf(record, MOST_STEPS)]
    return jsonReply(200, { call: renderDetails({ call, events, steps, input }) }, NO_STORE)
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
    adminRoute(access, 'GET', '/admin/calls/:record', show),
    adminRoute(access, 'POST', '/admin/calls/:record/settle', settle),
  ]
}

/** A number in a query. */
export function wholeNumber(query: URLSearchParams, name: string, fallback: number, most: number): number {
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

/** `?state=&tenant=&principal=&tool=&since=&until=&slow=&before=&limit=` of the operators' list. */
function readCallFilter(query: URLSearchParams, nowMs: number): CallFilter {
  const asked = (name: string): string | undefined => query.get(name) || undefined
  const [tenant, principal, tool] = [asked('tenant'), asked('principal'), asked('tool')]
  const [state, sinceMs, untilMs] = [
    readState(asked('state')),
    readMoment('since', asked('since')),
    readMoment('until', asked('until')),
  ]
  const leastMs = asked('slow') === undefined ? undefined : wholeNumber(query, 'slow', 0, MOST_NUMBER)
  const before = asked('before') === undefined ? undefined : wholeNumber(query, 'before', 0, MOST_NUMBER)
  return {
    limit: readLimit(query.get('limit')),
    ...(state === undefined ? {} : { state }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(principal === undefined ? {} : { principal }),
    ...(tool === undefined ? {} : { tool }),
    ...(sinceMs === undefined ? {} : { sinceMs }),
    ...(untilMs === undefined ? {} : { untilMs }),
    ...(leastMs === undefined ? {} : { slow: { leastMs, nowMs } }),
    ...(before === undefined ? {} : { before }),
  }
}

function readState(asked: string | undefined): CallState | undefined {
  if (asked === undefined) return undefined
  const state = CALL_STATES.find((known) => known === asked)
  if (state === undefined) throw httpFault(400, `\`state\` is one of ${CALL_STATES.join(', ')}.`)
  return state
}

/** A time in a query. */
export function readMoment(name: string, asked: string | undefined): number | undefined {
  if (asked === undefined) return undefined
  const atMs = Date.parse(asked)
  if (Number.isFinite(atMs)) return atMs
  throw httpFault(400, `\`${name}\` is a time like 2026-01-31T10:00:00Z.`)
}

function readLimit(text: string | null): number {
  if (text === null || text === '') return DEFAULT_LIMIT
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= HIGHEST_LIMIT) return limit
  throw httpFault(400, `\`limit\` is a whole number from 1 to ${HIGHEST_LIMIT}.`)
}
