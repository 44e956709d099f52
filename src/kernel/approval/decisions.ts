import { isSameSecret } from '#kernel/base/hash'
import { defined, isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Failure } from '#kernel/call/call'
import type {
  ApprovalDecided,
  CallLabel,
  InterruptRequested,
  InterruptResolved,
  NodeSuspended,
} from '#kernel/run/events'
import { sessionLostError } from '#kernel/run/session-ends'
import type { KernelStore } from '#kernel/store/store'
import type { SafetyTier, Tool } from '#kernel/tool/tool'
import type {
  ApprovalAddress,
  ApprovalRecord,
  ApprovalState,
  ApprovalSubject,
  ApproverDecision,
  DecisionAction,
  NewDecision,
  NewLink,
} from './approval.ts'

/**
 * The consequences of decisions, as pure functions: links, facts for the run, outcomes of parked calls, quorums, and the view
 * of an approval. `Approvals` and the store share them, so that every engine decides in the same way.
 * One rejection is enough, each approver counts once, and a late decision changes nothing (OWP-68, OWP-71, OWP-72).
 */

/** A link for one approver to one approval (rule 23, OWP-67). */
export interface ApprovalLink extends ApprovalAddress, Pick<NewLink, 'power'> {
  readonly approver: string
  readonly expiresAtMs: number
  /** Who made the link; absent in links from earlier versions. */
  readonly maker?: string | undefined
}

const PURPOSE = 'link'
const MAX_TOKEN_LENGTH = 2_048

/** Returns `base64url(payload).hmac`. The link expires when its approval does. */
export function mintLink(
  store: Pick<KernelStore, 'sign'>,
  { tenant, id, expiresAtMs }: Pick<ApprovalRecord, 'tenant' | 'id' | 'expiresAtMs'>,
  { approver, power, maker }: Pick<ApprovalLink, 'approver' | 'power' | 'maker'>,
): string {
  const payload = JSON.stringify({ t: tenant, i: id, a: approver, p: power, e: expiresAtMs, m: maker })
  const encoded = Buffer.from(payload).toString('base64url')
  return `${encoded}.${store.sign(PURPOSE, encoded)}`
}

/** The content of a token with a valid signature; the caller checks whether it has expired. */
export function readLink(store: Pick<KernelStore, 'sign'>, token: string): ApprovalLink | undefined {
  if (token.length > MAX_TOKEN_LENGTH) return undefined
  const [encoded = '', signature = '', ...rest] = token.split('.')
  if (rest.length > 0 || !isSameSecret(signature, store.sign(PURPOSE, encoded))) return undefined
  const payload: JsonValue = JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8'))
  if (!isJsonObject(payload)) return undefined
  const { t: tenant, i: id, a: approver, p: power, e: expiresAtMs, m: maker } = payload
  if (typeof tenant !== 'string' || typeof id !== 'string' || typeof approver !== 'string') return undefined
  if ((power !== 'decide' && power !== 'inspect') || typeof expiresAtMs !== 'number') return undefined
  return { tenant, id, approver, power, expiresAtMs, maker: typeof maker === 'string' ? maker : undefined }
}

type RequestedApproval = Pick<
  ApprovalRecord,
  'id' | 'record' | 'attempt' | 'requiredScope' | 'quorum' | 'tier' | 'createdAtMs' | 'expiresAtMs'
>

/** A request for approval as two facts of its run (OWP-64). */
export function requestedFacts(
  approval: RequestedApproval,
  call: CallLabel,
): readonly [InterruptRequested, NodeSuspended] {
  const { id, record, attempt, requiredScope, quorum, tier, createdAtMs, expiresAtMs } = approval
  const node = { record, attempt, approval: id }
  const terms = { requiredScope, quorum, tier, timeoutMs: expiresAtMs - createdAtMs }
  return [
    { type: 'interrupt.requested', ...node, call, ...terms },
    { type: 'node.suspended', ...node },
  ]
}

const TYPES = {
  grant: 'approval.granted',
  reject: 'approval.rejected',
  override: 'approval.overridden',
} as const satisfies Record<DecisionAction, ApprovalDecided['type']>

/** One approver's decision as a fact of its run (OWP-70). */
export function decidedFact(
  { id, record, quorum }: Pick<ApprovalRecord, 'id' | 'record' | 'quorum'>,
  decision: Pick<NewDecision, 'action' | 'opaque' | 'reason'> & { readonly granted: number },
): ApprovalDecided {
  const { action, opaque, reason, granted } = decision
  const count = action === 'grant' ? { granted, required: quorum } : {}
  return { ...defined({ type: TYPES[action], record, approval: id, by: opaque, reason }), ...count }
}

/** The end of a request as a fact of its run. Without `by`, a timeout or the call's own caller ended it (OWP-71). */
export function resolvedFact(
  { id, record, attempt }: Pick<ApprovalRecord, 'id' | 'record' | 'attempt'>,
  end: Pick<InterruptResolved, 'action' | 'by' | 'reason'>,
): InterruptResolved {
  return { type: 'interrupt.resolved', record, attempt, approval: id, ...end }
}

export type ParkedEnd = 'rejected' | 'expired' | 'unused' | 'cancelled' | 'session'

/** The outcome of a parked call that will never run: final, and without effect (OWP-73). */
export function refusedOutcome(why: ParkedEnd, tool: string, reason?: string): Failure {
  return { ok: false, error: errorOf(why, tool, reason), durationMs: 0, neverStarted: true }
}

function errorOf(why: ParkedEnd, tool: string, reason = ''): Failure['error'] {
  if (why === 'session') return sessionLostError(tool, false)
  const text = {
    rejected: `The call of ${tool} was not approved${reason === '' ? '' : `: ${reason}`}.`,
    expired: `The call of ${tool} was not approved in time, so it was refused.`,
    unused: `The approval of the call of ${tool} expired before it was used.`,
    cancelled: `The call of ${tool} was cancelled while it waited for an approval.`,
  }[why]
  const code = why === 'cancelled' ? 'cancelled' : 'approval_rejected'
  return { code, message: `${text} Nothing was run.`, canRetry: false }
}

/** An approval can be used for at least this long after it was granted. */
export const MIN_USE_MS = 5 * 60_000

/** The effect of one more decision, the same for every store. */
type Judgement =
  /** Nothing changes, because the approval was already decided or used, or has expired. */
  | { readonly kind: 'closed' }
  /** This approver has already approved (OWP-72). */
  | { readonly kind: 'repeated' }
  | { readonly kind: 'counted'; readonly granted: number }
  | {
      readonly kind: 'decided'
      readonly state: Extract<ApprovalState, 'granted' | 'rejected'>
      readonly granted: number
      readonly expiresAtMs: number
    }

export function judgeDecision(approval: ApprovalRecord, decision: ApproverDecision): Judgement {
  const { state, expiresAtMs, quorum, decisions, overrideBypassesQuorum } = approval
  if (state !== 'pending' || expiresAtMs <= decision.atMs) return { kind: 'closed' }
  const hasDecided = decisions.some(({ by }) => by === decision.by)
  if (decision.action === 'reject') {
    return { kind: 'decided', state: 'rejected', granted: decisions.length, expiresAtMs }
  }
  const bypasses = decision.action === 'override' && overrideBypassesQuorum
  if (hasDecided && !bypasses) return { kind: 'repeated' }
  const granted = decisions.length + (hasDecided ? 0 : 1)
  if (granted < quorum && !bypasses) return { kind: 'counted', granted }
  return {
    kind: 'decided',
    state: 'granted',
    granted,
    expiresAtMs: Math.max(expiresAtMs, decision.atMs + MIN_USE_MS),
  }
}

/** Whether an attempt may use this approval now. */
export function isUsable(approval: ApprovalRecord, binding: string, nowMs: number): boolean {
  return approval.state === 'granted' && approval.expiresAtMs > nowMs && approval.binding === binding
}

type HiddenMember = 'subject' | 'binding' | 'run' | 'tier' | 'selfApproval' | 'overrideBypassesQuorum'

/** Everything about an approval that can be shown. Each interface chooses what its reader may see. */
export interface ApprovalView
  extends Omit<ApprovalRecord, HiddenMember>,
    Pick<ApprovalSubject, 'callId' | 'runId' | 'userId' | 'isUserProven' | 'argsHash'> {
  /** The tool's definition has changed since the request, so the call cannot be approved and never runs. */
  readonly isStale: boolean
  /** The tool's description, while the same definition is served. */
  readonly description: string | undefined
  /** The tool's definition at the time of the request, if it was kept. */
  readonly asked: RequestedDefinition | undefined
  /** The tool that is currently served under the same id. */
  readonly served: ServedTool | undefined
  /** The tool's approval policy, while the same definition is served. */
  readonly needed: Tool['policy']['approval'] | undefined
  readonly safetyTier: SafetyTier
  readonly summary: JsonValue
  /** The whole input, except credentials that the tool declares. */
  readonly input: JsonValue
  readonly inputBytes: number
  /** Number of values that are hidden because they contain these credentials. */
  readonly hiddenValues: number
  /** Whether part of the input was not kept. */
  readonly isPartial: boolean
  /** Whether an approval needs `acceptHidden`, because part of the input cannot be seen. */
  readonly hidesSomething: boolean
}

/** The definition of a tool at the time when its approval was requested. */
export type RequestedDefinition = Pick<
  Tool,
  'title' | 'description' | 'inputSchema' | 'outputSchema' | 'requirements'
> & { readonly policy: Pick<Tool['policy'], 'safetyTier' | 'approval'> }

const MAX_DEFINITION_LENGTH = 65_536

/** The tool's definition, kept with the request so that an approver can see later changes; left out if it is very large. */
export function keptDefinition(tool: RequestedDefinition): { readonly definitionJson?: string } {
  const { title, description, inputSchema, outputSchema, requirements } = tool
  const { safetyTier, approval } = tool.policy
  const members = { title, description, inputSchema, outputSchema, requirements }
  const definitionJson = JSON.stringify({ ...members, policy: { safetyTier, approval } })
  return definitionJson.length > MAX_DEFINITION_LENGTH ? {} : { definitionJson }
}

export type ServedTool = RequestedDefinition & Pick<Tool, 'definitionHash'>

/** `at` has the facts that are not in the record: the current time, and the current tool. */
export function approvalView(
  approval: ApprovalRecord,
  at: { readonly nowMs: number; readonly isStale: boolean; readonly served: ServedTool | undefined },
): ApprovalView {
  const { id, tenant, principal, record, attempt, tool, toolId, tier, definitionHash, subject } = approval
  const { callId, runId, userId, isUserProven, argsHash, summaryJson, inputJson, hidden, isPartial } = subject
  const { quorum, requiredScope, createdAtMs, expiresAtMs, decidedAtMs, decisions } = approval
  return {
    ...{ id, state: stateOf(approval, at.nowMs), isStale: at.isStale, tenant, principal },
    ...{ record, callId, runId, userId, isUserProven, attempt },
    ...{ tool, toolId, safetyTier: tier, argsHash, definitionHash },
    // A changed tool's description is not shown, because the call was made for the previous definition.
    description: at.isStale ? undefined : at.served?.description,
    needed: at.isStale ? undefined : at.served?.policy.approval,
    served: at.served,
    get asked(): RequestedDefinition | undefined {
      return subject.definitionJson === undefined ? undefined : JSON.parse(subject.definitionJson)
    },
    // Parsed only when shown, because an input may be large.
    get summary(): JsonValue {
      return JSON.parse(summaryJson)
    },
    get input(): JsonValue {
      return JSON.parse(inputJson)
    },
    get inputBytes() {
      return Buffer.byteLength(inputJson)
    },
    hiddenValues: hidden,
    isPartial: isPartial === true,
    hidesSomething: hidesSomething(approval),
    ...{ quorum, requiredScope, createdAtMs, expiresAtMs, decidedAtMs, decisions },
  }
}

/** The current state: `expired` from the time of expiry on, even if that has not been written yet. */
export function stateOf(
  { state, expiresAtMs }: Pick<ApprovalRecord, 'state' | 'expiresAtMs'>,
  nowMs: number,
): ApprovalState {
  const isExpired = (state === 'pending' || state === 'granted') && expiresAtMs <= nowMs
  return isExpired ? 'expired' : state
}

/** An approval covers the whole input, so an approver must explicitly accept hidden parts. */
export function hidesSomething({ subject: { hidden, isPartial } }: Pick<ApprovalRecord, 'subject'>): boolean {
  return hidden > 0 || isPartial === true
}
