import type { ReactNode } from 'react'
import { holdsScope, useSession } from '../../api/session.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { Empty } from '../../parts/states.tsx'

/*
 * The page that shows how things go on the server. The router opens it, first for operators. Without its scope it sends no requests.
 */

const SCOPE = 'admin:calls'

/** How things go on the server. */
export function OverviewPage(): ReactNode {
  const maySee = holdsScope(useSession()?.principal, SCOPE)
  usePageCommand('collet usage')
  return (
    <Page title="Overview">
      {maySee ? (
        <Empty title="Nothing to show yet">Calls are in Calls, usage is in Settings.</Empty>
      ) : (
        <NeedsScope scope={SCOPE} />
      )}
    </Page>
  )
}
