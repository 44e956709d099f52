import type { ReactNode } from 'react'
import { holdsScope, useSession } from '../api/session.ts'
import { Empty } from '../parts/states.tsx'
import { WORDS } from './words.tsx'

/*
 * Takes the place of content that the credential may not see. Names the missing scope and who can grant it. A credential that has
 * the scope and is still refused belongs to one of several tenants. Used by several pages.
 */

interface NeedsScopeProps {
  readonly scope: string
  /** A scope that is enough for reading. */
  readonly or?: string
}

export function NeedsScope({ scope, or }: NeedsScopeProps): ReactNode {
  const principal = useSession()?.principal
  if (holdsScope(principal, scope))
    return (
      <Empty title={WORDS.thisForWholeServer}>{WORDS.yourCredentialForTenantAsk(principal?.tenant)}</Empty>
    )
  return (
    <Empty title={WORDS.thisNeedsScope(or === undefined ? scope : `${or} or ${scope}`)}>
      {WORDS.youAre} {principal?.name ?? principal?.id}
      {WORDS.holdAskPersonWhoManages(
        principal?.scopes.length === 0 ? WORDS.noScopes : principal?.scopes.join(', '),
      )}
    </Empty>
  )
}
