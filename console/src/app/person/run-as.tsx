import { queryOptions, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { requestJson } from '../../api/client.ts'
import { useSession } from '../../api/session.ts'
import { Button } from '../../parts/button.tsx'
import { Field, Select } from '../../parts/field.tsx'
import { Failed } from '../../parts/states.tsx'
import { createStore, useStore } from '../../store.ts'
import { openDialog } from '../pages.ts'
import { WORDS } from './words.tsx'

/**
 * The caller as which the operator runs tools on a server with keys, as a header value; `undefined` until a caller is chosen. The
 * server accepts the header only from a page on which the operator signed in with the printed link.
 */
const chosenCaller = createStore<string | undefined>(undefined)

/** The headers for requests that make calls. */
export function runAsHeaders(): Readonly<Record<string, string>> {
  const caller = chosenCaller.get()
  return caller === undefined ? {} : { 'collet-run-as': caller }
}

/** Whether a caller must be chosen before a tool can run, and the chosen caller. */
export function useRunAs(): { readonly isNeeded: boolean; readonly caller: string | undefined } {
  const session = useSession()
  const caller = useStore(chosenCaller)
  return { isNeeded: session?.principal?.isOperator === true && !session.server.isOpen, caller }
}

interface CallerKey {
  readonly principal: string
  readonly tenant: string
  readonly expires_at: string | null
  readonly revoked_at?: string | null
}

const callersQuery = queryOptions({
  queryKey: ['settings', 'callers'],
  async queryFn({ signal }) {
    const { keys, configured } = await requestJson<{
      readonly keys: readonly CallerKey[]
      readonly configured: readonly CallerKey[]
    }>('/admin/keys', { signal })
    const valid = [...configured, ...keys].filter(
      ({ revoked_at: revoked, expires_at: ends }) =>
        revoked == null && (ends === null || Date.parse(ends) > Date.now()),
    )
    const callers = valid.map(({ tenant, principal }) => ({
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
        what={WORDS.callersCouldNotBeRead}
        error={callers.error}
        onRetry={() => void callers.refetch()}
      />
    )
  const options = callers.data ?? []
  return (
    <div className="stack-2">
      <Field
        label={WORDS.runAs}
        hint={
          callers.data?.length === 0
            ? WORDS.noCallerHasValidKey(
                <Link className="link" to="/access">
                  {WORDS.access}
                </Link>,
              )
            : WORDS.permissionsLimitsApprovalsAreThose
        }
      >
        {(control) => (
          <Select
            {...control}
            isMono
            disabled={isBusy}
            value={caller}
            options={[{ value: '', label: WORDS.chooseCaller }, ...options]}
            onChange={({ currentTarget: { value } }) => chosenCaller.set(value === '' ? undefined : value)}
          />
        )}
      </Field>
      <div>
        <Button isSmall onClick={() => openDialog.set('sign-in')}>
          {WORDS.signInWithKey}
        </Button>
      </div>
    </div>
  )
}

/** Why the tool cannot run yet. */
export const CHOOSE_CALLER = WORDS.chooseCallerRunToolAs
