import type { ApprovalRecord, GrantSteps, NewApproval } from '#kernel/approval/approval'
import { hidesSomething } from '#kernel/approval/decisions'
import type { JsonValue } from '#kernel/base/json'
import { opaquePrincipal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { StandingRuleStage } from '#kernel/call/stages'
import type { KernelStore } from '#kernel/store/store'
import { type AskedCall, covers, type StandingRule, stateOfRule } from './rule.ts'

/**
 * The stage that grants approvals by standing rules. A call that needs an approval is recorded with its request as always; if a
 * rule covers it, the same transaction grants the request in the rule's name, so that the journal shows each use.
 * Invariant: the use is counted in the transaction that grants. A rule that was revoked or used up in the meantime grants nothing.
 */

export interface StandingRulePort {
  /** Rules that could cover calls of this tool by this caller, and have not ended. */
  listFor(
    about: Pick<StandingRule, 'tenant' | 'principal' | 'tool'>,
    nowMs: number,
  ): MaybePromise<readonly StandingRule[]>
  /** Steps that count a use and grant the approval; false if the rule has ended. */
  use(use: RuleUse): GrantSteps
}

export interface RuleUse {
  readonly rule: string
  readonly tenant: string
  readonly approval: string
  readonly atMs: number
  /** Opaque id of the rule, for readers of the run. */
  readonly opaque: string
}

/** The name under which a rule's decisions are recorded. */
export function nameOfRule(id: string): string {
  return `rule:${id}`
}

export function openStandingRules(
  store: Pick<KernelStore, 'digest'> & { readonly standingRules: StandingRulePort },
): StandingRuleStage {
  return {
    async cover(approval, { call, tool }, atMs) {
      const { tenant, principal } = call
      const about = { tenant, principal: principal.id, tool: tool.id }
      const rules = await store.standingRules.listFor(about, atMs)
      if (rules.length === 0) return undefined
      const { definitionHash, policy } = tool
      const asked = askedBy({ ...approval, ...about, definitionHash, tier: policy.safetyTier })
      const rule = rules.find((each) => stateOfRule(each, atMs) === 'active' && covers(each, asked))
      if (rule === undefined) return undefined
      const opaque = opaquePrincipal(store, { tenant, id: nameOfRule(rule.id) })
      return store.standingRules.use({ rule: rule.id, tenant, approval: approval.id, atMs, opaque })
    },
  }
}

/** A request for approval as rules see it. */
export function askedBy({
  tenant,
  principal,
  tool,
  definitionHash,
  tier,
  quorum,
  subject,
}: Pick<NewApproval, 'subject' | 'quorum'> &
  Pick<ApprovalRecord, 'tenant' | 'principal' | 'tool' | 'definitionHash' | 'tier'>): AskedCall {
  const { userId, isUserProven, credentials, inputJson } = subject
  const input: JsonValue = JSON.parse(inputJson)
  const isShownWhole = !hidesSomething({ subject })
  return {
    tenant,
    principal,
    tool,
    definitionHash,
    tier,
    userId,
    isUserProven,
    credentials,
    quorum,
    input,
    isShownWhole,
  }
}
