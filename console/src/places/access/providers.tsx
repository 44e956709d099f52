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
import { WORDS } from './words.tsx'

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
          {WORDS.oauthProviders}
        </h2>
      </div>
      {found.error !== null && <Note tone="failed">{messageOf(found.error)}</Note>}
      {found.data !== undefined && needs.data !== undefined && providers.length + absent.length === 0 && (
        <p className="soft">{WORDS.noneProvidersAreSetIn(<code>oauth.providers</code>)}</p>
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
          {WORDS.notInConfig(countOf(tools.length, WORDS.toolNeeds, WORDS.toolsNeed))}
        </p>
      </div>
      <Button isSmall onClick={() => setOpen(true)}>
        {WORDS.setUp}
      </Button>
      <Dialog title={WORDS.setUp2(visibleText(id))} isOpen={isOpen} onClose={() => setOpen(false)}>
        <div className="dialog">
          <p className="soft" dir="auto">
            {WORDS.accessRegisterApplicationThereWith(
              visibleText(tools.join(', ')),
              tools.length === 1 ? 'needs' : 'need',
            )}
          </p>
          <CodeLine text={`${server?.url ?? ''}/oauth/callback`} label={WORDS.address} />
          <p className="soft">
            {WORDS.addConfigThenRunWithout(
              <Command text="collet reload" />,
              <code>authorizationEndpoint</code>,
              <code>tokenEndpoint</code>,
            )}
          </p>
          <Code text={providerLines(id).join('\n')} label={WORDS.linesForConfig} />
          <p className="soft">{WORDS.withTokenNoProviderNeeded}</p>
          <CommandLine text={`collet secrets set ${id} --token${ownerOption}`} />
          <p className="row end">
            <Button onClick={() => setOpen(false)}>{WORDS.close}</Button>
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
          {at} · {countOf(tools, WORDS.toolNeeds, WORDS.toolsNeed)} ·{' '}
          {countOf(connections.length, 'connection')}
        </p>
        <ul>
          {connections.map((connection) => (
            <li key={connection.ref} className="row meta">
              <span className="mono clip grow">
                {visibleText(connection.principal)}
                {connection.user !== null && WORDS.forOneItsUsers}
              </span>
              {connection.state === 'spent' ? (
                <span className="is-parked">{WORDS.mustConsentAgain}</span>
              ) : (
                <span className="dim">{formatClock(connection.updated_at)}</span>
              )}
              <Button
                isSmall
                kind="danger"
                writes
                off={mayDisconnect ? undefined : WORDS.thisNeedsScope(SECRETS_SCOPE)}
                onClick={() => setDisconnecting(connection)}
              >
                {WORDS.disconnect}
              </Button>
            </li>
          ))}
        </ul>
      </div>
      <Button
        isSmall
        writes
        off={canConnect ? undefined : WORDS.otherMachinesReachThisServer}
        onClick={() => setOpen(true)}
      >
        {WORDS.connect}
      </Button>
      <Dialog title={WORDS.connect2(id)} isOpen={isOpen && canConnect} onClose={() => setOpen(false)}>
        <ConnectForm provider={provider} onDone={() => setOpen(false)} />
      </Dialog>
      <ConfirmDialog
        title={WORDS.disconnectFrom(disconnecting?.principal ?? '', id)}
        verb={WORDS.disconnect2}
        isOpen={disconnecting !== undefined}
        onClose={() => setDisconnecting(undefined)}
        onConfirm={async () => {
          await removeCredential(disconnecting?.ref ?? '')
          onChanged()
        }}
      >
        {WORDS.tokenDeletedAtOnceRevoked(id)}
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
        <p className="soft">{WORDS.openThisLinkGrantAccess(provider.id)}</p>
        <CodeLine text={url} label={WORDS.link} />
        <p className="row end">
          <Button onClick={onDone}>{WORDS.close}</Button>
          <a className="btn primary" href={url} target="_blank" rel="noreferrer">
            {WORDS.go(provider.id)}
          </a>
        </p>
      </div>
    )
  return (
    <DialogForm onSubmit={run}>
      <p className="soft">
        {provider.scopes.length === 0
          ? WORDS.noToolRequiresScopeYet
          : WORDS.itsToolsNeed(provider.scopes.join(', '))}
      </p>
      <TextField
        label={WORDS.principal}
        note={maySetForOthers ? WORDS.callerMayUse : WORDS.yoursOthersNeedScope(SECRETS_SCOPE)}
        readOnly={!maySetForOthers}
        error={failure}
        isMono
        value={principal}
        onChange={setPrincipal}
      />
      {isOperator && (
        <TextField label={WORDS.tenant} note={WORDS.caller} isMono value={tenant} onChange={setTenant} />
      )}
      <p className="meta dim">
        <Command text={`collet secrets connect ${provider.id} --principal ${principal}`} />
      </p>
      <p className="row end">
        <Button onClick={onDone}>{WORDS.cancel}</Button>
        <Button kind="primary" submits writes isBusy={isBusy}>
          {WORDS.makeLink}
        </Button>
      </p>
    </DialogForm>
  )
}
