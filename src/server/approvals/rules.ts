/**
 * Standing rules over HTTP: approvers make them from a request for approval, see what they would have approved, list and revoke them.
 * Invariant: who makes a rule could have approved the request itself, and the rule covers that request.
 */
import {
  CREATE_RULE,
  LIST_RULES,
  PREVIEW_RULE,
  REVOKE_RULE,
  type Rule,
  type RuleCondition,
} from '#admin-api/rules'
import type { ApprovalRecord } from '#kernel/approval/approval'
import type { Approvals, Approver } from '#kernel/approval/approvals'
import type { Clock } from '#kernel/base/clock'
import { newSecretId } from '#kernel/base/hash'
import { defined } from '#kernel/base/json'
import { approverOf, type OperatorAccess } from '#server/admin/access'
import { badRequest, serveOperation, timeOf } from '#server/admin/admin-route'
import { checkApprover, refusalOf } from '#server/admin/approvals'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import {
  type RuleCondition as Condition,
  conditionProblem,
  conditionsFor,
  covers,
  coversInput,
  ruleObstacle,
  type StandingRule,
  stateOfRule,
} from '#stages/standing-rules/rule'
import { askedBy } from '#stages/standing-rules/standing-rules'
import type { Store } from '#store/collet-store'

interface RuleRoutesOptions {
  readonly approvals: Approvals
  readonly store: Pick<Store, 'standingRules' | 'approvals'>
  readonly clock: Clock
  /** Hash of the definition that is served under this id; `undefined` if it is not known. */
  definitionOf(tool: string): string | undefined
}

const YEAR_MS = 366 * 86_400_000
/** Number of earlier requests that a preview compares. */
const MAX_COMPARED = 50
/** Number of the newest requests among which a preview looks for them. */
const MAX_SEARCHED = 1_000

export function createRuleRoutes(
  access: OperatorAccess,
  { approvals, store, clock, definitionOf }: RuleRoutesOptions,
): readonly ServerRoute[] {
  const render = (rule: StandingRule): Rule => renderRule(rule, clock.nowMs(), definitionOf(rule.tool))
  /** The request that a rule is made from; throws if this approver may not approve calls like it in advance. */
  const findSource = async (maker: Approver, id: string): Promise<ApprovalRecord> => {
    const found = await approvals.find(maker, id)
    const refusal = approvals.refusalToApprove(maker, found)
    if (refusal !== undefined) throw refusalOf(refusal)
    if (found === undefined) throw refusalOf({ kind: 'not_found' })
    const obstacle = ruleObstacle(askedBy(found))
    if (obstacle !== undefined) throw httpFault(409, OBSTACLES[obstacle])
    const served = definitionOf(found.tool)
    if (served !== undefined && served !== found.definitionHash)
      throw refusalOf({ kind: 'stale', approval: found })
    return found
  }
  return [
    serveOperation(access, LIST_RULES, async ({ principal, query: { state, limit } }) => {
      const { tenant } = checkApprover(approvals, approverOf(principal))
      const page = { limit, isWhole: state === 'all', nowMs: clock.nowMs(), ...defined({ tenant }) }
      return { rules: (await store.standingRules.list(page)).map(render) }
    }),
    serveOperation(access, PREVIEW_RULE, async ({ principal, id, body }) => {
      const source = await findSource(approverOf(principal), id)
      const asked = askedBy(source)
      const conditions = body.conditions?.map(toCondition) ?? conditionsFor(asked.input)
      checkConditions(conditions)
      const recent = (await store.approvals.list({ tenant: source.tenant, limit: MAX_SEARCHED }))
        .filter(({ principal: caller, tool }) => caller === source.principal && tool === source.tool)
        .slice(0, MAX_COMPARED)
      const covered = recent.filter((approval) => covers({ ...asked, conditions }, askedBy(approval)))
      return { conditions: conditions.map(renderCondition), covered: covered.length, of: recent.length }
    }),
    serveOperation(access, CREATE_RULE, async ({ principal, body }) => {
      const maker = approverOf(principal)
      const source = await findSource(maker, body.approval)
      const { input, quorum: _quorum, isShownWhole: _whole, ...subject } = askedBy(source)
      const conditions = body.conditions.map(toCondition)
      checkConditions(conditions)
      if (!coversInput(conditions, input)) throw badRequest(NOT_COVERED)
      const nowMs = clock.nowMs()
      const expiresAtMs = Date.parse(body.expires_at)
      if (expiresAtMs <= nowMs || expiresAtMs > nowMs + YEAR_MS)
        throw badRequest('expires_at: must be in the future, and at most a year from now.')
      const rule = {
        ...subject,
        ...{ id: newSecretId(), conditions, approval: source.id, expiresAtMs },
        ...{ maxUses: body.max_uses, reason: body.reason, createdBy: maker.id, createdAtMs: nowMs },
      }
      await store.standingRules.create(rule)
      return { rule: render({ ...rule, uses: 0, revokedBy: undefined, revokedAtMs: undefined }) }
    }),
    serveOperation(access, REVOKE_RULE, async ({ principal, id }) => {
      const { tenant, id: by } = checkApprover(approvals, approverOf(principal))
      const isRevoked = await store.standingRules.revoke({ rule: id, tenant, by, atMs: clock.nowMs() })
      const rule = isRevoked ? await store.standingRules.find(id) : undefined
      if (rule === undefined)
        throw httpFault(404, 'There is no rule with this id, or it has already been revoked.')
      return { rule: render(rule) }
    }),
  ]
}

const OBSTACLES = {
  exec: 'Calls of tools that run commands are approved one at a time.',
  quorum: 'Calls that need several approvers are approved one at a time.',
  hidden: 'Part of the input is hidden, so no rule can be made from this request.',
} as const

const NOT_COVERED =
  'conditions: do not cover the request that the rule is made from. Name each member of its input in a condition that it meets.'

function checkConditions(conditions: readonly Condition[]): void {
  const problem = conditionProblem(conditions)
  if (problem !== undefined) throw badRequest(`conditions: ${problem}`)
}

function toCondition(condition: RuleCondition): Condition {
  if (!('one_of' in condition)) return condition
  const { path, one_of: oneOf } = condition
  return { path, oneOf }
}

function renderCondition(condition: Condition): RuleCondition {
  if (!('oneOf' in condition)) return condition
  const { path, oneOf } = condition
  return { path, one_of: oneOf }
}

function renderRule(rule: StandingRule, nowMs: number, served: string | undefined): Rule {
  return {
    id: rule.id,
    state: stateOfRule(rule, nowMs),
    tenant: rule.tenant,
    principal: rule.principal,
    user_id: rule.userId ?? null,
    tool: rule.tool,
    safety_tier: rule.tier,
    definition_hash: rule.definitionHash,
    stale: served !== undefined && served !== rule.definitionHash,
    conditions: rule.conditions.map(renderCondition),
    uses: rule.uses,
    max_uses: rule.maxUses ?? null,
    expires_at: timeOf(rule.expiresAtMs),
    reason: rule.reason ?? null,
    approval: rule.approval,
    created_by: rule.createdBy,
    created_at: timeOf(rule.createdAtMs),
    revoked_by: rule.revokedBy ?? null,
    revoked_at: timeOf(rule.revokedAtMs),
  }
}
