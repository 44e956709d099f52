import type { ReactNode } from 'react'
import { holdsScope, useSession } from '../api/session.ts'
import { Empty } from '../parts/states.tsx'

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
      <Empty title="This is for the whole server">
        Your credential is for the tenant {principal?.tenant}. Ask the operator of the server.
      </Empty>
    )
  return (
    <Empty title={<>This needs the scope {or === undefined ? scope : `${or} or ${scope}`}</>}>
      You are {principal?.name ?? principal?.id}, and hold{' '}
      {principal?.scopes.length === 0 ? 'no scopes' : principal?.scopes.join(', ')}. Ask the person who
      manages keys here for a key with the scope.
    </Empty>
  )
}
