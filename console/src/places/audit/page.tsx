import type { ReactNode } from 'react'
import { holdsScope, holdsServerScope, useSession } from '../../api/session.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { Tabs } from '../../parts/tabs.tsx'
import { DeniedRequests } from './denied-requests.tsx'
import { Journal } from './journal.tsx'
import { Verification } from './journal-check.tsx'
import { words } from './words.ts'
import './audit.css'

/*
 * Audit: the journal as sentences, the requests that the server denied, and the check of the journal. The router opens it. Without its
 * scope it sends no requests.
 */

const SCOPE = 'audit:read'

export function AuditPage(): ReactNode {
  const principal = useSession()?.principal
  const [{ view = 'journal' }, change] = useSearchState()
  if (!holdsScope(principal, SCOPE))
    return (
      <Page title={words.title}>
        <NeedsScope scope={SCOPE} />
      </Page>
    )
  const views = [
    { id: 'journal', title: words.journal, panel: <Journal /> },
    {
      id: 'denied',
      title: words.denied,
      panel: (
        <Sections command="collet audit">{(onCommand) => <DeniedRequests onCommand={onCommand} />}</Sections>
      ),
    },
    // The check reads the journal of every tenant.
    ...(holdsServerScope(principal, SCOPE)
      ? [
          {
            id: 'verification',
            title: words.verification,
            panel: (
              <Sections command="collet journal verify">
                {(onCommand) => <Verification onCommand={onCommand} />}
              </Sections>
            ),
          },
        ]
      : []),
  ]
  return (
    <Page title={words.title}>
      <div className="audit">
        <Tabs
          label={words.title}
          value={views.some(({ id }) => id === view) ? view : 'journal'}
          onChange={(id) => void change({ view: id === 'journal' ? undefined : id, event: undefined })}
          tabs={views}
        />
      </div>
    </Page>
  )
}

function Sections({
  command,
  children,
}: {
  readonly command: string
  readonly children: (onCommand: (command: string) => void) => ReactNode
}): ReactNode {
  usePageCommand(command)
  return <div className="sections">{children(() => undefined)}</div>
}
