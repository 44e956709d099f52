import { type ReactNode, useState } from 'react'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { CodeLine } from '../../parts/code.tsx'
import { Dialog, DialogForm } from '../../parts/dialog.tsx'
import { Choices, TextField } from '../../parts/field.tsx'
import { formatClock } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { type MadeLink, makeLink, type WholeApproval } from './approval-data.ts'
import { WORDS } from './words.tsx'

/*
 * Makes a link to an approval for a person without an account. Used by `decision.tsx`.
 */

const POWERS = [
  {
    value: 'decide',
    label: WORDS.decide,
    explanation: WORDS.opensApprovalScreenPermitsOne,
  },
  { value: 'inspect', label: WORDS.view, explanation: WORDS.showsCallDecidesNothing },
] as const

const EXEC = WORDS.notAvailableForToolsRun
const QUORUM = WORDS.notAvailableIfSeveralPeople

export function LinkButton({ approval }: { readonly approval: WholeApproval }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const off = approval.stale
    ? WORDS.toolHasChangedSoThis
    : approval.obstacle === 'scope'
      ? WORDS.onlyPeopleWhoMayApprove
      : undefined
  return (
    <>
      <Button icon="external" writes off={off} onClick={() => setOpen(true)}>
        {WORDS.link}
      </Button>
      <Dialog title={WORDS.shareApprovalLink} isOpen={isOpen} onClose={() => setOpen(false)}>
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
    if (approver.trim() === '') fail(WORDS.enterNameForExampleAlice)
    else run()
  }
  if (made !== undefined) return <Made link={made} expiresAt={approval.expires_at} onDone={onDone} />
  return (
    <DialogForm onSubmit={make}>
      <TextField
        label={WORDS.approver}
        note={WORDS.recordedWithDecision}
        error={failure}
        placeholder={WORDS.aliceExampleCom}
        value={approver}
        onChange={setApprover}
      />
      <Choices
        legend={WORDS.permission}
        name="power"
        value={power}
        onChange={setPower}
        choices={POWERS.map((choice) => (choice.value === 'decide' ? { ...choice, off } : choice))}
      />
      <p className="row end">
        <Button onClick={onDone}>{WORDS.cancel}</Button>
        <Button kind="primary" submits writes isBusy={isBusy}>
          {WORDS.makeLink}
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
        {WORDS.sendOnlyPersonWhoHas(
          <b>{link.approver}</b>,
          link.power === 'decide' ? 'decide' : WORDS.seeCall,
          formatClock(expiresAt),
        )}
      </p>
      <CodeLine text={link.url} label={WORDS.link2} />
      {link.needs_sign_in && <Note>{WORDS.decideTheyMustSignIn(link.approver)}</Note>}
      {link.power === 'inspect' && <Note>{WORDS.linkOnlyShowsCall}</Note>}
      <p className="row end">
        <Button onClick={onDone}>{WORDS.done}</Button>
      </p>
    </div>
  )
}
