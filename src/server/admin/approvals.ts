import type { ApprovalFilter, ApprovalRecord, ApprovalState } from '#kernel/approval/approval'
import {
  type Approvals,
  type Approver,
  type Decision,
  type DecisionResult,
  RESPOND_SCOPE,
} from '#kernel/approval/approvals'
import type { ApprovalView, AskedDefinition } from '#kernel/approval/decisions'
import { fault, type ToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { coversScope } from '#kernel/base/principal'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { definitionDiff } from '#sources/kit/definition-diff'
import type { Difference } from '#sources/kit/schema-diff'
import { adminRoute, approverOf, badRequest, type OperatorAccess } from './access.ts'

interface ApprovalRoutesOptions {
  readonly approvals: Approvals
  /** Whether approvers can sign in, for links that decide only then (rule 23). */
  readonly canSignIn: boolean
  /** Whether lists have whole inputs too, where room is not bounded. */
  readonly listsInput?: boolean
  publicUrl(): string
}

export const MAX_REASON_LENGTH = 1_000
const APPROVER_NAME = /^[A-Za-z0-9][A-Za-z0-9._@+|:-]{0,127}$/

/** Approvers' routes: list, look, decide, and make links. They need a credential, on loopback too (rule 29). */
export function createApprovalRoutes(
  options: ApprovalRoutesOptions,
  access: Pick<OperatorAccess, 'authenticate'>,
): readonly ServerRoute[] {
  const { approvals } = options
  const list = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    const approver = checkReader(approvals, approverOf(principal))
    const found = await approvals.list(approver, readFilter(query))
    const render = !maySeeInput(approver)
      ? renderForReader
      : options.listsInput === true
        ? renderApproval
        : renderInList
    const rows = found.map((approval) => ({
      ...render(approvals.view(approval)),
      hindrance: approvals.decisionObstacle(approver, approval) ?? null,
    }))
    return jsonReply(200, { approvals: rows }, FRESH)
  }
  /** Whether a link may do more than show: where it needs a sign-in, there has to be one (rule 23). */
  const mayLinkDecide = (approval: ApprovalRecord): boolean =>
    !approvals.needsSignIn(approval) || options.canSignIn
  /** Whole, for the one who asks. */
  const shownTo = ({ principal }: HttpRequest, approval: ApprovalRecord): HttpReply => {
    const view = approvals.view(approval)
    const approver = approverOf(principal)
    const hindrance = approvals.decisionObstacle(approver, approval) ?? null
    const shown = maySeeInput(approver)
      ? renderQuestion(view)
      : { ...renderForReader(view), ...termsOf(view) }
    const own = { hindrance, link_may_decide: mayLinkDecide(approval) }
    return jsonReply(200, { approval: { ...shown, ...own } }, FRESH)
  }
  const show = async (request: HttpRequest): Promise<HttpReply> => {
    const reader = checkReader(approvals, approverOf(request.principal))
    const found = await approvals.find(reader, request.params.id ?? '')
    if (found === undefined) throw refusalOf('not_found')
    return shownTo(request, found)
  }
  const decide =
    (verb: 'approve' | 'reject') =>
    async (request: HttpRequest): Promise<HttpReply> => {
      const decision = readDecision(verb, request.body)
      const found = await findApproval(approvals, request)
      const result = await approvals.decide(approverOf(request.principal), found, decision)
      return shownTo(request, decided(result))
    }
  const link = async (request: HttpRequest): Promise<HttpReply> => {
    const asked = readLinkRequest(request.body)
    const found = await findApproval(approvals, request)
    const isBound = approvals.needsSignIn(found)
    const power = mayLinkDecide(found) ? asked.power : 'inspect'
    const made = await approvals.mint(approverOf(request.principal), found, { ...asked, power })
    if (made.kind === 'forbidden') throw lacksScope(made.scope)
    if (made.kind !== 'minted') throw refusalOf(made.kind)
    const answer = {
      url: `${options.publicUrl()}/approve/${made.token}`,
      token: made.token,
      approver: asked.approver,
      power,
      needs_sign_in: isBound && power === 'decide',
    } satisfies RenderedLink
    return jsonReply(200, answer, FRESH)
  }
  const path = '/admin/approvals'
  return [
    adminRoute(access, 'GET', path, list),
    adminRoute(access, 'GET', `${path}/:id`, show),
    adminRoute(access, 'POST', `${path}/:id/approve`, decide('approve')),
    adminRoute(access, 'POST', `${path}/:id/reject`, decide('reject')),
    adminRoute(access, 'POST', `${path}/:id/link`, link),
  ]
}

const FRESH = { 'cache-control': 'no-store' } as const

/** A link for one approver, as operators get it. */
export interface RenderedLink {
  readonly url: string
  readonly token: string
  readonly approver: string
  /** Without a sign-in a link may only show what it is about. */
  readonly power: 'decide' | 'inspect'
  readonly needs_sign_in: boolean
}

/** Throws what an approver lacks to decide at all. */
export function checkApprover(approvals: Approvals, approver: Approver): Approver {
  return allowed(approver, approvals.lacks(approver))
}

/** Throws what a reader lacks to see approvals. */
function checkReader(approvals: Approvals, reader: Approver): Approver {
  return allowed(reader, approvals.lacksToRead(reader))
}

/** The input is for those who decide about it; everyone else asks for it with the call, which journals that they looked. */
function maySeeInput({ scopes }: Approver): boolean {
  return coversScope(scopes, RESPOND_SCOPE)
}

function allowed(approver: Approver, lacks: ReturnType<Approvals['lacks']>): Approver {
  if (lacks?.kind === 'forbidden') throw lacksScope(lacks.scope)
  if (lacks !== undefined) throw refusalOf(lacks.kind)
  return approver
}

async function findApproval(approvals: Approvals, request: HttpRequest): Promise<ApprovalRecord> {
  const found = await approvals.find(
    checkApprover(approvals, approverOf(request.principal)),
    request.params.id ?? '',
  )
  if (found === undefined) throw refusalOf('not_found')
  return found
}

const STATES: readonly ApprovalState[] = ['pending', 'granted', 'used', 'rejected', 'expired', 'cancelled']

function readFilter(query: URLSearchParams): Omit<ApprovalFilter, 'tenant'> {
  return checkFilter({ state: query.get('state') ?? undefined, limit: Number(query.get('limit') ?? 100) })
}

export function checkFilter({
  state: asked,
  limit,
}: {
  readonly state: string | undefined
  readonly limit: number
}): Omit<ApprovalFilter, 'tenant'> {
  if (!Number.isInteger(limit) || limit < 1 || limit > 1_000) {
    throw fault('request_invalid', '`limit` is a whole number from 1 to 1000.')
  }
  const state = STATES.find((known) => known === asked)
  if (asked !== undefined && state === undefined) {
    throw fault('request_invalid', `\`state\` is one of ${STATES.join(', ')}.`)
  }
  return { limit, ...(state === undefined ? {} : { state }) }
}

/** `{ reason?, override?, acceptHidden? }`; no body at all is a plain yes or no. */
export function readDecision(verb: 'approve' | 'reject', body: JsonValue | undefined): Decision {
  if (body !== undefined && !isJsonObject(body))
    throw badRequest('Send a JSON object, with an optional `reason`.')
  const { reason, override, acceptHidden, ...rest } = body ?? {}
  if (Object.keys(rest).length > 0) {
    throw badRequest('Only `reason`, `override` and `acceptHidden` may be sent.')
  }
  if (acceptHidden !== undefined && typeof acceptHidden !== 'boolean') {
    throw badRequest('`acceptHidden` is true or false.')
  }
  const acceptsHidden = acceptHidden === true
  if (
    reason !== undefined &&
    (typeof reason !== 'string' || reason.length > MAX_REASON_LENGTH || reason.includes('\0'))
  ) {
    throw badRequest(`\`reason\` is a text of at most ${MAX_REASON_LENGTH} characters, without NUL.`)
  }
  if (override !== undefined && typeof override !== 'boolean')
    throw badRequest('`override` is true or false.')
  const why = typeof reason === 'string' && reason.trim() !== '' ? reason : undefined
  if (override !== true)
    return { action: verb === 'approve' ? 'grant' : 'reject', reason: why, acceptsHidden }
  if (verb === 'reject') throw badRequest('`override` can only be sent with an approval.')
  if (why === undefined) throw badRequest('An override needs a `reason`.')
  return { action: 'override', reason: why, acceptsHidden }
}

/** `{ approver, power? }`: for whom, and whether it may decide or only shows. */
function readLinkRequest(body: JsonValue | undefined) {
  const { approver, power = 'decide' } = isJsonObject(body) ? body : {}
  if (typeof approver !== 'string' || !APPROVER_NAME.test(approver)) {
    throw badRequest('`approver` names the person the link is for, such as "alice@example.com".')
  }
  if (power !== 'decide' && power !== 'inspect') throw badRequest('`power` is "decide" or "inspect".')
  return { approver, power } as const
}

/** The approval after a decision that counts; everything else is a refusal in words. */
export function decided(result: DecisionResult): ApprovalRecord {
  if (result.kind === 'decided' || result.kind === 'counted') return result.approval
  if (result.kind === 'forbidden') throw lacksScope(result.scope)
  throw refusalOf(result.kind)
}

function lacksScope(scope: string): ToolError {
  return fault('not_authorized', `This needs a credential with the scope ${scope}.`)
}

function refusalOf(kind: Exclude<DecisionResult['kind'], 'decided' | 'counted' | 'forbidden'>): ToolError {
  switch (kind) {
    case 'unauthenticated':
      return fault('unauthenticated', 'Deciding about calls requires a credential, even on loopback.')
    case 'not_found':
      return httpFault(
        404,
        'There is no such approval. "collet approvals list" and GET /admin/approvals list them.',
      )
    case 'own':
      return fault('not_authorized', 'The caller of a tool cannot approve its own call.')
    case 'link_only_shows':
      return httpFault(403, 'This call needs a credential to be decided, not a link.')
    case 'stale':
      return httpFault(
        409,
        'The definition of the tool has changed since the approval was requested; make a new call.',
      )
    case 'hidden':
      return httpFault(
        409,
        'Some of the input is hidden. To approve it anyway, send "acceptHidden": true (collet approvals approve --accept-hidden).',
      )
    case 'resolved':
      return httpFault(409, 'This has already been decided.')
    case 'expired':
      return httpFault(410, 'The time to decide has run out.')
    case 'cancelled':
      return httpFault(422, 'The call was cancelled, so there is nothing to decide.')
  }
}

/** An approval as operators see it; lists have no input. */
export type RenderedApproval = ReturnType<typeof renderInList> & {
  /** What keeps the one who asked from saying yes. */
  readonly hindrance?: string | null
  readonly description?: string | null
  readonly input?: JsonValue
}

/** A question as operators see it: ids, what the tool does, a summary of the input, and all of it. */
export function renderApproval(view: ApprovalView) {
  return { ...renderInList(view), description: view.description ?? null, input: view.input }
}

/** Everything that an approver decides on, as the approval screen shows it. */
export function renderQuestion(view: ApprovalView) {
  return { ...renderApproval(view), ...termsOf(view) }
}

/** Who asked, who decided, when and why, without the input. */
function renderForReader(view: ApprovalView) {
  return { ...renderInList(view), summary: null, description: view.description ?? null }
}

/** What else there is to know before a yes: why it is asked for, which credentials it covers, and what has changed since. */
function termsOf({ needed, asked, served, isStale }: ApprovalView) {
  const { authorization = [], secrets = [] } = (asked ?? served)?.requirements ?? {}
  return {
    needed: needed ?? null,
    credentials: [
      ...authorization.map(({ id }) => ({ kind: 'authorization', id })),
      ...secrets.map(({ id }) => ({ kind: 'secret', id })),
    ],
    changes: isStale && asked !== undefined && served !== undefined ? changesOf(asked, served) : null,
  }
}

/** Empty when only its code is another. */
function changesOf(before: AskedDefinition, after: AskedDefinition): readonly Difference[] {
  const offered = (definition: AskedDefinition) => ({
    identity: {},
    offered: { ...definition, nativeName: '', binding: {} },
  })
  const terms = (['safetyTier', 'approval'] as const).flatMap((name): readonly Difference[] => {
    const [was, is] = [before.policy[name], after.policy[name]]
    return was === is
      ? []
      : [{ where: `policy/${name}`, class: 'breaking', says: 'changes', before: was, after: is }]
  })
  return [...terms, ...definitionDiff(offered(before), offered(after))]
}

/** The same in lists and where room is bounded: how large the whole is stands in its place. */
export function renderInList(view: ApprovalView) {
  const { id, state, tenant, principal, record, attempt, tool, quorum, summary, decidedAtMs } = view
  return {
    id,
    state,
    stale: view.isStale,
    tenant,
    principal,
    record,
    call_id: view.callId,
    run_id: view.runId,
    user_id: view.userId ?? null,
    user_proven: view.isUserProven,
    attempt,
    tool,
    tool_id: view.toolId,
    safety_tier: view.safetyTier,
    args_hash: view.argsHash,
    definition_hash: view.definitionHash,
    summary,
    input_bytes: view.inputBytes,
    hidden_values: view.hiddenValues,
    hides_something: view.hidesSomething,
    quorum,
    required_scope: view.requiredScope,
    created_at: timeOf(view.createdAtMs),
    expires_at: timeOf(view.expiresAtMs),
    decided_at: decidedAtMs === undefined ? null : timeOf(decidedAtMs),
    decisions: view.decisions.map(({ by, action, reason, atMs }) => ({
      by,
      action,
      reason: reason ?? null,
      at: timeOf(atMs),
    })),
  }
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
