import type { Clock } from '#kernel/base/clock'
import { CALL_ID_ADVICE, fault, type ToolError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { coversScope, opaquePrincipal, type Principal } from '#kernel/base/principal'
import type { DenialFacts } from '#kernel/journal/events'
import type { KernelStore } from '#kernel/store/store'
import type { SafetyTier, Tool } from '#kernel/tool/tool'
import type {
  ApprovalFilter,
  ApprovalRecord,
  ApprovalTerms,
  ApproverDecision,
  DecideResult,
  DecisionAction,
} from './approval.ts'
import {
  type ApprovalLink,
  type ApprovalView,
  approvalView,
  hidesSomething,
  mintLink,
  readLink,
  type ServedTool,
  stateOf,
} from './decisions.ts'

/**
 * Requests for approval: who may see them, decide them and hand out links for them, and the rules for when an approval is needed.
 * HTTP, CLI, console and link pages all decide here. Deciding never runs a call (rule 20); missing permission fails closed (OWP-69).
 */

/** The error for the caller of a parked call, with the approval's URL and the advice to repeat the same call (rule 6). */
export function approvalRequired(
  { id, tool }: Pick<ApprovalRecord, 'id' | 'tool'>,
  publicUrl: string,
): ToolError {
  const url = `${publicUrl}/approvals/${id}`
  return fault(
    'approval_required',
    `${tool} needs an approval before it may run. Nothing was run. Once a person has approved it, call again with exactly the same arguments${CALL_ID_ADVICE.repeat}.`,
    {
      missing: { approval: { id, url, checkUrl: `${url}/status` } },
      developerMessage:
        'An operator decides with collet approvals approve; collet approvals list shows waiting calls.',
    },
  )
}

export interface Approver {
  readonly id: string
  /** `undefined` for the person at this machine, who may decide for every tenant (rule 29). */
  readonly tenant: string | undefined
  readonly scopes: readonly string[]
}

export interface Decision extends Pick<ApproverDecision, 'action' | 'reason'> {
  /** The approver knows that part of the input is hidden and still approves. */
  readonly acceptsHidden?: boolean
}

/** The result of a decision; each interface has its own texts and status codes for it. */
export type DecisionResult =
  | Extract<DecideResult, { readonly kind: 'decided' | 'counted' }>
  /** Already decided, used or rejected (OWP-68). */
  | { readonly kind: 'resolved'; readonly approval: ApprovalRecord }
  | { readonly kind: 'expired'; readonly approval: ApprovalRecord }
  | { readonly kind: 'cancelled'; readonly approval: ApprovalRecord }
  | { readonly kind: 'not_found' }
  /** Anonymous callers may not decide (rules 3 and 29). */
  | { readonly kind: 'unauthenticated' }
  | { readonly kind: 'forbidden'; readonly scope: string }
  /** The approver is the caller of the call, who may not approve it. */
  | { readonly kind: 'own' }
  /** The tool's definition has changed since the request, so an approval could not be used (rule 21). */
  | { readonly kind: 'stale'; readonly approval: ApprovalRecord }
  /** Part of the input is hidden, and the decision does not accept that. */
  | { readonly kind: 'hidden'; readonly approval: ApprovalRecord }
  /** This link only shows the approval, or this approval needs more than a link (rule 23). */
  | { readonly kind: 'link_only_shows' }

/** A result of one of these kinds. */
type Result<Kind extends DecisionResult['kind']> = Extract<DecisionResult, { readonly kind: Kind }>

export interface ApprovalsOptions {
  readonly store: Pick<KernelStore, 'approvals' | 'digest' | 'sign'>
  readonly clock: Clock
  /** Whether approvers can sign in; if so, the holder of a link must sign in to decide (rule 23). Default: false. */
  readonly canSignIn?: boolean
  /** The tool that is currently served under an id. */
  toolOf?(id: string): ServedTool | undefined
  /** Called on every change, so that waiting requests and readers read the approval again. */
  onChange?(changed: ApprovalRecord): void
  /** Called when an approver is refused (rule 30a). */
  onDenied?(approver: { readonly id: string; readonly tenant: string }, facts: DenialFacts): void
}

const ANONYMOUS_ID = 'anonymous'
/** Name of the approvers' action in the audit stream. */
const DECIDE_ACTION = 'approval.decide'

export class Approvals {
  readonly #options: ApprovalsOptions

  constructor(options: ApprovalsOptions) {
    this.#options = options
  }

  /** Finds an approval for a request that knows its unguessable id; each interface chooses what to show. */
  async findById(id: string): Promise<ApprovalRecord | undefined> {
    return await this.#options.store.approvals.findById(id)
  }

  /** Finds an approval; `undefined` if it belongs to another tenant. */
  async find({ tenant }: Approver, id: string): Promise<ApprovalRecord | undefined> {
    const { approvals } = this.#options.store
    return tenant === undefined ? await approvals.findById(id) : await approvals.find({ tenant, id })
  }

  /** The newest approval of a call, by its run id and node id in openwop. */
  async findInRun(
    { tenant }: Approver,
    { runId, nodeId }: { readonly runId: string; readonly nodeId: string },
  ): Promise<ApprovalRecord | undefined> {
    if (tenant === undefined) return undefined
    const found = await this.#options.store.approvals.findFor({ tenant, record: nodeId })
    return found?.subject.runId === runId ? found : undefined
  }

  view(approval: ApprovalRecord): ApprovalView {
    const nowMs = this.#options.clock.nowMs()
    const served = this.#options.toolOf?.(approval.tool)
    return approvalView(approval, { nowMs, isStale: this.isStale(approval), served })
  }

  /** Whether the approval is open but the served definition has changed, so that its call can never run. */
  isStale({ state, tool, definitionHash }: ApprovalRecord): boolean {
    if (state !== 'pending' && state !== 'granted') return false
    const served = this.#options.toolOf?.(tool)
    return served !== undefined && served.definitionHash !== definitionHash
  }

  /** Refuses a grant that could not be used, or that covers more than the approver saw. A rejection is never refused. */
  #checkGrantable(approval: ApprovalRecord, decision: Decision): Result<'stale' | 'hidden'> | undefined {
    if (decision.action === 'reject' || approval.state !== 'pending') return undefined
    if (this.isStale(approval)) return { kind: 'stale', approval }
    const isUnseen = hidesSomething(approval) && decision.acceptsHidden !== true
    return isUnseen ? { kind: 'hidden', approval } : undefined
  }

  async list(
    { tenant }: Approver,
    filter: Omit<ApprovalFilter, 'tenant'>,
  ): Promise<readonly ApprovalRecord[]> {
    return await this.#options.store.approvals.list({ ...filter, ...defined({ tenant }) })
  }

  /** Why a reader may not see decisions, which needs `approvals:read` or `approvals:respond`. */
  refusalToRead(reader: Approver): Result<'unauthenticated' | 'forbidden'> | undefined {
    return coversScope(reader.scopes, READ_SCOPE) ? undefined : this.refusalToDecide(reader)
  }

  /** Why an approver may not decide any approval. */
  refusalToDecide(approver: Approver): Result<'unauthenticated' | 'forbidden'> | undefined {
    if (approver.id === ANONYMOUS_ID) return { kind: 'unauthenticated' }
    if (coversScope(approver.scopes, RESPOND_SCOPE)) return undefined
    return this.#forbid(approver, approver.tenant, RESPOND_SCOPE)
  }

  async decide(
    approver: Approver,
    approval: ApprovalRecord | undefined,
    decision: Decision,
  ): Promise<DecisionResult> {
    const refusal = this.#refusalFor(approver, approval, decision)
    if (refusal !== undefined) return refusal
    if (approval === undefined) return { kind: 'not_found' }
    return this.#checkGrantable(approval, decision) ?? (await this.#write(approver.id, approval, decision))
  }

  /** Why this approver may not make this decision; fails closed (OWP-69). */
  #refusalFor(
    approver: Approver,
    approval: ApprovalRecord | undefined,
    { action }: Decision,
  ): Result<'unauthenticated' | 'forbidden' | 'own'> | undefined {
    const refusal = this.refusalToDecide(approver)
    if (refusal !== undefined || approval === undefined) return refusal
    const needed = [approval.requiredScope, ...(action === 'override' ? [OVERRIDE_SCOPE] : [])]
    const missing = needed.find((scope) => !coversScope(approver.scopes, scope))
    if (missing !== undefined) return this.#forbid(approver, approval.tenant, missing)
    const isSameTenant = approver.tenant === undefined || approver.tenant === approval.tenant
    return isSameTenant ? this.#refuseOwn(approver.id, approval, action) : undefined
  }

  /** Why this approver may not approve calls such as this one in advance; the request itself may have been decided. */
  refusalToApprove(approver: Approver, approval: ApprovalRecord | undefined) {
    return this.#refusalFor(approver, approval, { action: 'grant', reason: undefined })
  }

  /** Why this approver could not approve. Nothing is refused yet, so no denial is recorded. */
  decisionObstacle(
    { id, scopes }: Approver,
    { requiredScope, principal, selfApproval, decisions }: ApprovalRecord,
  ): 'scope' | 'own' | 'approved_before' | undefined {
    if (![RESPOND_SCOPE, requiredScope].every((scope) => coversScope(scopes, scope))) return 'scope'
    if (id === principal && !selfApproval) return 'own'
    return decisions.some(({ by }) => by === id) ? 'approved_before' : undefined
  }

  #forbid({ id }: Approver, tenant: string | undefined, scope: string): Result<'forbidden'> {
    const facts = { action: DECIDE_ACTION, resource: scope, reason: 'scope' } as const
    if (tenant !== undefined) this.#options.onDenied?.({ id, tenant }, facts)
    return { kind: 'forbidden', scope }
  }

  /** A caller may reject its own call, and approve it only if the terms allow that. */
  #refuseOwn(
    id: string,
    { tenant, toolId, principal, selfApproval }: ApprovalRecord,
    action: DecisionAction,
  ): Result<'own'> | undefined {
    if (id !== principal || selfApproval || action === 'reject') return undefined
    const facts = { action: DECIDE_ACTION, resource: toolId, reason: 'self_approval' } as const
    this.#options.onDenied?.({ id, tenant }, facts)
    return { kind: 'own' }
  }

  /**
   * Makes a link token for one approver (rule 23). The maker must be allowed to decide: otherwise the caller of a tool could
   * approve its own call under another name.
   */
  async mint(
    maker: Approver,
    approval: ApprovalRecord | undefined,
    { approver, power }: Pick<ApprovalLink, 'approver' | 'power'>,
  ): Promise<
    | { readonly kind: 'minted'; readonly token: string }
    | Exclude<DecisionResult, { kind: 'decided' | 'counted' }>
  > {
    const refusal = this.refusalToApprove(maker, approval)
    if (refusal !== undefined) return refusal
    if (approval === undefined) return { kind: 'not_found' }
    const nowMs = this.#options.clock.nowMs()
    if (stateOf(approval, nowMs) !== 'pending') return closed(approval, nowMs)
    if (power === 'decide') {
      const own = this.#refuseOwn(principalNamedByLink(approver, approval), approval, 'grant')
      if (own !== undefined) return own
    }
    const { store } = this.#options
    // The holder of a link counts as its approver, so the journal records who made it before it can be used.
    await store.approvals.noteLink({ approval, by: maker.id, for: approver, power, atMs: nowMs })
    return { kind: 'minted', token: mintLink(store, approval, { approver, power, maker: maker.id }) }
  }

  /** Reads a link token; `isExpired` is true if the link or its approval has expired. */
  async readLink(token: string): Promise<LinkView | undefined> {
    const { store, clock } = this.#options
    const link = readLink(store, token)
    if (link === undefined) return undefined
    const approval = await store.approvals.find(link)
    if (approval === undefined) return undefined
    const isExpired = link.expiresAtMs <= clock.nowMs() || stateOf(approval, clock.nowMs()) === 'expired'
    return { link, approval, isExpired }
  }

  /** Whether a link alone is not enough to decide (rule 23): if approvers can sign in, they must. */
  needsSignIn(approval: Pick<ApprovalRecord, 'quorum' | 'tier'>): boolean {
    return this.#options.canSignIn === true || needsMoreThanLink(approval)
  }

  /**
   * Rule 23: a quorum of more than one, and tools that run commands, need more than a link. A signed-in approver has one
   * principal in all interfaces, so that no approver counts twice or approves its own call under another name.
   */
  async decideByLink(
    { link, approval, isExpired }: LinkView,
    decision: Decision,
    signedIn?: { readonly principal: string },
  ): Promise<DecisionResult> {
    if (isExpired && approval.state === 'pending') return { kind: 'expired', approval }
    if (approval.state !== 'pending') return closed(approval, this.#options.clock.nowMs())
    const mayDecide = signedIn !== undefined || !this.needsSignIn(approval)
    if (link.power !== 'decide' || !mayDecide) return { kind: 'link_only_shows' }
    const by = signedIn?.principal ?? nameOfLink(link)
    const own =
      this.#refuseOwn(by, approval, decision.action) ??
      this.#refuseOwn(principalNamedByLink(link.approver, approval), approval, decision.action)
    return own ?? this.#checkGrantable(approval, decision) ?? (await this.#write(by, approval, decision))
  }

  async #write(
    by: string,
    { tenant, id, toolId }: ApprovalRecord,
    { action, reason }: Decision,
  ): Promise<DecisionResult> {
    const { store, clock, onChange, onDenied } = this.#options
    const opaque = opaquePrincipal(store, { tenant, id: by })
    const atMs = clock.nowMs()
    const result = await store.approvals.decide({ tenant, id, by, action, reason, atMs, opaque })
    if (result.kind === 'not_found') return result
    if (result.kind === 'repeated') {
      onDenied?.({ id: by, tenant }, { action: DECIDE_ACTION, resource: toolId, reason: 'second_vote' })
      return { kind: 'counted', approval: result.approval }
    }
    onChange?.(result.approval)
    return result.kind === 'closed' ? closed(result.approval, atMs) : result
  }
}

export interface LinkView {
  readonly link: ApprovalLink
  readonly approval: ApprovalRecord
  readonly isExpired: boolean
}

/** Whether a link alone is never enough for this approval, even if approvers cannot sign in (rule 23). */
export function needsMoreThanLink({ quorum, tier }: Pick<ApprovalRecord, 'quorum' | 'tier'>): boolean {
  return quorum > 1 || tier === 'exec'
}

function closed(approval: ApprovalRecord, nowMs: number): Result<'expired' | 'cancelled' | 'resolved'> {
  const state = stateOf(approval, nowMs)
  return { kind: state === 'expired' || state === 'cancelled' ? state : 'resolved', approval }
}

/** The approver that is recorded for a decision by link. It includes the maker of the link, because the holder proves no name. */
function nameOfLink({ approver, maker }: Pick<ApprovalLink, 'approver' | 'maker'>): string {
  return maker === undefined ? `link:${approver}` : `link:${approver}, made by ${maker}`
}

/**
 * The principal that an approver's name in a link stands for: the caller's own principal if the name is the caller's (`selfboss`
 * for `key:selfboss`, or the subject of a token), otherwise `link:<name>`. A link proves nothing but this name.
 */
export function principalNamedByLink(
  approver: string,
  { principal }: Pick<ApprovalRecord, 'principal'>,
): string {
  const subject = principal.slice(
    principal.startsWith('jwt:') ? principal.indexOf('#') + 1 : principal.indexOf(':') + 1,
  )
  const name = approver.toLowerCase()
  return name === subject.toLowerCase() || name === principal.toLowerCase() ? principal : `link:${approver}`
}

/**
 * The read-only facts about a call of a `conditional` tool that an operator's predicate gets. Reading a member that this call
 * does not have throws, and then the call needs approval; check with `'amount' in input` first.
 */
export interface ApprovalFacts<Input = Readonly<Record<string, unknown>>> {
  /** `Toolkit.Name@x.y.z`. */
  readonly tool: string
  readonly tier: SafetyTier
  readonly principal: Principal
  readonly userId: string | undefined
  /** The user that the caller claims to act for, proven or not. */
  readonly claimedUserId: string | undefined
  /** The whole parsed input that `run` gets. */
  readonly input: Input
}

/** Decides whether a call needs approval; only `false` lets a call run without approval. */
export type ApprovalPredicate<Input = ApprovalFacts['input']> = (
  facts: ApprovalFacts<Input>,
) => boolean | Promise<boolean>

export interface ApprovalRules extends ApprovalTerms {
  /** Returns `false` if a call needs no approval. Only for `conditional` tools; without a predicate they always need one (rule 21). */
  readonly when: ApprovalPredicate | undefined
  /** Replaces `when` for one tool, by any of its names, with or without `@x.y.z`. */
  readonly whenPerTool: ReadonlyMap<string, ApprovalPredicate>
  /** Terms for single tools, by any of their names, with or without `@x.y.z`. */
  readonly perTool: ReadonlyMap<string, Partial<ApprovalTerms>>
  /** Maximum number of calls of one principal that wait for approval (rule 22). */
  readonly maxParkedPerPrincipal: number
}

/** The scope an approver needs to decide anything (OWP-66). */
export const RESPOND_SCOPE = 'approvals:respond'
/** Lets an auditor see approvals and their decisions, without the input and without deciding. */
const READ_SCOPE = 'approvals:read'
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
  maxParkedPerPrincipal: 100,
}

export type NamedTool = Pick<Tool, 'parts' | 'name' | 'catalogId'>

const FIRST_OF_MAJOR = /^([0-9]+)\.0+\.0+$/

/** Every name that rules may use for a tool: first the names with its version (`@1` is `@1.0.0`), then those without. */
export function namesFor({ parts, name, catalogId }: NamedTool): readonly string[] {
  const names = [parts.base, name, catalogId]
  const [, major] = FIRST_OF_MAJOR.exec(parts.version) ?? []
  const versions = major === undefined ? [parts.version] : [parts.version, major]
  return [...versions.flatMap((version) => names.map((text) => `${text}@${version}`)), ...names]
}

/** The rules for this tool, most specific first. */
export function rulesFor<Rule>(rules: ReadonlyMap<string, Rule>, tool: NamedTool): readonly Rule[] {
  return namesFor(tool).flatMap((text) => rules.get(text) ?? [])
}

/** The terms for one tool: those for its version override those for the tool, which override the common terms. */
export function termsFor(rules: ApprovalRules, tool: NamedTool): ApprovalTerms {
  const { expiresAfterMs, quorum, requiredScope, selfApproval, overrideBypassesQuorum } = rules
  const common = { expiresAfterMs, quorum, requiredScope, selfApproval, overrideBypassesQuorum }
  return Object.assign(common, ...rulesFor(rules.perTool, tool).toReversed())
}
