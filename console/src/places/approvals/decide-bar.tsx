import { type ReactNode, useRef, useState } from 'react'
import { Button } from '../../parts/button.tsx'
import { Field, TextInput } from '../../parts/field.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import type { WholeApproval } from './approval-data.ts'
import { leftOf, useNow } from './time-left.ts'

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
          Waiting for a decision. Deciding needs the scope {approval.required_scope}.
        </p>
      </div>
    )
  const { stale, hides_something: hides, obstacle } = approval
  const off = stale ? STALE : obstacle !== null ? OBSTACLES[obstacle](approval) : isSeen ? undefined : UNSEEN
  return (
    <div className="decide-bar" role="group" aria-label="Your decision">
      <div className="grow">
        <Field
          label="Reason"
          note="recorded in the journal; required to reject"
          {...(isReasonMissing ? { error: 'Enter a reason, so that the caller knows what to change.' } : {})}
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
        off={pending === 'approve' ? 'The approval is being sent.' : undefined}
        onClick={() => {
          if (reason.trim() !== '') return onDecide('reject')
          setReasonMissing(true)
          reasonField.current?.focus()
        }}
      >
        Reject
      </Button>
      <Button
        kind="primary"
        writes
        isBusy={pending === 'approve'}
        off={off ?? (pending === 'reject' ? 'The rejection is being sent.' : undefined)}
        onClick={() => onDecide('approve')}
      >
        {hides ? 'Approve once, including hidden input' : 'Approve once'}
      </Button>
      {failure !== undefined && <Note tone="failed">{failure} Your decision was not recorded.</Note>}
      <p className="promise">
        <Icon name="lock" size={14} />
        <span>
          {off ??
            'Allows one attempt with exactly these arguments, tool and credentials. Approving runs nothing. The call runs when the caller repeats it.'}
        </span>
      </p>
    </div>
  )
}

const STALE = 'The tool has changed since the call was made, so this call can only be rejected.'

const UNSEEN = 'You have not seen all arguments. Show everything that is folded, and scroll to their end.'

const OBSTACLES = {
  scope: ({ required_scope: scope }: WholeApproval) =>
    `Approving this needs a credential with the scope ${scope}, which yours does not have. You cannot share a link for it either.`,
  own: () => 'This is your own call. Another person has to approve it; you may reject it.',
  approved_before: ({ quorum, decisions }: WholeApproval) =>
    `You have approved it. ${countOf(quorum - decisions.length, 'more approval is', 'more approvals are')} needed.`,
} as const

/** The outcome of an approval that can no longer be decided. */
export function useClosedText({ state, decisions, decided_at: at, expires_at: until }: WholeApproval) {
  const { isOver } = leftOf(until, useNow(1000))
  const last = decisions.at(-1)
  const by = last === undefined ? '' : ` by ${last.by}`
  const when = at === null ? '' : ` at ${formatClock(at)}`
  switch (state) {
    case 'pending':
      return isOver ? 'The time to decide has run out. The call will not run.' : undefined
    case 'granted':
      return `Approved${by}${when}. It runs when the caller repeats the call.`
    case 'used':
      return `Approved${by}${when}, and the call has been run.`
    case 'rejected':
      return `Rejected${by}${when}. The call will not run.`
    case 'expired':
      return 'The approval was not decided or not used in time. The call will not run.'
    case 'cancelled':
      return 'The call was cancelled before it was decided. It will not run.'
  }
}
