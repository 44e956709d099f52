import { type ReactNode, useState } from 'react'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { CodeLine } from '../../parts/code.tsx'
import { Dialog, DialogForm } from '../../parts/dialog.tsx'
import { Choices, TextField } from '../../parts/field.tsx'
import { formatClock } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { type MadeLink, makeLink, type WholeApproval } from './approval-data.ts'

/*
 * Makes a link to an approval for a person without an account. Used by `decision.tsx`.
 */

const POWERS = [
  {
    value: 'decide',
    label: 'Decide',
    explanation: 'Opens the approval screen and permits one decision.',
  },
  { value: 'inspect', label: 'View', explanation: 'Shows the call and decides nothing.' },
] as const

const EXEC = 'Not available for tools that run commands: approvers must sign in.'
const QUORUM = 'Not available if several people must approve: they must sign in.'

export function LinkButton({ approval }: { readonly approval: WholeApproval }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const off = approval.stale
    ? 'The tool has changed, so this call can no longer be approved.'
    : approval.obstacle === 'scope'
      ? 'Only people who may approve this call can share it.'
      : undefined
  return (
    <>
      <Button icon="external" writes off={off} onClick={() => setOpen(true)}>
        Link…
      </Button>
      <Dialog title="Share approval link" isOpen={isOpen} onClose={() => setOpen(false)}>
        <LinkForm approval={approval} onDone={() => setOpen(false)} />
      </Dialog>
    </>
  )
}

interface LinkFormProps {
  readonly approval: WholeApproval
  readonly onDone: () => void
}

function LinkForm({ approval, onDone }: LinkFormProps): ReactNode {
  const [approver, setApprover] = useState('')
  const off = approval.link_may_decide ? undefined : approval.safety_tier === 'exec' ? EXEC : QUORUM
  const [power, setPower] = useState<'decide' | 'inspect'>(off === undefined ? 'decide' : 'inspect')
  const [made, setMade] = useState<MadeLink>()
  const { isBusy, failure, fail, run } = useAction(async () =>
    setMade(await makeLink(approval.id, { approver: approver.trim(), power })),
  )
  const make = (): void => {
    if (approver.trim() === '') fail('Enter a name, for example alice@example.com.')
    else run()
  }
  if (made !== undefined) return <Made link={made} expiresAt={approval.expires_at} onDone={onDone} />
  return (
    <DialogForm onSubmit={make}>
      <TextField
        label="Approver"
        note="recorded with the decision"
        error={failure}
        placeholder="alice@example.com"
        value={approver}
        onChange={setApprover}
      />
      <Choices
        legend="Permission"
        name="power"
        value={power}
        onChange={setPower}
        choices={POWERS.map((choice) => (choice.value === 'decide' ? { ...choice, off } : choice))}
      />
      <p className="row end">
        <Button onClick={onDone}>Cancel</Button>
        <Button kind="primary" submits writes isBusy={isBusy}>
          Make link
        </Button>
      </p>
    </DialogForm>
  )
}

interface MadeProps {
  readonly link: MadeLink
  readonly expiresAt: string
  readonly onDone: () => void
}

function Made({ link, expiresAt, onDone }: MadeProps): ReactNode {
  return (
    <div className="dialog">
      <p className="soft">
        Send it to <b>{link.approver}</b> only: a person who has it can{' '}
        {link.power === 'decide' ? 'decide' : 'see the call'}. Expires with the request, at{' '}
        {formatClock(expiresAt)}.
      </p>
      <CodeLine text={link.url} label="link" />
      {link.needs_sign_in && <Note>To decide, they must sign in as {link.approver}.</Note>}
      {link.power === 'inspect' && <Note>The link only shows the call.</Note>}
      <p className="row end">
        <Button onClick={onDone}>Done</Button>
      </p>
    </div>
  )
}
