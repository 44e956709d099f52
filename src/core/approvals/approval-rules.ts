import type { JsonObject } from '#core/json'
import type { Principal } from '#core/principal'
import type { SafetyTier, Tool } from '#core/tool'

/** What an operator's predicate is told about a call of a `conditional` tool. */
export interface ApprovalFacts {
  /** `Toolkit.Name@x.y.z`. */
  readonly tool: string
  readonly tier: SafetyTier
  readonly principal: Principal
  readonly userId: string | undefined
  /** The whole input as the tool gets it, without what is named like a secret. */
  readonly input: JsonObject
}

/** What a yes takes. */
export interface ApprovalTerms {
  /** How long a question stays open. */
  readonly expiresAfterMs: number
  /** How many distinct approvers must say yes. */
  readonly quorum: number
  /** What an approver must hold besides `approvals:respond` (OWP-69). */
  readonly requiredScope: string
  /** Whether a caller may approve its own call. */
  readonly selfApproval: boolean
  /** Whether one override is enough, whatever the quorum (OWP-70). */
  readonly overrideBypassesQuorum: boolean
}

/** Somebody to tell about new questions. */
export interface ApprovalWebhook {
  /** Names it in the store. */
  readonly target: string
  readonly url: string
  readonly secret: { reveal(): string }
  /** Whom the one-time link in its messages is for; without one there is no link. */
  readonly approver: string | undefined
}

export interface ApprovalRules extends ApprovalTerms {
  /** `false`: this call needs no yes. Only for `conditional` tools; absent, they always need one (rule 21). */
  readonly when: ((facts: ApprovalFacts) => boolean | Promise<boolean>) | undefined
  /** By any name of a tool, with `@x.y.z` behind it or not. */
  readonly perTool: ReadonlyMap<string, Partial<ApprovalTerms>>
  readonly webhooks: readonly ApprovalWebhook[]
  /** Rule 22. */
  readonly mostParkedPerPrincipal: number
}

/** The scope that lets somebody decide at all (OWP-66). */
export const RESPOND_SCOPE = 'approvals:respond'
export const OVERRIDE_SCOPE = 'approvals:override'

export const DEFAULT_APPROVAL_RULES: ApprovalRules = {
  when: undefined,
  expiresAfterMs: 30 * 60_000,
  quorum: 1,
  requiredScope: RESPOND_SCOPE,
  selfApproval: false,
  overrideBypassesQuorum: false,
  perTool: new Map(),
  webhooks: [],
  mostParkedPerPrincipal: 100,
}

/** The terms for one tool: its version's own, then its own, then everybody's. */
export function termsFor(
  rules: ApprovalRules,
  { parts, name, catalogId }: Pick<Tool, 'parts' | 'name' | 'catalogId'>,
): ApprovalTerms {
  const { expiresAfterMs, quorum, requiredScope, selfApproval, overrideBypassesQuorum } = rules
  return {
    ...{ expiresAfterMs, quorum, requiredScope, selfApproval, overrideBypassesQuorum },
    ...ownTerms(rules, [catalogId, name, parts.base]),
    ...ownTerms(
      rules,
      [catalogId, name, parts.base].map((text) => `${text}@${parts.version}`),
    ),
  }
}

/** Of all names of a tool; what is written under its id counts most. */
function ownTerms({ perTool }: ApprovalRules, names: readonly string[]): Partial<ApprovalTerms> {
  return Object.assign({}, ...names.map((name) => perTool.get(name)))
}
