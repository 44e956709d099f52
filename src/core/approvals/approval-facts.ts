import type { ApprovalRecord, DecisionAction } from '#core/ports/approval-store'
import type {
  ApprovalDecided,
  CallLabel,
  InterruptRequested,
  InterruptResolved,
  NodeSuspended,
} from '#core/runs/run-event'

type Asked = Pick<
  ApprovalRecord,
  'id' | 'record' | 'attempt' | 'requiredScope' | 'quorum' | 'tier' | 'createdAtMs' | 'expiresAtMs'
>

/** A question as its run tells it, in two facts (OWP-64). */
export function requestedFacts(asked: Asked, call: CallLabel): readonly [InterruptRequested, NodeSuspended] {
  const { id, record, attempt, requiredScope, quorum, tier, createdAtMs, expiresAtMs } = asked
  const timeoutMs = expiresAtMs - createdAtMs
  return [
    {
      type: 'interrupt.requested',
      record,
      attempt,
      approval: id,
      call,
      requiredScope,
      quorum,
      tier,
      timeoutMs,
    },
    { type: 'node.suspended', record, attempt, approval: id },
  ]
}

const TYPES = {
  grant: 'approval.granted',
  reject: 'approval.rejected',
  override: 'approval.overridden',
} as const satisfies Record<DecisionAction, ApprovalDecided['type']>

/** One approver's word (OWP-70). */
export function decidedFact(
  asked: Pick<ApprovalRecord, 'id' | 'record' | 'quorum'>,
  decision: {
    readonly action: DecisionAction
    readonly opaque: string
    readonly reason: string | undefined
    readonly granted: number
  },
): ApprovalDecided {
  const { id, record, quorum } = asked
  const { action, opaque, reason, granted } = decision
  return {
    type: TYPES[action],
    record,
    approval: id,
    by: opaque,
    ...(reason === undefined ? {} : { reason }),
    ...(action === 'grant' ? { granted, required: quorum } : {}),
  }
}

/** The end of a question. Without an approver time or its own caller ended it (OWP-71). */
export function resolvedFact(
  asked: Pick<ApprovalRecord, 'id' | 'record' | 'attempt'>,
  end: { readonly action: InterruptResolved['action']; readonly by?: string; readonly reason?: string },
): InterruptResolved {
  const { id, record, attempt } = asked
  return { type: 'interrupt.resolved', record, attempt, approval: id, ...end }
}
