import { type ReactNode, useState } from 'react'
import { useAct } from '../../parts/act.ts'
import { Button } from '../../parts/button.tsx'
import { CodeLine } from '../../parts/code.tsx'
import { Dialog, DialogForm } from '../../parts/dialog.tsx'
import { Choices, TextField } from '../../parts/field.tsx'
import { formatClock } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { type MadeLink, makeLink, type WholeApproval } from './approval-data.ts'

const POWERS = [
  {
    value: 'decide',
    label: 'Decide',
    explanation: 'Opens a page that works on a phone. It decides once.',
  },
  { value: 'inspect', label: 'Only look', explanation: 'Shows the call and decides nothing.' },
] as const

const EXEC = 'Not for a tool that runs commands: its approvers sign in with a credential.'
const QUORUM = 'Not for a call that several people have to approve: they sign in with a credential.'

/** Makes a link to this approval for a person without an account. */
export function LinkButton({ approval }: { readonly approval: WholeApproval }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const off = approval.stale
    ? 'The tool has changed, so there is nothing left to ask.'
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
  const { isBusy, failure, refuse, run } = useAct(async () =>
    setMade(await makeLink(approval.id, { approver: approver.trim(), power })),
  )
  const make = (): void => {
    if (approver.trim() === '') refuse('Say who it is for, such as alice@example.com.')
    else run()
  }
  if (made !== undefined) return <Made link={made} expiresAt={approval.expires_at} onDone={onDone} />
  return (
    <DialogForm onSubmit={make}>
      <TextField
        label="Who it is for"
        note="the decision is recorded under this name"
        error={failure}
        placeholder="alice@example.com"
        value={approver}
        onChange={setApprover}
      />
      <Choices
        legend="What it allows"
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
      {link.needs_sign_in && <Note>They have to sign in as {link.approver} to decide.</Note>}
      {link.power === 'inspect' && <Note>It only shows the call.</Note>}
      <p className="row end">
        <Button onClick={onDone}>Done</Button>
      </p>
    </div>
  )
}
