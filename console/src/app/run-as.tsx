import { queryOptions, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { request } from '../api/client.ts'
import { useSession } from '../api/session.ts'
import { Button } from '../parts/button.tsx'
import { Field, Select } from '../parts/field.tsx'
import { Failed } from '../parts/states.tsx'
import { createStore, useStore } from '../store.ts'
import { over } from './places.ts'

/**
 * The caller as whom the operator of a server with keys runs tools, in the form of the header; `undefined` until one is chosen.
 * The server accepts it only from a page on which the operator signed in with the printed link.
 */
const chosen = createStore<string | undefined>(undefined)

/** Headers of requests that make calls. */
export function runAsHeaders(): Readonly<Record<string, string>> {
  const caller = chosen.get()
  return caller === undefined ? {} : { 'collet-run-as': caller }
}

/** Whether a caller must be chosen before a tool can run, and the chosen one. */
export function useRunAs(): { readonly isNeeded: boolean; readonly caller: string | undefined } {
  const session = useSession()
  const caller = useStore(chosen)
  return { isNeeded: session?.principal?.isOperator === true && !session.server.isOpen, caller }
}

interface KeyOfCaller {
  readonly principal: string
  readonly tenant: string
  readonly expires_at: string | null
  readonly revoked_at?: string | null
}

const callersQuery = queryOptions({
  queryKey: ['settings', 'callers'],
  async queryFn({ signal }) {
    const { keys, configured } = await request<{
      readonly keys: readonly KeyOfCaller[]
      readonly configured: readonly KeyOfCaller[]
    }>('/admin/keys', { signal })
    const good = [...configured, ...keys].filter(
      ({ revoked_at: revoked, expires_at: ends }) =>
        revoked == null && (ends === null || Date.parse(ends) > Date.now()),
    )
    const callers = good.map(({ tenant, principal }) => ({
      value: [tenant, `key:${principal}`].map(encodeURIComponent).join('/'),
      label: tenant === 'default' ? `key:${principal}` : `key:${principal} (tenant ${tenant})`,
    }))
    return [...new Map(callers.map((caller) => [caller.value, caller])).values()]
  },
})

/** Lets the operator choose the caller. Shows nothing for other people, who call under their own name. */
export function RunAs({ isBusy }: { readonly isBusy: boolean }): ReactNode {
  const { isNeeded, caller = '' } = useRunAs()
  const callers = useQuery({ ...callersQuery, enabled: isNeeded })
  if (!isNeeded) return null
  if (callers.error !== null)
    return (
      <Failed
        what="The callers could not be read"
        error={callers.error}
        onRetry={() => void callers.refetch()}
      />
    )
  const options = callers.data ?? []
  return (
    <div className="stack-2">
      <Field
        label="Run as"
        hint={
          callers.data?.length === 0 ? (
            <>
              No caller has a key that is valid now. Make one in{' '}
              <Link className="link" to="/settings">
                Settings
              </Link>
              .
            </>
          ) : (
            'Permissions, limits and approvals are those of this caller. Its stored credentials are not used. The call is recorded as run by the operator.'
          )
        }
      >
        {(control) => (
          <Select
            {...control}
            isMono
            disabled={isBusy}
            value={caller}
            options={[{ value: '', label: 'Choose a caller' }, ...options]}
            onChange={({ currentTarget: { value } }) => chosen.set(value === '' ? undefined : value)}
          />
        )}
      </Field>
      <div>
        <Button isSmall onClick={() => over.set('sign-in')}>
          Sign in with a key
        </Button>
      </div>
    </div>
  )
}

/** Why the tool cannot run yet. */
export const CHOOSE_CALLER = 'Choose the caller to run it as.'
