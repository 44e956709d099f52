import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { ApiError } from '../../api/client.ts'
import { useSession } from '../../api/session.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog, Dialog } from '../../parts/dialog.tsx'
import { Field, TextInput } from '../../parts/field.tsx'
import { formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type Credential, forget, neededBy, needsQuery, secretsQuery, setSecret } from './connection-data.ts'

/** Values that tools are handed. They go in and never come out again. */
export function Secrets({ onChanged }: { readonly onChanged: () => void }): ReactNode {
  const found = useQuery(secretsQuery)
  const needs = useQuery(needsQuery)
  const [setting, setSetting] = useState<Setting>()
  const [leaving, setLeaving] = useState<Credential>()
  const secrets = (found.data ?? []).filter(({ kind }) => kind === 'secret')
  const needed = needs.data === undefined ? [] : [...neededBy(needs.data, 'secret')]
  const unset = needed.filter(([name]) => !secrets.some((secret) => secret.name === name))
  const isRefused = found.error instanceof ApiError && found.error.status === 403
  return (
    <section aria-labelledby="sec">
      <div className="sec-head">
        <h2 id="sec" className="grow">
          Secrets
        </h2>
        <Button
          isSmall
          icon="plus"
          writes
          onClick={() => setSetting({ name: '', principal: '', tenant: undefined })}
        >
          Secret
        </Button>
      </div>
      {isRefused && <p className="soft">{messageOf(found.error)}</p>}
      {found.error !== null && !isRefused && <Note tone="failed">{messageOf(found.error)}</Note>}
      {found.data !== undefined && secrets.length + unset.length === 0 && (
        <p className="soft">None. A tool that needs one says so in the catalog.</p>
      )}
      <ul className="needs">
        {unset.map(([name, tools]) => (
          <li key={name}>
            <Icon name="key" className="is-parked" />
            <div className="grow">
              <p className="mono strong">{visibleText(name)}</p>
              <p className="meta is-parked clip">Set for nobody · {tools.join(', ')} needs it</p>
            </div>
            <Button isSmall writes onClick={() => setSetting({ name, principal: '', tenant: undefined })}>
              Set
            </Button>
          </li>
        ))}
        {secrets.map((secret) => (
          <li key={secret.ref}>
            <Icon name="key" className="is-quiet" />
            <div className="grow">
              <p className="mono strong">{visibleText(secret.name)}</p>
              <p className="meta dim clip">
                Of {visibleText(secret.principal)}
                {secret.user !== null && ', for one of its users'} · set {formatClock(secret.updated_at)} ·
                cannot be read back
              </p>
            </div>
            <Button
              isSmall
              writes
              off={secret.user === null ? undefined : 'Of a user: replace it with collet secrets set --user.'}
              onClick={() =>
                setSetting({ name: secret.name, principal: secret.principal, tenant: secret.tenant })
              }
            >
              Replace
            </Button>
            <Button isSmall kind="danger" writes onClick={() => setLeaving(secret)}>
              Forget…
            </Button>
          </li>
        ))}
      </ul>
      <Dialog title="Set a secret" isOpen={setting !== undefined} onClose={() => setSetting(undefined)}>
        {setting !== undefined && (
          <SecretForm setting={setting} onDone={() => setSetting(undefined)} onChanged={onChanged} />
        )}
      </Dialog>
      <ConfirmDialog
        title={`Forget ${leaving?.name ?? ''}?`}
        typed={leaving?.name ?? ''}
        verb="Forget secret"
        isOpen={leaving !== undefined}
        onClose={() => setLeaving(undefined)}
        onConfirm={async () => {
          await forget(leaving?.ref ?? '')
          onChanged()
        }}
      >
        Calls of {leaving?.principal} that need it are refused from now on. Nobody can read it back.
      </ConfirmDialog>
    </section>
  )
}

interface Setting {
  readonly name: string
  readonly principal: string
  /** Of one that is replaced. */
  readonly tenant: string | undefined
}

interface SecretFormProps {
  readonly setting: Setting
  readonly onDone: () => void
  readonly onChanged: () => void
}

function SecretForm({ setting, onDone, onChanged }: SecretFormProps): ReactNode {
  const own = useSession()?.principal
  const isOperator = own?.isOperator === true && own.id === 'operator'
  const mine = own === null || own === undefined || isOperator ? 'key:' : own.id
  const [name, setName] = useState(setting.name)
  const [principal, setPrincipal] = useState(setting.principal === '' ? mine : setting.principal)
  const [tenant, setTenant] = useState(setting.tenant ?? own?.tenant ?? '')
  const [value, setValue] = useState('')
  const [failure, setFailure] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const save = async (): Promise<void> => {
    setBusy(true)
    setFailure(undefined)
    try {
      await setSecret({ name: name.trim(), principal: principal.trim(), tenant: tenant.trim(), value })
      onChanged()
      onDone()
    } catch (error) {
      setFailure(messageOf(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <form
      className="dialog"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <Field label="Name" note="as the tool asks for it">
        {(control) => (
          <TextInput
            {...control}
            isMono
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        )}
      </Field>
      <Field label="Whose" note="the caller whose calls may use it: key:<id> or jwt:<issuer>#<sub>">
        {(control) => (
          <TextInput
            {...control}
            isMono
            value={principal}
            onChange={(event) => setPrincipal(event.currentTarget.value)}
          />
        )}
      </Field>
      {isOperator && (
        <Field label="Tenant" note="of that caller">
          {(control) => (
            <TextInput
              {...control}
              isMono
              value={tenant}
              onChange={(event) => setTenant(event.currentTarget.value)}
            />
          )}
        </Field>
      )}
      <Field label="Value" note="kept encrypted; it cannot be read back">
        {(control) => (
          <TextInput
            {...control}
            isMono
            type="password"
            autoComplete="new-password"
            value={value}
            onChange={(event) => setValue(event.currentTarget.value)}
          />
        )}
      </Field>
      {failure !== undefined && <Note tone="failed">{failure}</Note>}
      <p className="meta dim mono">
        collet secrets set {name === '' ? 'NAME' : name} --principal {principal}
      </p>
      <p className="row end">
        <Button onClick={onDone}>Cancel</Button>
        <Button
          kind="primary"
          submits
          writes
          isBusy={isBusy}
          off={value === '' || name.trim() === '' ? 'Write a name and a value first.' : undefined}
        >
          Set secret
        </Button>
      </p>
    </form>
  )
}
