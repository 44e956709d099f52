import { type Authenticator, type RequestHeaders, readBearer } from '#auth/authenticator'
import type { StartToken } from '#auth/start-token'
import type { Approver } from '#kernel/approval/approvals'
import { fault, type ToolError } from '#kernel/base/errors'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { coversScope, DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import { API_KEY_HEADERS, type HttpReply, type HttpRequest, type HttpRoute } from '#protocols/http-exchange'
import { httpFault, refuseWithMessage } from '#server/http/exchange'
import { Router, type ServerRoute } from '#server/http/router'
import type { NoteDenial } from '#server/telemetry/denials'

/** The header in which answers to operators say as whom they were let in. */
export const ACTING_AS = 'collet-acting-as'

/** Every scope that the server's own routes ask for. */
export const SERVER_SCOPES = [
  'admin:calls',
  'admin:keys',
  'admin:pins',
  'admin:reload',
  'admin:secrets',
  'admin:sources',
  'admin:webhooks',
  'approvals:override',
  'approvals:read',
  'approvals:respond',
  'audit:read',
  'calls:read',
  'calls:settle',
  'metrics:read',
  'users:assert',
] as const

type ServerScope = (typeof SERVER_SCOPES)[number]

interface OperatorAccessOptions {
  readonly startToken: Pick<StartToken, 'matches'>
  readonly authenticator: Authenticator
  readonly noteDenial?: NoteDenial
}

/** Who may use operators' routes: the start token opens these and nothing else; being on loopback is not enough. */
export interface OperatorAccess {
  authenticate(headers: RequestHeaders): Promise<Principal>
  /** The same for what callers may look at too: where nobody needs a credential, nobody needs one here. */
  admit(headers: RequestHeaders): Promise<Principal>
  /** Throws `not_authorized`, and has it written down. */
  requireScope(principal: Principal, scope: ServerScope): void
  /** Whether more may be shown; a no is nothing to write down. */
  hasScope(principal: Principal, scope: ServerScope): boolean
  /** Has a refusal written down that only the work behind the scope could make. */
  noteDenied(principal: Principal, scope: ServerScope): void
}

export function createOperatorAccess(options: OperatorAccessOptions): OperatorAccess {
  const { startToken, authenticator, noteDenial } = options
  const noteDenied = (principal: Principal, scope: ServerScope): void =>
    noteDenial?.(principal, { action: 'admin', resource: scope, reason: 'scope' })
  const admit = async (headers: RequestHeaders): Promise<Principal> => {
    const bearer = headers.authorization === undefined ? undefined : readBearer(headers.authorization)
    if (bearer === undefined || !startToken.matches(bearer)) return await authenticator.authenticate(headers)
    // One bad credential is 401, whatever stands beside it (OTC/T-28).
    const { authorization: _startToken, ...others } = headers
    if (API_KEY_HEADERS.some((name) => others[name] !== undefined)) await authenticator.authenticate(others)
    return OPERATOR
  }
  return {
    noteDenied,
    admit,
    async authenticate(headers) {
      const principal = await admit(headers)
      if (isOperator(principal) || authenticator.isConfigured) return principal
      throw fault(
        'unauthenticated',
        'Managing calls, keys, secrets and approvals requires a credential, even on loopback. Send the start token, which the server keeps in the file start-token-<port> of its data folder, as "Authorization: Bearer <token>".',
      )
    },
    hasScope: ({ scopes }, scope) => coversScope(scopes, scope),
    requireScope(principal, scope) {
      if (coversScope(principal.scopes, scope)) return
      noteDenied(principal, scope)
      throw fault('not_authorized', `This needs a credential with the scope ${scope}.`)
    },
  }
}

/** Access for the person who opened the store with its key: may do everything, under the name they have on this machine. */
export function createLocalAccess(id: string): OperatorAccess {
  const operator = createOperator(id)
  return {
    authenticate: async () => operator,
    admit: async () => operator,
    requireScope: () => {},
    hasScope: () => true,
    noteDenied: () => {},
  }
}

const OPERATORS = new WeakSet<Principal>()

/** The person at this machine (rule 29), who holds the start token: sees every tenant, and is let in by these routes alone. */
export const OPERATOR = createOperator('operator')

function createOperator(id: string): Principal {
  const operator: Principal = { id, tenant: DEFAULT_TENANT, scopes: ['*'] }
  OPERATORS.add(operator)
  return operator
}

export function isOperator(principal: Principal): boolean {
  return OPERATORS.has(principal)
}

/** The only tenant a principal may look at; `undefined` for the operator, who may look at all. */
export function tenantWithin(principal: Principal): string | undefined {
  return isOperator(principal) ? undefined : principal.tenant
}

/** The operator decides in every tenant, everybody else in its own. */
export function approverOf(principal: Principal): Approver {
  return { id: principal.id, tenant: tenantWithin(principal), scopes: principal.scopes }
}

/** For what belongs to the whole server: a credential of one tenant among several may not decide about the others' tools. */
export function requireServerScope(principal: Principal, scope: ServerScope, access: OperatorAccess): void {
  access.requireScope(principal, scope)
  if (isOperator(principal) || principal.tenant === DEFAULT_TENANT) return
  access.noteDenied(principal, scope)
  throw fault('not_authorized', 'This concerns the whole server, and this credential is for one tenant.')
}

/** A route of operators: it has its own authentication, refuses in plain words, and no cache keeps its answers. */
export function adminRoute(
  { authenticate }: Pick<OperatorAccess, 'authenticate'>,
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  handle: (request: HttpRequest) => Promise<HttpReply>,
): ServerRoute {
  return {
    ...{ access: 'authenticated', authenticate, method, path },
    body: method === 'POST' ? 'json' : 'never',
    refuse: (...refused) => unstored(refuseWithMessage(...refused)),
    async handle(request) {
      if (holdsNul(request.body)) throw badRequest('A text in the body holds the character NUL.')
      return unstored(await handle(request))
    },
  }
}

function unstored(reply: HttpReply): HttpReply {
  return { ...reply, headers: { ...NO_STORE, ...reply.headers } }
}

/** No store keeps such a text, so it is refused before anything is done. Bodies are at most 100 levels deep. */
function holdsNul(value: JsonValue | undefined): boolean {
  if (typeof value === 'string') return value.includes('\0')
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([name, member]) => name.includes('\0') || holdsNul(member))
}

/** A request that a route of operators cannot read. */
export function badRequest(message: string): ToolError {
  return fault('request_invalid', message)
}

/** A number in a query. */
export function wholeNumber(query: URLSearchParams, name: string, fallback: number, most: number): number {
  const text = query.get(name)
  if (text === null) return fallback
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (number <= most) return number
  throw httpFault(400, `${name}: expected a whole number up to ${most}.`)
}

/** For answers that are of now, and the caller's alone. */
export const NO_STORE = { 'cache-control': 'no-store' }

export function momentOf(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString()
}

/** Lets the start token open those routes of protocols that are for operators too. */
export function openToOperators(
  routes: readonly HttpRoute[],
  { authenticate }: Pick<OperatorAccess, 'authenticate'>,
): readonly ServerRoute[] {
  return routes.map((route) => (route.forOperators === true ? { ...route, authenticate } : route))
}

/** One request to a route of operators. */
export interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** With its query. */
  readonly path: string
  readonly body?: JsonObject
  /** It changes nothing, though it is no GET: what it asks about is not for an address. */
  readonly isQuestion?: true
  /** It leaves a trace in the journal, though it is a GET. */
  readonly isJournaled?: true
}

/** Answers a request in this process as a server would, without a listener; refusals are thrown. */
export async function callInProcess(routes: readonly ServerRoute[], asked: AdminRequest): Promise<JsonValue> {
  const body = await bodyInProcess(routes, asked)
  return JSON.parse(body instanceof Uint8Array ? new TextDecoder().decode(body) : String(body))
}

/** The same for an answer that comes piece by piece, until `ended` is aborted. */
export async function streamInProcess(
  routes: readonly ServerRoute[],
  asked: AdminRequest,
  ended: AbortSignal,
): Promise<AsyncIterable<string>> {
  const body = await bodyInProcess(routes, asked)
  if (typeof body === 'function') return body(ended)
  throw httpFault(404, 'There is no stream at this path.')
}

async function bodyInProcess(
  routes: readonly ServerRoute[],
  { method, path: target, body }: AdminRequest,
): Promise<HttpReply['body']> {
  const [path = '', search] = target.split('?')
  const found = new Router(routes).find(method, path)
  const principal = await found?.route.authenticate?.({})
  if (found === undefined || principal === undefined) throw httpFault(404, 'There is nothing at this path.')
  const { route, params } = found
  const query = new URLSearchParams(search)
  const request = { method, path, query, params, principal, body, headers: {}, traceId: '' }
  return (await route.handle(request)).body
}
