import { ownRunId } from '#core/ids'
import type { CallRecord, SettleResult, Store } from '#core/ports/store'
import type { Clock } from '#core/runtime'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault } from './http-fault.ts'
import { jsonReply } from './message-reply.ts'
import { createOperatorAccess, type OperatorAccessOptions, tenantWithin } from './operator-access.ts'
import { readCallFilter } from './read-call-filter.ts'
import { readSettlement } from './read-settlement.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

export interface AdminRoutesOptions extends OperatorAccessOptions {
  readonly calls: AdminCalls
  readonly clock: Clock
}

/** What operators may do to calls; a store has it all. */
export type AdminCalls = Pick<Store, 'list' | 'findByRecord' | 'settle'>

const LIST_SCOPE = 'admin:calls'
const SETTLE_SCOPE = 'calls:settle'

/** Operators' routes. The start token opens these and nothing else; being on loopback is not enough. */
export function createAdminRoutes(options: AdminRoutesOptions): readonly ServerRoute[] {
  const { calls, clock } = options
  const { authenticate, requireScope } = createOperatorAccess(options)

  const list = async (request: HttpRequest): Promise<HttpReply> => {
    requireScope(request.principal, LIST_SCOPE)
    const filter = readCallFilter(request.query)
    const tenant = tenantWithin(request.principal)
    const found = await calls.list(tenant === undefined ? filter : { ...filter, tenant })
    return jsonReply(200, { calls: found.filter((call) => isWithin(tenant, call)).map(renderCall) })
  }

  const settle = async (request: HttpRequest): Promise<HttpReply> => {
    const { principal, params, body } = request
    requireScope(principal, SETTLE_SCOPE)
    const record = params.record ?? ''
    const settlement = readSettlement(body, { record, who: principal.id, atMs: clock.nowMs() })
    const call = await calls.findByRecord(record)
    const result: SettleResult =
      call === undefined || !isWithin(tenantWithin(principal), call)
        ? 'not_found'
        : await calls.settle(settlement)
    return renderResult(result, record, settlement.as)
  }

  const shared = { access: 'authenticated', authenticate, refuse: refuseWithMessage } as const
  return [
    { ...shared, method: 'GET', path: '/admin/calls', body: 'never', handle: list },
    { ...shared, method: 'POST', path: '/admin/calls/:record/settle', body: 'json', handle: settle },
  ]
}

function isWithin(tenant: string | undefined, call: CallRecord): boolean {
  return tenant === undefined || call.tenant === tenant
}

function renderResult(result: SettleResult, record: string, as: string): HttpReply {
  switch (result) {
    case 'settled':
      return jsonReply(200, { record, settled_as: as })
    case 'not_found':
      throw httpFault(
        404,
        'There is no call with this record id; GET /admin/calls?state=ambiguous lists them.',
      )
    case 'not_ambiguous':
      throw httpFault(400, 'Only an ambiguous call can be settled, and this one is not ambiguous (any more).')
  }
}

/** What happened, without input and output. */
function renderCall(call: CallRecord): object {
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
