import { type ReactNode, useRef, useState } from 'react'
import { Button } from '../../parts/button.tsx'
import { Field, TextInput } from '../../parts/field.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import type { WholeApproval } from './approval-data.ts'
import { leftOf, useNow } from './time-left.ts'
import { WORDS } from './words.tsx'

/*
 * The buttons that approve or reject. Used by `approval-link.tsx` and `decision.tsx`.
 */

const MAX_REASON_LENGTH = 1000

interface DecideBarProps {
  readonly approval: WholeApproval
  /** Whether all arguments were shown to the person who decides. */
  readonly isSeen: boolean
  readonly reason: string
  readonly onReason: (reason: string) => void
  /** The decision that was sent and not yet answered. */
  readonly pending: 'approve' | 'reject' | undefined
  readonly onDecide: (verb: 'approve' | 'reject') => void
  readonly failure?: string | undefined
  /** More buttons, before Reject and Approve. */
  readonly children?: ReactNode
}

/**
 * Approves or rejects, with a reason. It is not a form, so that Enter in the field decides nothing. After the decision it shows
 * the state that the server returned.
 */
export function DecideBar(props: DecideBarProps): ReactNode {
  const { approval, isSeen, reason, onReason, pending, onDecide, failure, children } = props
  const [isReasonMissing, setReasonMissing] = useState(false)
  const reasonField = useRef<HTMLInputElement>(null)
  const closed = useClosedText(approval)
  if (closed !== undefined)
    return (
      <div className="decide-bar">
        <p className="row grow decided" role="status">
          <Icon name={approval.state === 'rejected' ? 'rejected' : 'check'} size={14} />
          {closed}
        </p>
        {failure !== undefined && <Note tone="failed">{failure}</Note>}
      </div>
    )
  if (approval.input === undefined)
    return (
      <div className="decide-bar">
        <p className="row grow decided">
          <Icon name="lock" size={14} />
          {WORDS.waitingForDecisionDecidingNeeds(approval.required_scope)}
        </p>
      </div>
    )
  const { stale, hides_something: hides, obstacle } = approval
  const off = stale ? STALE : obstacle !== null ? OBSTACLES[obstacle](approval) : isSeen ? undefined : UNSEEN
  return (
    <div className="decide-bar" role="group" aria-label={WORDS.yourDecision}>
      <div className="grow">
        <Field
          label={WORDS.reason}
          note={WORDS.recordedInJournalRequiredReject}
          {...(isReasonMissing ? { error: WORDS.enterReasonSoCallerKnows } : {})}
        >
          {(control) => (
            <TextInput
              {...control}
              ref={reasonField}
              value={reason}
              maxLength={MAX_REASON_LENGTH}
              spellCheck
              onChange={(event) => {
                onReason(event.currentTarget.value)
                setReasonMissing(false)
              }}
            />
          )}
        </Field>
      </div>
      {children}
      <Button
        kind="danger"
        writes
        isBusy={pending === 'reject'}
        off={pending === 'approve' ? WORDS.approvalBeingSent : undefined}
        onClick={() => {
          if (reason.trim() !== '') return onDecide('reject')
          setReasonMissing(true)
          reasonField.current?.focus()
        }}
      >
        {WORDS.reject}
      </Button>
      <Button
        kind="primary"
        writes
        isBusy={pending === 'approve'}
        off={off ?? (pending === 'reject' ? WORDS.rejectionBeingSent : undefined)}
        onClick={() => onDecide('approve')}
      >
        {hides ? WORDS.approveOnceIncludingHiddenInput : WORDS.approveOnce}
      </Button>
      {failure !== undefined && <Note tone="failed">{WORDS.yourDecisionWasNotRecorded(failure)}</Note>}
      <p className="promise">
        <Icon name="lock" size={14} />
        <span>{off ?? WORDS.allowsOneAttemptWithExactly}</span>
      </p>
    </div>
  )
}

const STALE = WORDS.toolHasChangedSinceCall

const UNSEEN = WORDS.youHaveNotSeenAll

const OBSTACLES = {
  scope: ({ required_scope: scope }: WholeApproval) => WORDS.approvingThisNeedsCredentialWith(scope ?? ''),
  own: () => WORDS.thisYourOwnCallAnother,
  approved_before: ({ quorum, decisions }: WholeApproval) =>
    WORDS.youHaveApprovedNeeded(
      countOf(quorum - decisions.length, WORDS.moreApproval, WORDS.moreApprovalsAre),
    ),
} as const

/** The outcome of an approval that can no longer be decided. */
export function useClosedText({ state, decisions, decided_at: at, expires_at: until }: WholeApproval) {
  const { isOver } = leftOf(until, useNow(1000))
  const last = decisions.at(-1)
  const by = last === undefined ? '' : ` by ${last.by}`
  const when = at === null ? '' : ` at ${formatClock(at)}`
  switch (state) {
    case 'pending':
      return isOver ? WORDS.timeDecideHasRunOut : undefined
    case 'granted':
      return WORDS.approvedRunsWhenCallerRepeats(by, when)
    case 'used':
      return WORDS.approvedCallHasBeenRun(by, when)
    case 'rejected':
      return WORDS.rejectedCallWillNotRun(by, when)
    case 'expired':
      return WORDS.approvalWasNotDecidedOr
    case 'cancelled':
      return WORDS.callWasCancelledBeforeWas
  }
}
