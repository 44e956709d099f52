import type { Clock } from '#kernel/base/clock'
import { BY_CALL_ID, fault, type ToolError } from '#kernel/base/errors'
import { coversScope, opaquePrincipal, type Principal } from '#kernel/base/principal'
import type {
  ApprovalFilter,
  ApprovalRecord,
  DecideResult,
  DecisionAction,
} from '#kernel/ports/approval-store'
import type { KernelStore } from '#kernel/ports/store'
import type { SafetyTier, Tool } from '#kernel/tool/tool'
import type { DenialFacts } from '#store/ports/key-store'
import {
  type ApprovalLink,
  type ApprovalView,
  type AskedTool,
  approvalView,
  hidesSomething,
  mintLink,
  readLink,
  stateOf,
} from './decisions.ts'

/** What a caller of a parked call learns: where to look, and to come again with the same call (rule 6). */
export function approvalRequired(
  { id, tool }: Pick<ApprovalRecord, 'id' | 'tool'>,
  publicUrl: string,
): ToolError {
  const url = `${publicUrl}/approvals/${id}`
  return fault(
    'approval_required',
    `${tool} needs an approval before it may run. Nothing was run. Once a person has approved it, call again with exactly the same arguments${BY_CALL_ID.repeat}.`,
    {
      missing: { approval: { id, url, checkUrl: `${url}/status` } },
      developerMessage:
        'An operator decides with collet approvals approve; collet approvals list shows waiting calls.',
    },
  )
}

/** Who decides. */
export interface Approver {
  readonly id: string
  /** `undefined` = every tenant: the person at this machine (rule 29). */
  readonly tenant: string | undefined
  readonly scopes: readonly string[]
}

export interface Decision {
  readonly action: DecisionAction
  readonly reason: string | undefined
  /** The approver knows that something of the input is hidden, and says yes all the same. */
  readonly acceptsHidden?: boolean
}

/** How a decision went; each surface has its own words and statuses for it. */
export type DecisionResult =
  | Extract<DecideResult, { readonly kind: 'decided' | 'counted' }>
  /** Decided, used or rejected before (OWP-68). */
  | { readonly kind: 'resolved'; readonly approval: ApprovalRecord }
  | { readonly kind: 'expired'; readonly approval: ApprovalRecord }
  | { readonly kind: 'cancelled'; readonly approval: ApprovalRecord }
  | { readonly kind: 'not_found' }
  /** Anonymous callers decide nothing (rules 3 and 29). */
  | { readonly kind: 'unauthenticated' }
  | { readonly kind: 'forbidden'; readonly scope: string }
  /** Its caller may not approve it. */
  | { readonly kind: 'own' }
  /** The tool's definition is another one than was asked about: an approval would be for nothing (rule 21). */
  | { readonly kind: 'stale'; readonly approval: ApprovalRecord }
  /** Something of the input is hidden, and the approval does not say that it covers that too. */
  | { readonly kind: 'hidden'; readonly approval: ApprovalRecord }
  /** This link shows only, or this question needs more than a link (rule 23). */
  | { readonly kind: 'link_only_shows' }

type Forbidden = Extract<DecisionResult, { readonly kind: 'forbidden' }>
type Lack = Extract<DecisionResult, { readonly kind: 'unauthenticated' | 'forbidden' | 'own' }>

export interface ApprovalsOptions {
  readonly store: Pick<KernelStore, 'approvals' | 'digest'>
  readonly clock: Clock
  /** Whether approvers can sign in: then no link decides without (rule 23). Default: no. */
  readonly canSignIn?: boolean
  /** The tool that is served under an id now, where that is known. */
  toolOf?(id: string): AskedTool | undefined
  /** Called on every change, so that waiting requests and readers look again. */
  onChange?(changed: ApprovalRecord): void
  /** Called for approvers who were refused (rule 30a). */
  onDenied?(approver: { readonly id: string; readonly tenant: string }, facts: DenialFacts): void
}

const ANONYMOUS_ID = 'anonymous'
/** What approvers want to do, in the words of the audit stream. */
const DECIDING = 'approval.decide'

/** Where questions are looked at and answered. Deciding never executes (rule 20). */
export class Approvals {
  readonly #options: ApprovalsOptions

  constructor(options: ApprovalsOptions) {
    this.#options = options
  }

  /** For those who know the unguessable id; what is shown of it is for each surface to choose. */
  async look(id: string): Promise<ApprovalRecord | undefined> {
    return await this.#options.store.approvals.findById(id)
  }

  /** What an approver of its own tenant may see; `undefined` for every other. */
  async find(approver: Approver, id: string): Promise<ApprovalRecord | undefined> {
    const { approvals } = this.#options.store
    const { tenant } = approver
    return tenant === undefined ? await approvals.findById(id) : await approvals.find({ tenant, id })
  }

  /** The newest question of a call, by what openwop calls its run and its node. */
  async findInRun(
    approver: Approver,
    { runId, nodeId }: { readonly runId: string; readonly nodeId: string },
  ): Promise<ApprovalRecord | undefined> {
    const { tenant } = approver
    if (tenant === undefined) return undefined
    const found = await this.#options.store.approvals.findFor({ tenant, record: nodeId })
    return found?.subject.runId === runId ? found : undefined
  }

  /** What there is to show of it now. */
  view(approval: ApprovalRecord): ApprovalView {
    const nowMs = this.#options.clock.nowMs()
    const served = this.#options.toolOf?.(approval.tool)
    return approvalView(approval, { nowMs, isStale: this.isStale(approval), served })
  }

  /** Whether it is open, but about a definition that is not the one served now: its call can never run. */
  isStale({ state, tool, definitionHash }: ApprovalRecord): boolean {
    if (state !== 'pending' && state !== 'granted') return false
    const now = this.#options.toolOf?.(tool)
    return now !== undefined && now.definitionHash !== definitionHash
  }

  /** An approval that could not be used, or that is for more than its approver saw. A no always counts. */
  #refuseVain(
    approval: ApprovalRecord,
    decision: Decision,
  ): Extract<DecisionResult, { readonly kind: 'stale' | 'hidden' }> | undefined {
    if (decision.action === 'reject') return undefined
    if (approval.state !== 'pending') return undefined
    if (this.isStale(approval)) return { kind: 'stale', approval }
    return hidesSomething(approval) && decision.acceptsHidden !== true
      ? { kind: 'hidden', approval }
      : undefined
  }

  async list(approver: Approver, filter: Omit<ApprovalFilter, 'tenant'>): Promise<readonly ApprovalRecord[]> {
    const { tenant } = approver
    return await this.#options.store.approvals.list(tenant === undefined ? filter : { ...filter, tenant })
  }

  /** What a reader lacks to see who decided what. `approvals:respond` is enough too; reading alone decides nothing. */
  lacksToRead(reader: Approver): ReturnType<Approvals['lacks']> {
    return coversScope(reader.scopes, READ_SCOPE) ? undefined : this.lacks(reader)
  }

  /** What an approver lacks to decide at all. */
  lacks(approver: Approver): Extract<DecisionResult, { kind: 'unauthenticated' | 'forbidden' }> | undefined {
    if (approver.id === ANONYMOUS_ID) return { kind: 'unauthenticated' }
    if (coversScope(approver.scopes, RESPOND_SCOPE)) return undefined
    return this.#forbid(approver, approver.tenant, RESPOND_SCOPE)
  }

  async decide(
    approver: Approver,
    approval: ApprovalRecord | undefined,
    decision: Decision,
  ): Promise<DecisionResult> {
    const lacks = this.#lacksFor(approver, approval, decision)
    if (lacks !== undefined) return lacks
    if (approval === undefined) return { kind: 'not_found' }
    return this.#refuseVain(approval, decision) ?? (await this.#write(approver.id, approval, decision))
  }

  /** Why this approver may not decide so; fail closed (OWP-69). */
  #lacksFor(
    approver: Approver,
    approval: ApprovalRecord | undefined,
    { action }: Decision,
  ): Lack | undefined {
    const lacks = this.lacks(approver)
    if (lacks !== undefined || approval === undefined) return lacks
    const needed = [approval.requiredScope, ...(action === 'override' ? [OVERRIDE_SCOPE] : [])]
    const missing = needed.find((scope) => !coversScope(approver.scopes, scope))
    if (missing !== undefined) return this.#forbid(approver, approval.tenant, missing)
    const isOwn = approver.tenant === undefined || approver.tenant === approval.tenant
    return isOwn ? this.#refuseOwn(approver.id, approval, action) : undefined
  }

  /** What would keep this approver from saying yes to an open question. Nobody was refused yet, so nothing is written down. */
  hindrance(
    { id, scopes }: Approver,
    { requiredScope, principal, selfApproval, decisions }: ApprovalRecord,
  ): 'scope' | 'own' | 'approved_before' | undefined {
    if (![RESPOND_SCOPE, requiredScope].every((scope) => coversScope(scopes, scope))) return 'scope'
    if (id === principal && !selfApproval) return 'own'
    return decisions.some(({ by }) => by === id) ? 'approved_before' : undefined
  }

  #forbid({ id }: Approver, tenant: string | undefined, scope: string): Forbidden {
    const facts = { action: DECIDING, resource: scope, reason: 'scope' } as const
    if (tenant !== undefined) this.#options.onDenied?.({ id, tenant }, facts)
    return { kind: 'forbidden', scope }
  }

  /** A caller may say no to its own call, and yes only where the terms allow it. */
  #refuseOwn(
    id: string,
    { tenant, toolId, principal, selfApproval }: ApprovalRecord,
    action: DecisionAction,
  ): Extract<DecisionResult, { readonly kind: 'own' }> | undefined {
    if (id !== principal || selfApproval || action === 'reject') return undefined
    const facts = { action: DECIDING, resource: toolId, reason: 'self_approval' } as const
    this.#options.onDenied?.({ id, tenant }, facts)
    return { kind: 'own' }
  }

  /**
   * A token for one approver (rule 23), made by another who may decide: the caller of a tool could otherwise approve its
   * own call under another principal's name.
   */
  async mint(
    maker: Approver,
    approval: ApprovalRecord | undefined,
    asked: Pick<ApprovalLink, 'approver' | 'power'>,
  ): Promise<
    | { readonly kind: 'minted'; readonly token: string }
    | Exclude<DecisionResult, { kind: 'decided' | 'counted' }>
  > {
    const lacks = this.#lacksFor(maker, approval, { action: 'grant', reason: undefined })
    if (lacks !== undefined) return lacks
    if (approval === undefined) return { kind: 'not_found' }
    const nowMs = this.#options.clock.nowMs()
    if (stateOf(approval, nowMs) !== 'pending') return closed(approval, nowMs)
    if (asked.power === 'decide') {
      const own = this.#refuseOwn(namedBy(asked.approver, approval), approval, 'grant')
      if (own !== undefined) return own
    }
    const { approvals } = this.#options.store
    // The holder of a link is believed to be its approver, so the journal has who handed it out before anyone can use it.
    await approvals.noteLink({ approval, by: maker.id, for: asked.approver, power: asked.power, atMs: nowMs })
    return { kind: 'minted', token: mintLink(approvals, approval, { ...asked, maker: maker.id }) }
  }

  /** What a link is about; `expired` when its time is over. */
  async readLink(token: string): Promise<LinkView | undefined> {
    const { store, clock } = this.#options
    const link = readLink(store.approvals, token)
    if (link === undefined) return undefined
    const approval = await store.approvals.find(link)
    if (approval === undefined) return undefined
    const isExpired = link.expiresAtMs <= clock.nowMs() || stateOf(approval, clock.nowMs()) === 'expired'
    return { link, approval, isExpired }
  }

  /** Whether having a link is too little to decide (rule 23): wherever there is a sign-in, it is asked for. */
  needsSignIn(approval: Pick<ApprovalRecord, 'quorum' | 'tier'>): boolean {
    return this.#options.canSignIn === true || isMoreThanALink(approval)
  }

  /**
   * Rule 23: a quorum of more than one, and commands, need more than a link. Who signed in decides as the principal it is
   * elsewhere, so that nobody counts twice or approves its own call under another name.
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
      this.#refuseOwn(namedBy(link.approver, approval), approval, decision.action)
    return own ?? this.#refuseVain(approval, decision) ?? (await this.#write(by, approval, decision))
  }

  async #write(
    by: string,
    { tenant, id, toolId }: ApprovalRecord,
    decision: Decision,
  ): Promise<DecisionResult> {
    const { store, clock, onChange, onDenied } = this.#options
    const opaque = opaquePrincipal(store, { tenant, id: by })
    const atMs = clock.nowMs()
    const { action, reason } = decision
    const result = await store.approvals.decide({ tenant, id, by, action, reason, atMs, opaque })
    if (result.kind === 'not_found') return result
    if (result.kind === 'repeated') {
      onDenied?.({ id: by, tenant }, { action: DECIDING, resource: toolId, reason: 'second_vote' })
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

/** Whether a link alone can never decide it, sign-in or not (rule 23). */
export function isMoreThanALink({ quorum, tier }: Pick<ApprovalRecord, 'quorum' | 'tier'>): boolean {
  return quorum > 1 || tier === 'exec'
}

function closed(
  approval: ApprovalRecord,
  nowMs: number,
): Extract<DecisionResult, { readonly kind: 'expired' | 'cancelled' | 'resolved' }> {
  const state = stateOf(approval, nowMs)
  if (state === 'expired' || state === 'cancelled') return { kind: state, approval }
  return { kind: 'resolved', approval }
}

/** How a decision by link is recorded: the name is only what the maker of the link wrote. */
function nameOfLink({ approver, maker }: Pick<ApprovalLink, 'approver' | 'maker'>): string {
  return maker === undefined ? `link:${approver}` : `link:${approver}, made by ${maker}`
}

/**
 * The caller's own principal when a link is made out to its name: `selfboss` for `key:selfboss`, the subject of a token.
 * A link has only a name, and a name that is the caller's is taken for the caller.
 */
export function namedBy(approver: string, { principal }: Pick<ApprovalRecord, 'principal'>): string {
  const subject = principal.slice(
    principal.startsWith('jwt:') ? principal.indexOf('#') + 1 : principal.indexOf(':') + 1,
  )
  const name = approver.toLowerCase()
  return name === subject.toLowerCase() || name === principal.toLowerCase() ? principal : `link:${approver}`
}

/**
 * What an operator's predicate learns about a call of a `conditional` tool. It can only be read, and reading a member
 * that this call does not have throws, which means that the call needs approval; `'amount' in input` asks first.
 */
export interface ApprovalFacts<Input = Readonly<Record<string, unknown>>> {
  /** `Toolkit.Name@x.y.z`. */
  readonly tool: string
  readonly tier: SafetyTier
  readonly principal: Principal
  /** Proven. */
  readonly userId: string | undefined
  /** Whom the caller says it acts for, proven or not. */
  readonly claimedUserId: string | undefined
  /** The whole input as `run` gets it. */
  readonly input: Input
}

/** Only `false` lets a call run without approval. */
export type ApprovalPredicate<Input = ApprovalFacts['input']> = (
  facts: ApprovalFacts<Input>,
) => boolean | Promise<boolean>

/** What an approval takes. */
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

export interface ApprovalRules extends ApprovalTerms {
  /** `false`: this call needs no yes. Only for `conditional` tools; absent, they always need one (rule 21). */
  readonly when: ApprovalPredicate | undefined
  /** The same for one tool, by any of its names, with `@x.y.z` behind it or not; it replaces `when`. */
  readonly whenPerTool: ReadonlyMap<string, ApprovalPredicate>
  /** By any name of a tool, with `@x.y.z` behind it or not. */
  readonly perTool: ReadonlyMap<string, Partial<ApprovalTerms>>
  /** Rule 22. */
  readonly maxParkedPerPrincipal: number
}

/** The scope that lets an approver decide at all (OWP-66). */
export const RESPOND_SCOPE = 'approvals:respond'
/** The scope that lets an auditor see approvals and their decisions, without the input and without deciding. */
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
