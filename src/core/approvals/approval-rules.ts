import type { Principal } from '#core/principal'
import type { SafetyTier, Tool } from '#core/tool'

/**
 * What an operator's predicate is told about a call of a `conditional` tool. It can only be read, and reading a member
 * that this call does not have throws, which means that the call needs a yes; `'amount' in input` asks first.
 */
export interface ApprovalFacts<Input = Readonly<Record<string, unknown>>> {
  /** `Toolkit.Name@x.y.z`. */
  readonly tool: string
  readonly tier: SafetyTier
  readonly principal: Principal
  /** Proven (T-27). */
  readonly userId: string | undefined
  /** Whom the caller says it acts for, proven or not. */
  readonly claimedUserId: string | undefined
  /** The whole input as `run` gets it. */
  readonly input: Input
}

/** Only `false` lets a call run without a yes. */
export type ApprovalPredicate<Input = ApprovalFacts['input']> = (
  facts: ApprovalFacts<Input>,
) => boolean | Promise<boolean>

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
  readonly when: ApprovalPredicate | undefined
  /** The same for one tool, by any of its names, with `@x.y.z` behind it or not; it replaces `when`. */
  readonly whenPerTool: ReadonlyMap<string, ApprovalPredicate>
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
  whenPerTool: new Map(),
  expiresAfterMs: 30 * 60_000,
  quorum: 1,
  requiredScope: RESPOND_SCOPE,
  selfApproval: false,
  overrideBypassesQuorum: false,
  perTool: new Map(),
  webhooks: [],
  mostParkedPerPrincipal: 100,
}

/** A tool as rules may name it. */
export type NamedTool = Pick<Tool, 'parts' | 'name' | 'catalogId'>

const FIRST_OF_MAJOR = /^([0-9]+)\.0+\.0+$/

/** Every name that rules may use for a tool: those of its version first (`@1` is `@1.0.0`), then those for all; its id first. */
export function namesFor({ parts, name, catalogId }: NamedTool): readonly string[] {
  const names = [parts.base, name, catalogId]
  const [, major] = FIRST_OF_MAJOR.exec(parts.version) ?? []
  const versions = major === undefined ? [parts.version] : [parts.version, major]
  return [...versions.flatMap((version) => names.map((text) => `${text}@${version}`)), ...names]
}

/** What is written for one tool by its names. */
export function writtenFor<Written>(
  rules: ReadonlyMap<string, Written>,
  tool: NamedTool,
): readonly Written[] {
  return namesFor(tool).flatMap((text) => rules.get(text) ?? [])
}

/** The terms for one tool: its version's own, then its own, then everybody's. */
export function termsFor(rules: ApprovalRules, tool: NamedTool): ApprovalTerms {
  const { expiresAfterMs, quorum, requiredScope, selfApproval, overrideBypassesQuorum } = rules
  const common = { expiresAfterMs, quorum, requiredScope, selfApproval, overrideBypassesQuorum }
  return Object.assign(common, ...writtenFor(rules.perTool, tool).toReversed())
}
