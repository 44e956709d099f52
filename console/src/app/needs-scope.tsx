import type { ReactNode } from 'react'
import { holdsScope, useSession } from '../api/session.ts'
import { Empty } from '../parts/states.tsx'

/**
 * In place of what somebody may not see: which scope it takes, and whom to ask. Whoever holds the scope and still may not is of one
 * tenant among several. It is no failure, and trying again changes nothing.
 */
export function NeedsScope({ scope }: { readonly scope: string }): ReactNode {
  const principal = useSession()?.principal
  if (holdsScope(principal, scope))
    return (
      <Empty title="This is for the whole server">
        Your credential is for the tenant {principal?.tenant}. Ask whoever runs the server.
      </Empty>
    )
  return (
    <Empty title={<>This needs the scope {scope}</>}>
      You are {principal?.name ?? principal?.id}, and hold{' '}
      {principal?.scopes.length === 0 ? 'no scopes' : principal?.scopes.join(', ')}. Ask whoever manages keys
      here for a key with the scope.
    </Empty>
  )
}
