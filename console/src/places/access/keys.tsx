import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { useSession } from '../../api/session.ts'
import { Section } from '../../app/page.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { Button } from '../../parts/button.tsx'
import { countOf, formatDate } from '../../parts/format.ts'
import { Ago, Tag } from '../../parts/meaning.tsx'
import { Empty, Found } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type ApiKey, type ConfiguredKey, keysQuery } from './access-data.ts'
import { CreateKeyDialog, RevokeDialog, RotateDialog } from './key-dialogs.tsx'
import { WORDS } from './words.tsx'

/*
 * The list of principals with keys, their permissions and last use. `page.tsx` uses it. It never contains a key itself.
 */

const COLUMNS = [
  { title: WORDS.principal, className: 'c-k1' },
  { title: WORDS.key3, className: 'c-k2' },
  { title: WORDS.permissions },
  { title: WORDS.lastUsed, className: 'c-k3' },
  { title: WORDS.expires, className: 'c-k3' },
  { title: WORDS.actions, className: 'c-k4', isHidden: true },
] as const

/** Principals with keys, their permissions, and the last use. A key itself is shown once, when it is created. */
export function Keys({ onCommand }: { readonly onCommand: (command: string) => void }): ReactNode {
  // The command palette links here with the open dialog.
  const [{ create }, changeAddress] = useSearchState()
  const isCreating = create === 'key'
  const setCreating = (isOpen: boolean): void => void changeAddress({ create: isOpen ? 'key' : undefined })
  const close = (): void => {
    setCreating(false)
    onCommand('collet keys list')
  }
  return (
    <Section
      id="keys"
      title={WORDS.keys}
      scope="admin:keys"
      onEnter={() => onCommand('collet keys list')}
      actions={
        <Button kind="primary" isSmall icon="plus" writes onClick={() => setCreating(true)}>
          {WORDS.createKey}
        </Button>
      }
    >
      <KeyList />
      <CreateKeyDialog isOpen={isCreating} onClose={close} onCommand={onCommand} />
    </Section>
  )
}

function KeyList(): ReactNode {
  const keys = useQuery(keysQuery)
  const isOpen = useSession()?.server.isOpen === true
  const [showsEnded, setShowsEnded] = useState(false)
  const [rotating, setRotating] = useState<ApiKey>()
  const [revoking, setRevoking] = useState<ApiKey>()
  return (
    <Found query={keys} what={WORDS.keys2}>
      {({ keys: all, configured }) => {
        const ended = all.filter(hasEnded)
        const shown = showsEnded ? all : all.filter((key) => !hasEnded(key))
        return (
          <>
            {shown.length + configured.length === 0 ? (
              <Empty title={WORDS.thereAreNoKeysIn}>
                {isOpen ? WORDS.firstKeyYouCreateCloses : WORDS.callersNeedTokenIssuerIn}
              </Empty>
            ) : (
              <Table caption={WORDS.keys} columns={COLUMNS} className="keys">
                <tbody>
                  {configured.map((key) => (
                    <ConfiguredRow key={`${key.tenant} ${key.principal}`} apiKey={key} />
                  ))}
                  {shown.map((key) => (
                    <KeyRow
                      key={key.key_id}
                      apiKey={key}
                      onRotate={() => setRotating(key)}
                      onRevoke={() => setRevoking(key)}
                    />
                  ))}
                </tbody>
              </Table>
            )}
            {ended.length > 0 && (
              <p className="after-table">
                <Button kind="quiet" isSmall onClick={() => setShowsEnded(!showsEnded)}>
                  {showsEnded ? WORDS.hideEndedKeys : WORDS.show(countOf(ended.length, WORDS.endedKey))}
                </Button>
              </p>
            )}
            <RotateDialog apiKey={rotating} onClose={() => setRotating(undefined)} />
            <RevokeDialog apiKey={revoking} onClose={() => setRevoking(undefined)} />
          </>
        )
      }}
    </Found>
  )
}

function hasEnded({ revoked_at, expires_at }: ApiKey): boolean {
  return revoked_at !== null || (expires_at !== null && Date.parse(expires_at) <= Date.now())
}

interface KeyRowProps {
  readonly apiKey: ApiKey
  readonly onRotate: () => void
  readonly onRevoke: () => void
}

const LONG_UNUSED_MS = 60 * 86_400_000

function KeyRow({ apiKey, onRotate, onRevoke }: KeyRowProps): ReactNode {
  const { principal, tenant, label, key_id, last_used_at, expires_at, revoked_at, created_at } = apiKey
  const isOperator = useSession()?.principal?.isOperator === true
  const isIdle = Date.now() - Date.parse(last_used_at ?? created_at) > LONG_UNUSED_MS
  const aside = [
    visibleText(label ?? ''),
    isOperator && tenant !== 'default' ? `tenant ${tenant}` : null,
  ].filter(Boolean)
  return (
    <tr>
      <th scope="row" className="strong clip" title={[principal, ...aside].join(', ')}>
        {principal}
        {aside.length > 0 && <span className="dim"> {aside.join(', ')}</span>}
      </th>
      <td className="mono dim clip" title={key_id}>
        {key_id}
      </td>
      <td>
        <Permissions apiKey={apiKey} />
      </td>
      <td data-l="used" className={isIdle ? 'num is-parked' : 'num soft'}>
        {last_used_at === null ? 'never' : <Ago time={last_used_at} />}
      </td>
      <td data-l="expires" className="num soft">
        {revoked_at !== null ? 'revoked' : expires_at === null ? 'never' : formatDate(expires_at)}
      </td>
      <td className="end">
        {revoked_at === null && (
          <>
            <Button kind="quiet" isSmall writes onClick={onRotate} aria-label={WORDS.rotate(principal)}>
              {WORDS.rotate2}
            </Button>
            <Button kind="quiet" isSmall writes onClick={onRevoke} aria-label={WORDS.revoke2(key_id)}>
              {WORDS.revoke3}
            </Button>
          </>
        )}
      </td>
    </tr>
  )
}

/** Keys of the config are read-only, and their uses are not recorded. */
function ConfiguredRow({ apiKey }: { readonly apiKey: ConfiguredKey }): ReactNode {
  const { principal, tenant, expires_at } = apiKey
  const isOperator = useSession()?.principal?.isOperator === true
  return (
    <tr>
      <th scope="row" className="strong clip" title={principal}>
        {principal}
        {isOperator && tenant !== 'default' && <span className="dim"> {WORDS.tenant2(tenant)}</span>}
      </th>
      <td className="dim">{WORDS.inConfig}</td>
      <td>
        <Permissions apiKey={{ ...apiKey, toolsets: [] }} />
      </td>
      <td data-l="used" className="num soft" title={WORDS.usesAreRecordedForKeys}>
        {WORDS.notRecorded}
      </td>
      <td data-l="expires" className="num soft">
        {expires_at === null ? 'never' : formatDate(expires_at)}
      </td>
      <td />
    </tr>
  )
}

const MAX_TAGS = 4

interface PermissionsProps {
  readonly apiKey: Pick<ApiKey, 'scopes' | 'roles' | 'tools' | 'toolsets'>
}

/** Scopes and roles grant tools; toolsets and tools restrict them. Full access stands out. */
function Permissions({ apiKey: { scopes, roles, tools, toolsets } }: PermissionsProps): ReactNode {
  const narrowed = [...toolsets.map((name) => `toolset ${name}`), ...(tools ?? [])]
  const words = [
    ...scopes.filter((scope) => scope !== '*'),
    ...roles.map((role) => `role ${role}`),
    ...narrowed,
  ]
  return (
    <span className="row" title={words.join(', ')}>
      {scopes.includes('*') && <Tag tone="parked">{WORDS.everything}</Tag>}
      {words.slice(0, MAX_TAGS).map((word) => (
        <Tag key={word}>{word}</Tag>
      ))}
      {words.length > MAX_TAGS && <span className="meta dim">{WORDS.more(words.length - MAX_TAGS)}</span>}
      {words.length === 0 && scopes.length === 0 && <span className="dim">{WORDS.toolsWithoutScopes}</span>}
    </span>
  )
}
