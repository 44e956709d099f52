import { type ReactNode, useRef, useState } from 'react'
import { quoted } from '../../app/commands.ts'
import { useEcho } from '../../app/echo.tsx'
import { Button } from '../../parts/button.tsx'
import { Field, TextInput } from '../../parts/field.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { useDecide, type WholeApproval } from './approval-data.ts'
import { LinkButton } from './link-dialog.tsx'
import { leftOf, useNow } from './time-left.ts'

const MAX_REASON_LENGTH = 1000

interface DecideBarProps {
  readonly approval: WholeApproval
  /** Whether all arguments were shown to the person who decides. */
  readonly isSeen: boolean
}

/**
 * The end of a question: approve or reject, with a reason. It is no form: Enter in the field decides nothing, and no key does but
 * Enter on a button. What is shown after is what the server answered.
 */
export function DecideBar({ approval, isSeen }: DecideBarProps): ReactNode {
  const [reason, setReason] = useState('')
  const [isReasonMissing, setReasonMissing] = useState(false)
  const reasonField = useRef<HTMLInputElement>(null)
  const decide = useDecide(approval.id)
  const isOver = leftOf(approval.expires_at, useNow(1000)).isOver
  const closed = closedText(approval, isOver)
  useEcho(echoOf(approval, closed !== undefined, reason))
  if (closed !== undefined)
    return (
      <div className="decide-bar">
        <p className="row grow decided" role="status">
          <Icon name={approval.state === 'rejected' ? 'rejected' : 'check'} size={14} />
          {closed}
        </p>
        {decide.error !== null && <Note tone="failed">{messageOf(decide.error)}</Note>}
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
  const { stale, hides_something: hides, hindrance } = approval
  const off = stale
    ? STALE
    : hindrance !== null
      ? HINDRANCES[hindrance](approval)
      : isSeen
        ? undefined
        : UNSEEN
  const said = reason.trim() === '' ? {} : { reason: reason.trim() }
  const pending = decide.isPending ? decide.variables?.verb : undefined
  return (
    <div className="decide-bar" role="group" aria-label="Your decision">
      <div className="grow">
        <Field
          label="Reason"
          note="kept in the journal; needed to reject"
          {...(isReasonMissing ? { error: 'Say why, so that the caller can do better.' } : {})}
        >
          {(control) => (
            <TextInput
              {...control}
              ref={reasonField}
              value={reason}
              maxLength={MAX_REASON_LENGTH}
              spellCheck
              onChange={(event) => {
                setReason(event.currentTarget.value)
                setReasonMissing(false)
              }}
            />
          )}
        </Field>
      </div>
      <LinkButton approval={approval} />
      <Button
        kind="danger"
        writes
        isBusy={pending === 'reject'}
        off={pending === 'approve' ? 'The approval is on its way.' : undefined}
        onClick={() => {
          if (reason.trim() !== '') return decide.mutate({ verb: 'reject', ...said })
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
        off={off ?? (pending === 'reject' ? 'The rejection is on its way.' : undefined)}
        onClick={() => decide.mutate({ verb: 'approve', ...said, ...(hides ? { acceptHidden: true } : {}) })}
      >
        {hides ? 'Approve once, with what is hidden' : 'Approve once'}
      </Button>
      {decide.error !== null && (
        <Note tone="failed">{messageOf(decide.error)} Nothing was decided by you.</Note>
      )}
      <p className="promise">
        <Icon name="lock" size={14} />
        <span>
          {off ??
            'Allows one attempt with exactly these arguments, tool and credential. Approving runs nothing. The call runs when the caller repeats it.'}
        </span>
      </p>
    </div>
  )
}

const STALE = 'The tool has changed since the call was made, so this call can only be rejected.'

const UNSEEN =
  'You have not seen all of it. Show everything that is folded, and scroll to the end of the arguments.'

const HINDRANCES = {
  scope: ({ required_scope: scope }: WholeApproval) =>
    `Approving this needs a credential with the scope ${scope}, which yours has not. You may make no link for it either.`,
  own: () => 'This is your own call. Somebody else has to approve it; you may reject it.',
  approved_before: ({ quorum, decisions }: WholeApproval) =>
    `You have approved it. ${countOf(quorum - decisions.length, 'more approval is', 'more approvals are')} needed.`,
} as const

/** What became of it, once there is nothing to decide any more. */
function closedText(
  { state, decisions, decided_at: at }: WholeApproval,
  isOver: boolean,
): string | undefined {
  const last = decisions.at(-1)
  const by = last === undefined ? '' : ` by ${last.by}`
  const when = at === null ? '' : ` at ${formatClock(at)}`
  switch (state) {
    case 'pending':
      return isOver ? 'The time to decide has run out. The call will not run.' : undefined
    case 'granted':
      return `Approved${by}${when}. It runs when its caller makes the same call again.`
    case 'used':
      return `Approved${by}${when}, and the call has been run.`
    case 'rejected':
      return `Rejected${by}${when}. The call will not run.`
    case 'expired':
      return 'Nobody decided in time, or the approval was not used in time. The call will not run.'
    case 'cancelled':
      return 'The call was cancelled before it was decided. It will not run.'
  }
}

/** The same in a terminal. */
export function echoOf(
  { id, stale, hides_something: hides }: Pick<WholeApproval, 'id' | 'stale' | 'hides_something'>,
  isClosed: boolean,
  reason: string,
): string {
  if (isClosed) return `collet approvals show ${id}`
  const said = reason.trim() === '' ? '' : ` --reason ${quoted(reason.trim())}`
  if (stale) return `collet approvals reject ${id}${said}`
  return `collet approvals approve ${id}${said}${hides ? ' --accept-hidden' : ''}`
}
