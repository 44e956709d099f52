import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { sessionQuery, useSession } from '../../api/session.ts'
import { type Action, useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { CodeLine } from '../../parts/code.tsx'
import { ConfirmDialog, Dialog, DialogForm } from '../../parts/dialog.tsx'
import { Checkbox, Choices, Field, Select, TextInput } from '../../parts/field.tsx'
import { formatDate } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import {
  type ApiKey,
  createKey,
  endPrincipal,
  keysQuery,
  type NewKey,
  revokeKey,
  rotateKey,
  type Toolset,
  toolsetsQuery,
} from './access-data.ts'
import { commandOf, EMPTY_FORM, EXPIRIES, type KeyForm, problemOf, termsOf } from './key-form.ts'
import { ToolPicker } from './tool-picker.tsx'
import { WORDS } from './words.tsx'

/*
 * The dialogs that create, rotate and revoke keys. `keys.tsx` uses it. A new key is shown only once.
 */

/** Creates a principal with its first key. The page's terminal command contains the values of the form. */
export function CreateKeyDialog({ isOpen, onClose, onCommand }: CreateProps): ReactNode {
  return (
    <Dialog title={WORDS.createKey} isOpen={isOpen} onClose={onClose}>
      <CreateForm onClose={onClose} onCommand={onCommand} />
    </Dialog>
  )
}

function namesOf(toolsets: readonly Toolset[]): readonly string[] {
  return toolsets.map(({ name }) => name)
}

interface CreateProps {
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onCommand: (command: string) => void
}

function CreateForm({ onClose, onCommand }: Omit<CreateProps, 'isOpen'>): ReactNode {
  const session = useSession()
  const { data: toolsets = [] } = useQuery({ ...toolsetsQuery, select: namesOf })
  const [form, setForm] = useState<KeyForm>(EMPTY_FORM)
  const newKey = useNewKey(() => createKey(termsOf(form)))
  const command = commandOf(form)
  useEffect(() => onCommand(command), [command, onCommand])
  if (newKey.made !== undefined) return <ShownOnce made={newKey.made} onClose={onClose} />

  const problem = newKey.failure === undefined ? undefined : problemOf(newKey.failure)
  const errorOf = (member: keyof KeyForm): string | undefined =>
    problem?.member === member ? problem.text : undefined
  const set = (patch: Partial<KeyForm>): void => setForm({ ...form, ...patch })
  const text =
    (member: 'principal' | 'scopes' | 'roles' | 'tools' | 'tenant' | 'label', isMono = true) =>
    (control: object): ReactNode => (
      <TextInput
        {...control}
        isMono={isMono}
        value={form[member]}
        onChange={(event) => set({ [member]: event.currentTarget.value })}
      />
    )
  return (
    <DialogForm
      onSubmit={() => {
        if (form.principal.trim() === '') newKey.fail(WORDS.enterNameForExampleCi)
        else newKey.run()
      }}
    >
      {session?.server.isOpen === true && <Note tone="parked">{WORDS.thisServerAcceptsCallsWithout}</Note>}
      <Field label={WORDS.name} hint={WORDS.callerNameCannotBeReused} error={errorOf('principal')}>
        {text('principal')}
      </Field>
      <Field
        label={WORDS.scopes}
        note={WORDS.optional}
        hint={WORDS.spaceSeparatedMailReadCrm}
        error={errorOf('scopes')}
      >
        {text('scopes')}
      </Field>
      <Field
        label={WORDS.roles}
        note={WORDS.optional}
        hint={WORDS.fromConfigSpaceSeparated}
        error={errorOf('roles')}
      >
        {text('roles')}
      </Field>
      {toolsets.length > 0 && (
        <fieldset className="choices">
          <legend className="label">{WORDS.onlyTheseToolsets}</legend>
          {toolsets.map((name) => (
            <Checkbox
              key={name}
              label={name}
              checked={form.toolsets.includes(name)}
              onChange={(event) =>
                set({
                  toolsets: event.currentTarget.checked
                    ? [...form.toolsets, name]
                    : form.toolsets.filter((other) => other !== name),
                })
              }
            />
          ))}
          {errorOf('toolsets') !== undefined && <Note tone="failed">{errorOf('toolsets')}</Note>}
        </fieldset>
      )}
      <Field
        label={WORDS.onlyTheseTools}
        note={WORDS.optional}
        hint={WORDS.namesOrPatternsMailCalendar}
        error={errorOf('tools')}
      >
        {text('tools')}
      </Field>
      <ToolPicker form={form} onChange={set} />
      {session?.principal?.isOperator === true && (
        <Field label={WORDS.tenant} note={WORDS.defaultWord} error={errorOf('tenant')}>
          {text('tenant')}
        </Field>
      )}
      <Field label={WORDS.label} note={WORDS.optional} error={errorOf('label')}>
        {text('label', false)}
      </Field>
      <Field label={WORDS.expires} error={errorOf('expires')}>
        {(control) => (
          <Select
            {...control}
            options={EXPIRIES}
            value={form.expires}
            onChange={(event) => set({ expires: event.currentTarget.value })}
          />
        )}
      </Field>
      <p className="row end">
        <Button onClick={onClose}>{WORDS.cancel}</Button>
        <Button kind="primary" submits writes isBusy={newKey.isBusy}>
          {WORDS.createKey}
        </Button>
      </p>
    </DialogForm>
  )
}

/** A new key, which is shown only once. */
function ShownOnce({ made, onClose }: { readonly made: NewKey; readonly onClose: () => void }): ReactNode {
  return (
    <div className="stack-3">
      <p>
        {WORDS.key(<b>{made.principal}</b>)}
        {made.expires_at !== null && <>{WORDS.until(formatDate(made.expires_at))}</>}
        {WORDS.copyNowShownOnlyOnce}
      </p>
      <CodeLine text={made.key} label={WORDS.key2} />
      {made.warnings.map((warning) => (
        <Note key={warning} tone="parked">
          {warning}
        </Note>
      ))}
      <p className="row end">
        <Button kind="primary" onClick={onClose}>
          {WORDS.iHaveCopied}
        </Button>
      </p>
    </div>
  )
}

const OVERLAPS = [
  { value: '0', label: 'now' },
  { value: '3600', label: WORDS.in1Hour },
  { value: '86400', label: WORDS.in24Hours },
  { value: '604800', label: WORDS.in7Days },
  { value: '', label: WORDS.whenTheyExpireOrAre },
] as const

/** Creates another key with the same permissions. The older keys expire after an overlap. */
export function RotateDialog({ apiKey, onClose }: KeyDialogProps): ReactNode {
  return (
    <Dialog title={WORDS.rotateKey(apiKey?.principal ?? '')} isOpen={apiKey !== undefined} onClose={onClose}>
      {apiKey !== undefined && <RotateForm apiKey={apiKey} onClose={onClose} />}
    </Dialog>
  )
}

interface KeyDialogProps {
  /** The key to change; `undefined` closes the dialog. */
  readonly apiKey: ApiKey | undefined
  readonly onClose: () => void
}

function RotateForm({
  apiKey,
  onClose,
}: {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}): ReactNode {
  const [seconds, setSeconds] = useState('86400')
  const newKey = useNewKey(() => rotateKey(apiKey, seconds === '' ? null : Number(seconds)))
  if (newKey.made !== undefined) return <ShownOnce made={newKey.made} onClose={onClose} />
  return (
    <DialogForm onSubmit={newKey.run}>
      <p className="soft">{WORDS.createsAnotherKeyWithSame}</p>
      <Field label={WORDS.expiryItsOtherKeys} error={newKey.failure}>
        {(control) => (
          <Select
            {...control}
            options={OVERLAPS}
            value={seconds}
            onChange={(event) => setSeconds(event.currentTarget.value)}
          />
        )}
      </Field>
      <p className="row end">
        <Button onClick={onClose}>{WORDS.cancel}</Button>
        <Button kind="primary" submits writes isBusy={newKey.isBusy}>
          {WORDS.rotateKey2}
        </Button>
      </p>
    </DialogForm>
  )
}

/** Revokes one key, or a principal with all its keys. It cannot be undone. */
export function RevokeDialog({ apiKey, onClose }: KeyDialogProps): ReactNode {
  const client = useQueryClient()
  const [what, setWhat] = useState<'key' | 'principal'>('key')
  const close = (): void => {
    setWhat('key')
    onClose()
  }
  return (
    <ConfirmDialog
      title={WORDS.revokeKey(apiKey?.principal ?? '')}
      typed={apiKey?.principal ?? ''}
      verb={what === 'key' ? WORDS.revokeKey2 : WORDS.endPrincipal}
      isOpen={apiKey !== undefined}
      onClose={close}
      onConfirm={async () => {
        if (apiKey === undefined) return
        await (what === 'key' ? revokeKey(apiKey) : endPrincipal(apiKey))
        await client.invalidateQueries({ queryKey: keysQuery.queryKey })
      }}
    >
      <Choices
        legend={WORDS.revoke}
        name="revoke"
        value={what}
        onChange={setWhat}
        choices={[
          {
            value: 'key',
            label: WORDS.thisKey,
            explanation: WORDS.callsWithAreRejectedWithin,
          },
          {
            value: 'principal',
            label: WORDS.principalWithAllItsKeys,
            explanation: WORDS.permanentItsNameCannotBe,
          },
        ]}
      />
    </ConfirmDialog>
  )
}

interface NewKeyAction extends Action {
  readonly made: NewKey | undefined
}

/** Requests a new key, which is shown once. */
function useNewKey(requestKey: () => Promise<NewKey>): NewKeyAction {
  const client = useQueryClient()
  const [made, setMade] = useState<NewKey>()
  const act = useAction(async () => {
    setMade(await requestKey())
    await client.invalidateQueries({ queryKey: keysQuery.queryKey })
    // After the first key, an open server requires one from every caller.
    await client.invalidateQueries({ queryKey: sessionQuery.queryKey })
  })
  return { ...act, made }
}
