import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { holdsScope, useSession } from '../../api/session.ts'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { Keys } from './keys.tsx'
import { Providers } from './providers.tsx'
import { Secrets } from './secrets.tsx'
import { Toolsets } from './toolsets.tsx'
import './access.css'
import { WORDS } from './words.tsx'

/**
 * Who may call what, and with which credentials: keys, toolsets, secrets and OAuth accounts. The router opens it; tool pages link to
 * single secrets and providers. Invariant: a section that the credential may not see is left out and sends no request.
 */

const SECTIONS = [
  { id: 'keys', name: WORDS.keys, scope: 'admin:keys', command: 'collet keys list' },
  { id: 'toolsets', name: WORDS.toolsets, scope: 'admin:keys', command: 'collet toolsets' },
  { id: 'secrets', name: WORDS.secrets, scope: 'admin:secrets', command: 'collet secrets list' },
  { id: 'accounts', name: WORDS.oauthAccounts, scope: undefined, command: 'collet secrets list' },
] as const

type SectionId = (typeof SECTIONS)[number]['id']

export function AccessPage(): ReactNode {
  const client = useQueryClient()
  const principal = useSession()?.principal
  const sections = SECTIONS.filter(({ scope }) => scope === undefined || holdsScope(principal, scope))
  const [search, change] = useSearchState()
  const wanted =
    search.set !== undefined ? 'secrets' : search.connect !== undefined ? 'accounts' : search.section
  const current = sections.find(({ id }) => id === wanted) ?? sections[0]
  const [command, setCommand] = useState<string>(current?.command ?? '')
  const standard = current?.command ?? ''
  useEffect(() => setCommand(standard), [standard])
  usePageCommand(command)
  const changed = (): void => {
    // Credentials also decide what tools can be called.
    for (const queryKey of [['access'], ['tools'], ['tool'], ['start']])
      void client.invalidateQueries({ queryKey })
  }
  const go = (id: SectionId): void =>
    void change({ section: id, set: undefined, connect: undefined }, { isStep: true })
  return (
    <Page
      title={WORDS.access}
      actions={
        sections.length > 1 && (
          <nav className="tabs in-bar" aria-label={WORDS.sectionsAccess}>
            {sections.map(({ id, name }) => (
              <button
                key={id}
                type="button"
                aria-current={id === current?.id ? 'true' : undefined}
                onClick={() => go(id)}
              >
                {name}
              </button>
            ))}
          </nav>
        )
      }
    >
      <div className="sections access">
        {current?.id === 'keys' && <Keys onCommand={setCommand} />}
        {current?.id === 'toolsets' && <Toolsets onCommand={setCommand} />}
        {current?.id === 'secrets' && <Secrets onChanged={changed} />}
        {current?.id === 'accounts' && <Providers onChanged={changed} />}
      </div>
    </Page>
  )
}
