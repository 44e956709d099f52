/** A promise that was broken. */
export type Breach = CallBreach | SessionBreach | RunBreach | ApprovalBreach | FlowBreach | TenantBreach

type CallBreach =
  | 'effect twice'
  | 'outcome changed'
  | 'outcome lost'
  | 'not final'
  | 'success without effect'
  | 'ambiguous without a kill'
  | 'ambiguous though repeatable'
  | 'ambiguous in a session'
  | 'unexpected reply'

type SessionBreach =
  | 'session not closed once'
  | 'event outside its session'
  | 'cut session not failed'
  | 'call taken after close'
  | 'wrong session state'

type RunBreach =
  | 'sequence broken'
  | 'call not returned once'
  | 'run ends differently'
  | 'poll and store differ'
  | 'reader missed events'
  | 'stream not ended'

type FlowBreach = 'workflow not finished' | 'step not exactly once' | 'workflow ends differently'

export type ApprovalBreach = 'approval used twice' | 'run without a grant'

type TenantBreach = 'tenants mixed'

export interface Finding {
  readonly breach: Breach
  /** The call, session or run it was found in. */
  readonly key: string
  readonly detail: string
}
