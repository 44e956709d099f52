import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { callerToName, useSession } from '../../api/session.ts'
import { Command } from '../../app/page-command.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog, Dialog, DialogForm } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/field.tsx'
import { formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import {
  type Credential,
  neededBy,
  needsQuery,
  removeCredential,
  secretsQuery,
  setSecret,
} from './access-data.ts'
import { WORDS } from './words.tsx'

/*
 * The secrets of tools. `page.tsx` uses it. They can be set, but never read.
 */

interface SecretsProps {
  readonly onChanged: () => void
}

/** Secrets of tools. They can be set, but never read. Shown to people with the scope for them. */
export function Secrets({ onChanged }: SecretsProps): ReactNode {
  const found = useQuery(secretsQuery)
  const needs = useQuery(needsQuery)
  // A tool's page links here with the secret that the tool needs.
  const [{ set = '' }, changeAddress] = useSearchState()
  const [draft, setDraft] = useState<SecretDraft | undefined>(set === '' ? undefined : draftOf(set))
  const [deleting, setDeleting] = useState<Credential>()
  const isOperator = useSession()?.principal?.isOperator === true
  const secrets = (found.data ?? []).filter(({ kind }) => kind === 'secret')
  // Missing secrets are known only after both lists are loaded.
  const needed =
    needs.data === undefined || found.data === undefined ? [] : [...neededBy(needs.data, 'secret')]
  const unset = needed.filter(([name]) => !secrets.some((secret) => secret.name === name))
  const close = (): void => {
    setDraft(undefined)
    changeAddress({ set: undefined })
  }
  return (
    <section aria-labelledby="sec">
      <div className="sec-head">
        <h2 id="sec" className="grow">
          {WORDS.secrets}
        </h2>
        <Button isSmall icon="plus" writes onClick={() => setDraft(draftOf(''))}>
          {WORDS.secret}
        </Button>
      </div>
      {found.error !== null && <Note tone="failed">{messageOf(found.error)}</Note>}
      {found.data !== undefined && secrets.length + unset.length === 0 && (
        <p className="soft">{WORDS.noneCatalogShowsWhichTools}</p>
      )}
      <ul className="needs">
        {unset.map(([name, tools]) => (
          <li key={name}>
            <Icon name="key" className="is-parked" />
            <div className="grow">
              <p className="mono strong">{visibleText(name)}</p>
              <p className="meta is-parked clip">
                {WORDS.notSet}
                {!isOperator && WORDS.inYourTenant}
                {WORDS.it(tools.join(', '), tools.length === 1 ? 'needs' : 'need')}
              </p>
            </div>
            <Button isSmall writes onClick={() => setDraft(draftOf(name))}>
              {WORDS.set}
            </Button>
          </li>
        ))}
        {secrets.map((secret) => (
          <li key={secret.ref}>
            <Icon name="key" className="is-quiet" />
            <div className="grow">
              <p className="mono strong">{visibleText(secret.name)}</p>
              <p className="meta dim clip">
                {WORDS.of(secret.principal === '*' ? WORDS.allCallersTenant : visibleText(secret.principal))}
                {secret.user !== null && WORDS.forOneItsUsers2}
                {WORDS.setCannotBeReadBack(formatClock(secret.updated_at))}
              </p>
            </div>
            <Button
              isSmall
              writes
              off={secret.user === null ? undefined : WORDS.belongsUserReplaceWithCollet}
              onClick={() =>
                setDraft({ name: secret.name, principal: secret.principal, tenant: secret.tenant })
              }
            >
              {WORDS.replace}
            </Button>
            <Button isSmall kind="danger" writes onClick={() => setDeleting(secret)}>
              {WORDS.deleteWord}
            </Button>
          </li>
        ))}
      </ul>
      <Dialog title={WORDS.setSecret} isOpen={draft !== undefined} onClose={close}>
        {draft !== undefined && <SecretForm draft={draft} onDone={close} onChanged={onChanged} />}
      </Dialog>
      <ConfirmDialog
        title={WORDS.deleteWord2(deleting?.name ?? '')}
        typed={deleting?.name ?? ''}
        verb={WORDS.deleteSecret}
        isOpen={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        onConfirm={async () => {
          await removeCredential(deleting?.ref ?? '')
          onChanged()
        }}
      >
        {WORDS.callsNeedAreRejectedFrom(deleting?.principal)}
      </ConfirmDialog>
    </section>
  )
}

interface SecretDraft {
  readonly name: string
  readonly principal: string
  /** The tenant of the secret that is replaced; `undefined` for a new secret. */
  readonly tenant: string | undefined
}

/** A new secret, whose owner is chosen in the form. */
function draftOf(name: string): SecretDraft {
  return { name, principal: '', tenant: undefined }
}

interface SecretFormProps {
  readonly draft: SecretDraft
  readonly onDone: () => void
  readonly onChanged: () => void
}

function SecretForm({ draft, onDone, onChanged }: SecretFormProps): ReactNode {
  const session = useSession()
  const own = session?.principal
  const isOperator = own?.isOperator === true && own.id === 'operator'
  const mine = own === null || own === undefined || isOperator ? callerToName(session) : own.id
  const [name, setName] = useState(draft.name)
  const [principal, setPrincipal] = useState(draft.principal === '' ? mine : draft.principal)
  const [tenant, setTenant] = useState(draft.tenant ?? own?.tenant ?? '')
  const [value, setValue] = useState('')
  const { isBusy, failure, run } = useAction(async () => {
    await setSecret({ name: name.trim(), principal: principal.trim(), tenant: tenant.trim(), value })
    onChanged()
    onDone()
  })
  return (
    <DialogForm onSubmit={run}>
      <TextField label={WORDS.name} note={WORDS.asInToolsDefinition} isMono value={name} onChange={setName} />
      <TextField
        label={WORDS.forPrincipal}
        note={WORDS.callerWhoseCallsUseKey}
        isMono
        value={principal}
        onChange={setPrincipal}
      />
      {isOperator && (
        <TextField label={WORDS.tenant} note={WORDS.caller} isMono value={tenant} onChange={setTenant} />
      )}
      <TextField
        label={WORDS.value}
        note={WORDS.storedEncryptedCannotBeRead}
        isMono
        type="password"
        autoComplete="new-password"
        value={value}
        onChange={setValue}
      />
      {failure !== undefined && <Note tone="failed">{failure}</Note>}
      <p className="meta dim">
        <Command text={`collet secrets set ${name === '' ? 'NAME' : name} --principal ${principal}`} />
      </p>
      <p className="row end">
        <Button onClick={onDone}>{WORDS.cancel}</Button>
        <Button
          kind="primary"
          submits
          writes
          isBusy={isBusy}
          off={value === '' || name.trim() === '' ? WORDS.enterNameValue : undefined}
        >
          {WORDS.setSecret2}
        </Button>
      </p>
    </DialogForm>
  )
}
