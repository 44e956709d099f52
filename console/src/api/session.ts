import { type QueryClient, queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { coversScope } from '../../../src/kernel/base/principal.ts'
import { requestJson, sessionEnded } from './client.ts'
import { sessionToken } from './session-token.ts'
import { removeAllStored } from './user-storage.ts'

/*
 * The signed-in person, sign-in and sign-out. Used by several pages. Data of one person is never shown to another: the page is
 * reloaded instead.
 */

/** The signed-in person and the server: the answer of `GET /console/session`, which needs no credential. */
export interface Session {
  readonly server: {
    readonly version: string
    readonly url: string
    /** The command that people type on the server's machine, for example `./collet`. */
    readonly command: string
    /** Whether the catalog and Try it need no credential. */
    readonly isOpen: boolean
    readonly signIn: {
      /** The command that prints a one-time link; `null` if the server accepts no such links. */
      readonly link: string | null
      readonly oidc: string | null
    }
  }
  readonly principal: Principal | null
  readonly csrf: string | null
  readonly expiresAt: string | null
}

export interface Principal {
  readonly id: string
  readonly name: string | null
  readonly tenant: string
  readonly scopes: readonly string[]
  readonly isOperator: boolean
}

/** Whether a person has a scope. Checked before a request, because the server records each refusal. */
export function holdsScope(principal: Principal | null | undefined, scope: string): boolean {
  return principal != null && coversScope(principal.scopes, scope)
}

/** Whether a person has a scope for the whole server, not only for one of several tenants. */
export function holdsServerScope(principal: Principal | null | undefined, scope: string): boolean {
  return holdsScope(principal, scope) && (principal?.isOperator === true || principal?.tenant === 'default')
}

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async ({ signal }) => {
    const session = await requestJson<Session>('/console/session', { signal })
    if (!mayKeepPage(session)) return reloadPage()
    return session
  },
  staleTime: Number.POSITIVE_INFINITY,
})

/** The person whose data is on the page; `undefined` before the first sign-in. */
let pageOwner: string | undefined

/**
 * Whether the data on the page may be shown to the person who signed in. Data loaded without a sign-in may be shown, another
 * person's data may not.
 */
function mayKeepPage({ principal }: Session): boolean {
  const who = principal === null ? undefined : nameOf(principal)
  if (pageOwner !== undefined && who !== pageOwner) {
    // If the session has only ended, the same person may return to their drafts.
    if (who !== undefined) removeAllStored()
    return false
  }
  pageOwner = who
  return true
}

/** A name that is unique on the server: tenant and id. */
export function nameOf({ tenant, id }: Pick<Principal, 'tenant' | 'id'>): string {
  return `${tenant} ${id}`
}

/** Reloads the page at the same address, without its answers, forms and drafts. */
function reloadPage(): Promise<never> {
  location.reload()
  return new Promise(() => undefined)
}

/** Reloads a page that the browser restores from its back/forward cache, because it shows old data. */
export function reloadRestoredPages(): void {
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted) void reloadPage()
  })
}

/** `undefined` until the server has answered; pages are shown only after that. */
export function useSession(): Session | undefined {
  return useQuery(sessionQuery).data
}

export function useSignIn(): { signIn(key: string): Promise<void>; signOut(): Promise<void> } {
  const client = useQueryClient()
  return {
    async signIn(key) {
      const body = { key: key.trim() }
      await enter(
        client,
        await requestJson('/console/session', { method: 'POST', body, mayBeSignedOut: true }),
      )
    },
    async signOut() {
      await requestJson('/console/session', { method: 'DELETE', mayBeSignedOut: true })
      // Removes everything that the person has seen from the page and the browser.
      removeAllStored()
      sessionToken.forget()
      location.assign(document.baseURI)
    },
  }
}

/** Uses a sign-in from another window when this window gets the focus. */
export function useSignInElsewhere(isAwaited: boolean): void {
  const client = useQueryClient()
  useEffect(() => {
    if (!isAwaited) return undefined
    const check = async (): Promise<void> => {
      const session = await requestJson<Session>('/console/session').catch(() => undefined)
      if (session !== undefined && session.principal !== null) await enter(client, session)
    }
    const onReturn = (): void => void check()
    addEventListener('focus', onReturn)
    return () => removeEventListener('focus', onReturn)
  }, [client, isAwaited])
}

/** Refreshes the page for the person whose session had ended; reloads it for another person. */
export async function enter(client: QueryClient, session: Session): Promise<void> {
  sessionToken.keep(session.csrf)
  if (!mayKeepPage(session)) return reloadPage()
  client.setQueryData(sessionQuery.queryKey, session)
  sessionEnded.set(false)
  void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] })
}

/** The caller for whom an operator most likely stores a credential: `anonymous` on an open server, otherwise a key. */
export function callerToName(session: Session | null | undefined): string {
  return session?.server.isOpen === true ? 'anonymous' : 'key:'
}
