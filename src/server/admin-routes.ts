import type { Authenticator, RequestHeaders } from '#auth/authenticator'
import { readBearer } from '#auth/bearer'
import type { StartToken } from '#auth/start-token'
import { fault } from '#core/errors'
import type { Clock } from '#core/ports/clock'
import type { CallRecord, MaybePromise, SettleResult, Store } from '#core/ports/store'
import { DEFAULT_TENANT, type Principal } from '#core/principal'
import { coversScope } from '#core/scopes'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault } from './http-fault.ts'
import { jsonReply } from './message-reply.ts'
import { readCallFilter } from './read-call-filter.ts'
import { readSettlement } from './read-settlement.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

export interface AdminRoutesOptions {
  readonly calls: AdminCalls
  readonly startToken: Pick<StartToken, 'matches'>
  readonly authenticator: Authenticator
  readonly clock: Clock
}

/** What operators may do to calls; a store has it all. */
export type AdminCalls = Pick<Store, 'list' | 'findByRecord' | 'settle'>

const LIST_SCOPE = 'admin:calls'
const SETTLE_SCOPE = 'calls:settle'

/** Whoever holds the start token: the person at this machine (rule 29). Sees every tenant. */
const OPERATOR: Principal = { id: 'operator', tenant: DEFAULT_TENANT, scopes: [LIST_SCOPE, SETTLE_SCOPE] }

/** Operators' routes. The start token opens these and nothing else; being on loopback is not enough. */
export function createAdminRoutes(options: AdminRoutesOptions): readonly ServerRoute[] {
  const { calls, clock } = options
  const authenticate = (headers: RequestHeaders): MaybePromise<Principal> => findOperator(options, headers)

  const list = async (request: HttpRequest): Promise<HttpReply> => {
    checkScope(request.principal, LIST_SCOPE)
    const filter = readCallFilter(request.query)
    const tenant = tenantOf(request.principal)
    const found = await calls.list(tenant === undefined ? filter : { ...filter, tenant })
    return jsonReply(200, { calls: found.filter((call) => isWithin(tenant, call)).map(renderCall) })
  }

  const settle = async (request: HttpRequest): Promise<HttpReply> => {
    const { principal, params, body } = request
    checkScope(principal, SETTLE_SCOPE)
    const record = params.record ?? ''
    const settlement = readSettlement(body, { record, who: principal.id, atMs: clock.nowMs() })
    const call = await calls.findByRecord(record)
    const result: SettleResult =
      call === undefined || !isWithin(tenantOf(principal), call)
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

function findOperator(options: AdminRoutesOptions, headers: RequestHeaders): MaybePromise<Principal> {
  const bearer = headers.authorization === undefined ? undefined : readBearer(headers.authorization)
  if (bearer !== undefined && options.startToken.matches(bearer)) return OPERATOR
  if (options.authenticator.isConfigured) return options.authenticator.authenticate(headers)
  throw fault(
    'unauthenticated',
    'Deciding about calls needs a credential, on loopback too. Send the start token, which the server keeps in the file start-token-<port> of its data folder, as "Authorization: Bearer <token>".',
  )
}

function checkScope(principal: Principal, scope: string): void {
  if (coversScope(principal.scopes, scope)) return
  throw fault('not_authorized', `This needs a credential with the scope ${scope}.`)
}

/** The only tenant a principal may look at; `undefined` for the operator, who may look at all. */
function tenantOf(principal: Principal): string | undefined {
  return principal === OPERATOR ? undefined : principal.tenant
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
