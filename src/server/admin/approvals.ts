/**
 * Approvals over HTTP: approvers list, inspect and decide them, and create links. Every route needs a credential, on loopback too (rule
 * 29); `Approvals` checks who may decide. The embedded gateway, the pages and the webhooks share the rendering and the refusals.
 */
import {
  APPROVE_CALL,
  type Approval,
  DECISION_BODY,
  LIST_APPROVALS,
  type ListedApproval,
  MAKE_APPROVAL_LINK,
  REJECT_CALL,
  SHOW_APPROVAL,
} from '#admin-api/approvals'
import type { Difference } from '#admin-api/pins'
import type { ApprovalRecord } from '#kernel/approval/approval'
import {
  type Approvals,
  type Approver,
  type Decision,
  type DecisionResult,
  RESPOND_SCOPE,
} from '#kernel/approval/approvals'
import type { ApprovalView, RequestedDefinition } from '#kernel/approval/decisions'
import { fault, type ToolError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { coversScope } from '#kernel/base/principal'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { definitionDiff } from '#sources/kit/definition-diff'
import { approverOf, type OperatorAccess } from './access.ts'
import { badRequest, readAs, serveOperation, timeOf } from './admin-route.ts'

interface ApprovalRoutesOptions {
  readonly approvals: Approvals
  /** Whether approvers can sign in; some links require it before a decision (rule 23). */
  readonly canSignIn: boolean
  /** Whether lists contain whole inputs, for callers in this process; over HTTP the answers would be too long. */
  readonly listsInput?: boolean
  publicUrl(): string
}

export function createApprovalRoutes(
  access: OperatorAccess,
  { approvals, canSignIn, listsInput, publicUrl }: ApprovalRoutesOptions,
): readonly ServerRoute[] {
  /** A link that requires a sign-in can decide only if approvers can sign in (rule 23). */
  const mayLinkDecide = (approval: ApprovalRecord): boolean => !approvals.needsSignIn(approval) || canSignIn
  const checkReader = (reader: Approver): Approver => throwRefusal(reader, approvals.refusalToRead(reader))
  const find = async (approver: Approver, id: string): Promise<ApprovalRecord> => {
    const found = await approvals.find(approver, id)
    if (found === undefined) throw refusalOf({ kind: 'not_found' })
    return found
  }
  const obstacle = (approver: Approver, approval: ApprovalRecord) =>
    approvals.decisionObstacle(approver, approval) ?? null
  const renderWhole = (approver: Approver, approval: ApprovalRecord): { approval: Approval } => {
    const view = approvals.view(approval)
    const shown = maySeeInput(approver) ? renderApproval(view) : renderForReader(view)
    return {
      approval: {
        ...shown,
        ...renderTerms(view),
        obstacle: obstacle(approver, approval),
        link_may_decide: mayLinkDecide(approval),
      },
    }
  }
  return [
    serveOperation(access, LIST_APPROVALS, async ({ principal, query: { state, limit } }) => {
      const approver = checkReader(approverOf(principal))
      const found = await approvals.list(approver, defined({ limit, state }))
      const renderForApprover = listsInput === true ? renderApproval : renderInList
      const render = maySeeInput(approver) ? renderForApprover : renderForReader
      return {
        approvals: found.map((approval) => ({
          ...render(approvals.view(approval)),
          obstacle: obstacle(approver, approval),
        })),
      }
    }),
    serveOperation(access, SHOW_APPROVAL, async ({ principal, id }) => {
      const reader = checkReader(approverOf(principal))
      return renderWhole(reader, await find(reader, id))
    }),
    ...(['approve', 'reject'] as const).map((verb) =>
      serveOperation(access, verb === 'approve' ? APPROVE_CALL : REJECT_CALL, async (request) => {
        const decision = toDecision(verb, request.body)
        const approver = checkApprover(approvals, approverOf(request.principal))
        const result = await approvals.decide(approver, await find(approver, request.id), decision)
        return renderWhole(approver, approvalAfter(result))
      }),
    ),
    serveOperation(access, MAKE_APPROVAL_LINK, async ({ principal, id, body }) => {
      const maker = checkApprover(approvals, approverOf(principal))
      const found = await find(maker, id)
      const { approver } = body
      const power = mayLinkDecide(found) ? body.power : 'inspect'
      const made = await approvals.mint(maker, found, { approver, power })
      if (made.kind !== 'minted') throw refusalOf(made)
      const { token } = made
      const needsSignIn = approvals.needsSignIn(found) && power === 'decide'
      return { url: `${publicUrl()}/approve/${token}`, token, approver, power, needs_sign_in: needsSignIn }
    }),
  ]
}

/** Throws a refusal if the approver may not decide anything. */
export function checkApprover(approvals: Approvals, approver: Approver): Approver {
  return throwRefusal(approver, approvals.refusalToDecide(approver))
}

function throwRefusal(approver: Approver, refusal: ReturnType<Approvals['refusalToDecide']>): Approver {
  if (refusal !== undefined) throw refusalOf(refusal)
  return approver
}

/** Only approvers see the input here. Other readers get it from the call's own route, which journals the read. */
function maySeeInput({ scopes }: Approver): boolean {
  return coversScope(scopes, RESPOND_SCOPE)
}

type DecisionBody = ReturnType<ReturnType<typeof DECISION_BODY>['parse']>

export function readDecision(verb: 'approve' | 'reject', body: unknown): Decision {
  return toDecision(verb, readAs(DECISION_BODY(), body, 'The decision'))
}

function toDecision(verb: 'approve' | 'reject', { reason, override, accept_hidden }: DecisionBody): Decision {
  const fields = { reason: reason?.trim() === '' ? undefined : reason, acceptsHidden: accept_hidden }
  if (!override) return { action: verb === 'approve' ? 'grant' : 'reject', ...fields }
  if (verb === 'reject') throw badRequest('`override` can only be sent with an approval.')
  if (fields.reason === undefined) throw badRequest('An override needs a `reason`.')
  return { action: 'override', ...fields }
}

/** Returns the approval after a decision that counts; throws a refusal otherwise. */
export function approvalAfter(result: DecisionResult): ApprovalRecord {
  if (result.kind === 'decided' || result.kind === 'counted') return result.approval
  throw refusalOf(result)
}

type RefusedResult = Exclude<DecisionResult, { readonly kind: 'decided' | 'counted' }>

export function refusalOf(refused: RefusedResult): ToolError {
  return refused.kind === 'forbidden'
    ? fault('not_authorized', `This needs a credential with the scope ${refused.scope}.`)
    : REFUSALS[refused.kind]()
}

const REFUSALS: Readonly<Record<Exclude<RefusedResult['kind'], 'forbidden'>, () => ToolError>> = {
  unauthenticated: () =>
    fault('unauthenticated', 'Deciding about calls requires a credential, even on loopback.'),
  not_found: () =>
    httpFault(404, 'There is no such approval. "collet approvals list" and GET /admin/approvals list them.'),
  own: () => fault('not_authorized', 'The caller of a tool cannot approve its own call.'),
  link_only_shows: () => httpFault(403, 'Deciding this call requires a credential; a link is not enough.'),
  stale: () =>
    httpFault(
      409,
      'The definition of the tool has changed since the approval was requested; make a new call.',
    ),
  hidden: () =>
    httpFault(
      409,
      'Some of the input is hidden. To approve it anyway, send "accept_hidden": true (collet approvals approve --accept-hidden).',
    ),
  resolved: () => httpFault(409, 'This has already been decided.'),
  expired: () => httpFault(410, 'The time to decide has run out.'),
  cancelled: () => httpFault(422, 'The call was cancelled, so there is nothing to decide.'),
}

export function renderApproval(view: ApprovalView) {
  return { ...renderInList(view), description: view.description ?? null, input: view.input }
}

/** Everything that the approval screen shows to an approver. */
export function renderQuestion(view: ApprovalView) {
  return { ...renderApproval(view), ...renderTerms(view) }
}

/** Renders an approval for readers who may not see the input: they see who made the call, who decided, when and why. */
function renderForReader(view: ApprovalView) {
  return { ...renderInList(view), summary: null, description: view.description ?? null }
}

/** Why approval is needed, which credentials it covers, and how the tool has changed since it was requested. */
function renderTerms({ needed, asked, served, isStale }: ApprovalView) {
  const { authorization = [], secrets = [] } = (asked ?? served)?.requirements ?? {}
  return {
    needed: needed ?? null,
    credentials: [
      ...authorization.map(({ id }) => ({ kind: 'authorization' as const, id })),
      ...secrets.map(({ id }) => ({ kind: 'secret' as const, id })),
    ],
    changes: isStale && asked !== undefined && served !== undefined ? changesOf(asked, served) : null,
  }
}

/** Changes to the tool's definition; empty if only its code has changed. */
function changesOf(before: RequestedDefinition, after: RequestedDefinition): readonly Difference[] {
  const offered = (definition: RequestedDefinition) => ({
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

/** Renders the size of the input instead of the input. */
export function renderInList(view: ApprovalView): Omit<ListedApproval, 'obstacle'> {
  return {
    id: view.id,
    state: view.state,
    stale: view.isStale,
    tenant: view.tenant,
    principal: view.principal,
    record: view.record,
    call_id: view.callId,
    run_id: view.runId,
    user_id: view.userId ?? null,
    user_proven: view.isUserProven,
    attempt: view.attempt,
    tool: view.tool,
    tool_id: view.toolId,
    safety_tier: view.safetyTier,
    args_hash: view.argsHash,
    definition_hash: view.definitionHash,
    summary: view.summary,
    input_bytes: view.inputBytes,
    hidden_values: view.hiddenValues,
    hides_something: view.hidesSomething,
    quorum: view.quorum,
    required_scope: view.requiredScope,
    created_at: timeOf(view.createdAtMs),
    expires_at: timeOf(view.expiresAtMs),
    decided_at: timeOf(view.decidedAtMs),
    decisions: renderDecisions(view.decisions),
  }
}

/** Includes the names of those who decided; the events of a run have only opaque ids. */
export function renderDecisions(decisions: ApprovalRecord['decisions']): ListedApproval['decisions'] {
  return decisions.map(({ by, action, reason, atMs }) => ({
    by,
    action,
    reason: reason ?? null,
    at: timeOf(atMs),
  }))
}
