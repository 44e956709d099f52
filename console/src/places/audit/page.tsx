import { type ReactNode, useState } from 'react'
import { holdsScope, useSession } from '../../api/session.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { DeniedRequests } from './denied-requests.tsx'
import { Journal } from './journal-check.tsx'
import './audit.css'

/*
 * The page of the audit: the check of the journal, and the requests that the server denied. The router opens it. Without its scope it
 * sends no requests.
 */

const SCOPE = 'audit:read'

export function AuditPage(): ReactNode {
  const maySee = holdsScope(useSession()?.principal, SCOPE)
  const [command, setCommand] = useState('collet audit')
  usePageCommand(command)
  return (
    <Page title="Audit">
      {maySee ? (
        <div className="sections">
          <Journal onCommand={setCommand} />
          <DeniedRequests onCommand={setCommand} />
        </div>
      ) : (
        <NeedsScope scope={SCOPE} />
      )}
    </Page>
  )
}
