import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { providerLines } from '../../../../src/stages/credentials/provider-lines.ts'
import { callerToName, holdsScope, useSession } from '../../api/session.ts'
import { Command, CommandLine } from '../../app/page-command.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { Code, CodeLine } from '../../parts/code.tsx'
import { ConfirmDialog, Dialog, DialogForm } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/field.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import {
  connectProvider,
  neededBy,
  needsQuery,
  type Provider,
  providersQuery,
  removeCredential,
  SECRETS_SCOPE,
} from './access-data.ts'

/*
 * OAuth providers and their connections, with those that tools need but that are not in the config. `page.tsx` uses it.
 */

/** The OAuth providers in the config with their connections, and providers that tools need but that are not in the config. */
export function Providers({ onChanged }: { readonly onChanged: () => void }): ReactNode {
  const found = useQuery(providersQuery)
  const needs = useQuery(needsQuery)
  const providers = found.data ?? []
  const needed =
    needs.data === undefined || found.data === undefined ? [] : [...neededBy(needs.data, 'oauth')]
  const absent = needed.filter(([id]) => !providers.some((provider) => provider.id === id))
  return (
    <section aria-labelledby="prov">
      <div className="sec-head">
        <h2 id="prov" className="grow">
          OAuth providers
        </h2>
      </div>
      {found.error !== null && <Note tone="failed">{messageOf(found.error)}</Note>}
      {found.data !== undefined && needs.data !== undefined && providers.length + absent.length === 0 && (
        <p className="soft">
          None. Providers are set in the config, under <code>oauth.providers</code>.
        </p>
      )}
      <ul className="needs">
        {absent.map(([id, tools]) => (
          <AbsentItem key={id} id={id} tools={tools} />
        ))}
        {providers.map((provider) => (
          <ProviderItem key={provider.id} provider={provider} onChanged={onChanged} />
        ))}
      </ul>
    </section>
  )
}

/** Whether a provider's dialog is open. A tool's page links here with the provider that the tool needs. */
function useDialogState(id: string): readonly [boolean, (isOpen: boolean) => void] {
  const [{ connect }, changeAddress] = useSearchState()
  const [isOpen, setOpen] = useState(connect === id)
  return [
    isOpen,
    (next) => {
      setOpen(next)
      if (!next) changeAddress({ connect: undefined })
    },
  ]
}

/** A provider that tools need but that is not in the config. */
function AbsentItem({ id, tools }: { readonly id: string; readonly tools: readonly string[] }): ReactNode {
  const [isOpen, setOpen] = useDialogState(id)
  const server = useSession()?.server
  const ownerOption = server?.isOpen === true ? '' : ' --principal key:NAME'
  return (
    <li>
      <Icon name="ring" className="is-parked" />
      <div className="grow">
        <p className="strong" dir="auto">
          {visibleText(id)}
        </p>
        <p className="meta is-parked clip">
          Not in the config · {countOf(tools.length, 'tool needs it', 'tools need it')}
        </p>
      </div>
      <Button isSmall onClick={() => setOpen(true)}>
        Set up…
      </Button>
      <Dialog title={`Set up ${visibleText(id)}`} isOpen={isOpen} onClose={() => setOpen(false)}>
        <div className="dialog">
          <p className="soft" dir="auto">
            {visibleText(tools.join(', '))} {tools.length === 1 ? 'needs' : 'need'} access to it. Register an
            application there, with this redirect address:
          </p>
          <CodeLine text={`${server?.url ?? ''}/oauth/callback`} label="address" />
          <p className="soft">
            Add it to the config, then run <Command text="collet reload" />. Without an issuer, set{' '}
            <code>authorizationEndpoint</code> and <code>tokenEndpoint</code> instead.
          </p>
          <Code text={providerLines(id).join('\n')} label="lines for the config" />
          <p className="soft">With a token, no provider is needed:</p>
          <CommandLine text={`collet secrets set ${id} --token${ownerOption}`} />
          <p className="row end">
            <Button onClick={() => setOpen(false)}>Close</Button>
          </p>
        </div>
      </Dialog>
    </li>
  )
}

interface ProviderItemProps {
  readonly provider: Provider
  readonly onChanged: () => void
}

function ProviderItem({ provider, onChanged }: ProviderItemProps): ReactNode {
  const { id, at, tools, connections, can_connect: canConnect } = provider
  const [isOpen, setOpen] = useDialogState(id)
  const mayDisconnect = holdsScope(useSession()?.principal, SECRETS_SCOPE)
  const [disconnecting, setDisconnecting] = useState<Provider['connections'][number]>()
  return (
    <li>
      <Icon name={connections.length > 0 ? 'succeeded' : 'ring'} className="is-quiet" />
      <div className="grow">
        <p className="strong">{id}</p>
        <p className="meta dim clip">
          {at} · {countOf(tools, 'tool needs it', 'tools need it')} ·{' '}
          {countOf(connections.length, 'connection')}
        </p>
        <ul>
          {connections.map((connection) => (
            <li key={connection.ref} className="row meta">
              <span className="mono clip grow">
                {visibleText(connection.principal)}
                {connection.user !== null && ' for one of its users'}
              </span>
              {connection.state === 'spent' ? (
                <span className="is-parked">must consent again</span>
              ) : (
                <span className="dim">{formatClock(connection.updated_at)}</span>
              )}
              <Button
                isSmall
                kind="danger"
                writes
                off={mayDisconnect ? undefined : `This needs the scope ${SECRETS_SCOPE}.`}
                onClick={() => setDisconnecting(connection)}
              >
                Disconnect…
              </Button>
            </li>
          ))}
        </ul>
      </div>
      <Button
        isSmall
        writes
        off={
          canConnect ? undefined : 'Other machines reach this server: set oauth.signIn in the config first.'
        }
        onClick={() => setOpen(true)}
      >
        Connect
      </Button>
      <Dialog title={`Connect ${id}`} isOpen={isOpen && canConnect} onClose={() => setOpen(false)}>
        <ConnectForm provider={provider} onDone={() => setOpen(false)} />
      </Dialog>
      <ConfirmDialog
        title={`Disconnect ${disconnecting?.principal ?? ''} from ${id}?`}
        verb="Disconnect"
        isOpen={disconnecting !== undefined}
        onClose={() => setDisconnecting(undefined)}
        onConfirm={async () => {
          await removeCredential(disconnecting?.ref ?? '')
          onChanged()
        }}
      >
        The token is deleted at once, and revoked at {id} if it offers that. The next call that needs it asks
        for consent again.
      </ConfirmDialog>
    </li>
  )
}

function ConnectForm({
  provider,
  onDone,
}: {
  readonly provider: Provider
  readonly onDone: () => void
}): ReactNode {
  const session = useSession()
  const isOperator = session?.principal?.isOperator === true && session.principal.id === 'operator'
  const maySetForOthers = holdsScope(session?.principal, SECRETS_SCOPE)
  const [principal, setPrincipal] = useState(
    isOperator ? callerToName(session) : (session?.principal?.id ?? ''),
  )
  const [tenant, setTenant] = useState(session?.principal?.tenant ?? '')
  const [url, setUrl] = useState<string>()
  const { isBusy, failure, run } = useAction(async () => {
    const own = principal === session?.principal?.id
    const whose = own ? {} : { principal: principal.trim(), tenant: tenant.trim() }
    setUrl((await connectProvider(provider.id, whose)).url)
  })
  if (url !== undefined)
    return (
      <div className="dialog">
        <p className="soft">
          Open this link and grant access at {provider.id}. It is valid for ten minutes. This page updates
          after you have granted access.
        </p>
        <CodeLine text={url} label="link" />
        <p className="row end">
          <Button onClick={onDone}>Close</Button>
          <a className="btn primary" href={url} target="_blank" rel="noreferrer">
            Go to {provider.id}
          </a>
        </p>
      </div>
    )
  return (
    <DialogForm onSubmit={run}>
      <p className="soft">
        {provider.scopes.length === 0
          ? 'No tool requires a scope yet.'
          : `Its tools need: ${provider.scopes.join(', ')}.`}
      </p>
      <TextField
        label="Principal"
        note={
          maySetForOthers ? 'the caller that may use it' : `yours; others need the scope ${SECRETS_SCOPE}`
        }
        readOnly={!maySetForOthers}
        error={failure}
        isMono
        value={principal}
        onChange={setPrincipal}
      />
      {isOperator && (
        <TextField label="Tenant" note="of that caller" isMono value={tenant} onChange={setTenant} />
      )}
      <p className="meta dim">
        <Command text={`collet secrets connect ${provider.id} --principal ${principal}`} />
      </p>
      <p className="row end">
        <Button onClick={onDone}>Cancel</Button>
        <Button kind="primary" submits writes isBusy={isBusy}>
          Make link
        </Button>
      </p>
    </DialogForm>
  )
}
