import type { ErrorCode } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { SessionOutcome } from '#kernel/run/events'
import type { SafetyTier } from '#kernel/tool/tool'

/**
 * The journal's events and groups, as types: the audit trail of everything that changes. Stores append them, verification
 * checks their chains, exports and webhooks read them.
 * An event records what happened, without content: no input, no output, no text from a caller.
 */

/** A position in one writer's chain. */
export interface JournalPosition {
  readonly writer: string
  /** Number of the group in its chain, from 0. */
  readonly group: number
}

/** The end of a writer's chain; `group` is -1 if it has no groups yet, or none are kept. */
export interface JournalChain extends JournalPosition {
  /** Number of the writer; numbers increase in the order in which writers start. */
  readonly no: number
  readonly hasEnded: boolean
}

export interface JournalHead extends JournalPosition {
  /** HMAC over the group and the previous link; empty on a store without chains. */
  readonly link: string
}

/** The events of one commit, in order, and the link that seals them. */
export interface JournalGroup extends JournalHead {
  readonly atMs: number
  readonly events: readonly JournalEvent[]
}

/** The position of a journal event in a run (rule 16). */
export interface RunPosition {
  readonly run: string
  readonly sequence: number
}

interface EventBase {
  readonly at: number
}

interface PrincipalEventBase extends EventBase {
  readonly tenant: string
  readonly principal: string
}

/** One attempt of a call. */
export interface CallSubject {
  readonly record: string
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly attempt: number
}

/** If the event is also in a run, it has its position there (rule 16). */
interface CallEventBase extends EventBase, CallSubject, Partial<RunPosition> {}

export interface CallClaimed extends CallEventBase {
  readonly type: 'call.claimed'
  readonly tier: SafetyTier
  /** The operator who ran the call in the principal's name. */
  readonly by?: string
  /** The workflow's call; only for a step. */
  readonly parent?: string
}

/** The next attempt of a released call has other input; both fingerprints are recorded (rule 9). */
export interface CallCorrected extends CallEventBase {
  readonly type: 'call.corrected'
  readonly before: string
  readonly after: string
}

/** A workflow is suspended while a step waits, or continues. */
interface CallSuspended extends CallEventBase {
  readonly type: 'call.suspended' | 'call.resumed'
  /** The step that the workflow waits for, if that step is recorded. */
  readonly waitsFor?: string
}

export interface CallEnded extends CallEventBase {
  readonly type: 'call.succeeded' | 'call.failed' | 'call.released' | 'call.late'
  /** The operator who ran the call in the principal's name, if no claim was written before. */
  readonly by?: string
  /** Run time; absent if it is unknown. */
  readonly durationMs?: number
  readonly code?: ErrorCode
  readonly effect?: 'unknown'
}

/** `call.cut`: the attempt's process died, and the call may run again (rule 8). `call.ambiguous`: it may not. */
interface CallCut extends CallEventBase {
  readonly type: 'call.ambiguous' | 'call.cut'
  readonly deadWriter: string
}

interface CallSettled extends CallEventBase {
  readonly type: 'call.settled'
  readonly as: 'succeeded' | 'failed' | 'not-run'
  readonly who: string
  readonly why: string
}

/** `call.shown`: an operator viewed the input and the outcome. `call.receipt_made`: an operator made a signed receipt of the call. */
interface CallTouched extends CallEventBase {
  readonly type: 'call.shown' | 'call.cancel_requested' | 'call.receipt_made'
  readonly by: string
  /** Only for `call.shown`: the operator saw no more than the beginning of the input, in a list. */
  readonly part?: 'summary'
}

/** A limit refused the call; recorded only for calls inside a run, and not for all of them. */
export interface CallRefused extends CallEventBase {
  readonly type: 'call.refused'
  readonly code: ErrorCode
}

export interface CallParked extends CallEventBase {
  readonly type: 'call.parked'
  readonly approval: string
  /** The operator who ran the call in the principal's name. */
  readonly by?: string
}

/** The audit trail of approvals: decisions, timeouts and links. */
export interface ApprovalChanged extends EventBase, Omit<CallSubject, 'principal'> {
  readonly type:
    | 'approval.granted'
    | 'approval.rejected'
    | 'approval.overridden'
    | 'approval.expired'
    | 'approval.cancelled'
    | 'approval.used'
    | 'approval.link_made'
  readonly approval: string
  readonly by?: string
  readonly reason?: string
  /** Only for a link: the approver whom it names, and its power. */
  readonly for?: string
  readonly power?: 'decide' | 'inspect'
}

/** `challenge.asked`: a run recorded that one of its calls waits for the challenge. Only this event has a position in a run. */
export interface ChallengeChanged extends PrincipalEventBase, Partial<RunPosition> {
  readonly type: 'challenge.opened' | 'challenge.asked' | 'challenge.completed' | 'challenge.failed'
  readonly challenge: string
  readonly provider: string
}

/** `vault.renewed`: a token was refreshed. `vault.spent`: the provider refused a refresh, so consent is requested again (OWP-78). */
export interface VaultChanged extends PrincipalEventBase {
  readonly type: 'vault.set' | 'vault.renewed' | 'vault.spent' | 'vault.removed'
  /** Reference to the credential, never its value (OWP-79). */
  readonly ref: string
  readonly provider: string
  readonly kind: CredentialKind
  /** Who set or removed the credential; absent for refreshes, which the server makes. */
  readonly by?: string
  /** Scopes of a token that was set or renewed. */
  readonly scopes?: readonly string[]
}

interface VaultRotated extends EventBase {
  readonly type: 'vault.rotated'
  readonly by: string
  readonly tenants: number
  readonly entries: number
}

/** Steps of a key change: the next generation can be read, is in use, or is the only generation in use. */
interface KeysChanged extends EventBase {
  readonly type: 'keys.announced' | 'keys.activated' | 'keys.rotated'
  readonly by: string
  readonly generation: number
}

/** A key that signs receipts was made; an earlier one signs no longer. */
interface ReceiptKeyMade extends EventBase {
  readonly type: 'receipt_key.made'
  /** Id of the key, which is derived from its public half. */
  readonly receiptKey: string
  readonly by: string
}

export interface SessionChanged extends PrincipalEventBase, RunPosition {
  readonly type: 'session.opened' | 'session.closed'
  readonly session: string
  readonly tool: string
  /** Only for `session.closed`. */
  readonly outcome?: SessionOutcome
}

/** An API key was created, rotated or revoked; the event never contains the key itself. */
export interface KeyChanged extends PrincipalEventBase {
  readonly type: 'key.created' | 'key.rotated' | 'key.revoked'
  /** Public id of the key that was made or revoked. */
  readonly key: string
  readonly by: string
}

/** An approver made or revoked a standing rule. `principal` is the caller whose calls the rule approves. */
interface RuleChanged extends PrincipalEventBase {
  readonly type: 'rule.created' | 'rule.revoked'
  readonly rule: string
  readonly tool: string
  /** The approval that the rule was made from. */
  readonly approval: string
  readonly by: string
  /** Only for `rule.created`. */
  readonly expiresAt?: number
  readonly maxUses?: number
  /** Only for `rule.revoked`: how often the rule was used. */
  readonly uses?: number
}

interface PrincipalEnded extends PrincipalEventBase {
  readonly type: 'principal.ended'
  readonly by: string
}

/** A source that was added or removed at run time; only options without secrets are recorded. */
export interface SourceChanged extends EventBase {
  readonly type: 'source.added' | 'source.replaced' | 'source.removed'
  readonly source: string
  readonly sourceType?: string
  /** The host, file or program. */
  readonly target?: string
  /** Keyed digest of all options. */
  readonly options?: string
  /** Changed rules for the source's tools, by path such as `policy.approval`; `null` for a removed rule. */
  readonly changes?: JsonObject
  readonly by: string
}

/** An operator probed a possible source, which may have started a program as the server's user. */
interface SourceProbed extends EventBase {
  readonly type: 'source.probed'
  /** The address, file or program, without possible secrets. */
  readonly target: string
  readonly by: string
}

/** An event of the audit stream: a caller was refused (rule 30a, OWP-62). */
interface AuthorizationDecided extends EventBase, Omit<Denial, 'atMs'> {
  readonly type: 'authorization.decided'
  readonly allowed: false
}

/**
 * A change to an imported definition's pin: accepted when first seen, held, back to the accepted definition, or decided by an
 * operator. Only hash and class are recorded, because an upstream's texts do not belong in the journal.
 */
export interface PinChanged extends EventBase {
  readonly type: 'pin.first_seen' | 'pin.held' | 'pin.returned' | 'pin.accepted' | 'pin.rejected'
  readonly source: string
  /** `Toolkit.Name`; absent if one event reports all tools of a discovery. */
  readonly tool?: string
  /** Hash of the definition; `removed` if the upstream no longer has the tool. */
  readonly hash?: string
  readonly class?: ChangeClass
  /** Version that is served from now on. */
  readonly version?: string
  /** Number of tools that were accepted when first seen. */
  readonly count?: number
  readonly by?: string
}

/** An operator exported rows to a file. Recorded before the first row is sent. */
export interface DataExported extends EventBase {
  readonly type: 'data.exported'
  /** What the rows are: `journal`, `calls` … */
  readonly what: string
  readonly format: string
  /** The filter, as it was requested. */
  readonly filter: JsonObject
  readonly by: string
  /** The only tenant whose rows were exported; absent: every tenant. */
  readonly tenant?: string
}

interface RunEnded extends PrincipalEventBase {
  readonly type: 'run.ended'
  readonly run: string
}

interface WriterStarted extends EventBase {
  readonly type: 'writer.started'
  /** Heads of the chains that grew after a writer last started, so that a later truncation of them is detected (rule 15). */
  readonly heads: readonly JournalHead[]
}

interface WriterStopped extends EventBase {
  readonly type: 'writer.stopped'
}

interface ResultsPurged extends EventBase {
  readonly type: 'retention.purged'
  readonly calls: number
  readonly groups: number
}

export type JournalEvent =
  | CallClaimed
  | CallCorrected
  | CallEnded
  | CallSuspended
  | CallCut
  | CallSettled
  | CallTouched
  | CallRefused
  | CallParked
  | ApprovalChanged
  | ChallengeChanged
  | VaultChanged
  | VaultRotated
  | KeysChanged
  | ReceiptKeyMade
  | SessionChanged
  | KeyChanged
  | RuleChanged
  | PrincipalEnded
  | SourceChanged
  | SourceProbed
  | AuthorizationDecided
  | PinChanged
  | DataExported
  | RunEnded
  | WriterStarted
  | WriterStopped
  | ResultsPurged

/** The effect of a changed definition on its users. */
export type ChangeClass = 'wording' | 'widening' | 'breaking' | 'suspicious'

/** `secret`: an operator's value for `requirements.secrets`. `token`: an access token for `requirements.authorization`. */
export type CredentialKind = 'secret' | 'token'

/**
 * Why a caller was refused. `credential`: the caller could not be authenticated. `self_approval` and `second_vote` are for
 * approvers; `changed_row` reports a row that was written without the key.
 */
export const DENIAL_REASONS = [
  'scope',
  'allowlist',
  'tenant',
  'self_approval',
  'second_vote',
  'changed_row',
  'credential',
] as const

export type DenialReason = (typeof DENIAL_REASONS)[number]

/** A decision against a caller (rule 30a, OWP-62). */
export interface Denial {
  readonly atMs: number
  readonly tenant: string
  /** Opaque id: `prn_` and a keyed digest. */
  readonly principal: string
  /** Name of the action: `tool.call`, `admin:keys` … */
  readonly action: string
  /** A catalog id, a scope, a table of the store or a kind of credential, never a caller's text. */
  readonly resource: string
  readonly reason: DenialReason
  /** Number of equal denials within the window, which this record represents. */
  readonly count: number
}

export type DenialFacts = Pick<Denial, 'action' | 'resource' | 'reason'>
