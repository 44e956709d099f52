import { type QueryClient, queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { coversScope } from '../../../src/kernel/base/principal.ts'
import { request, sessionGone } from './client.ts'
import { forgetAllKept } from './kept.ts'
import { sessionToken } from './session-token.ts'

/** Who looks at the page, and at which server. `GET /console/session` answers everybody. */
export interface Session {
  readonly server: {
    readonly version: string
    readonly url: string
    /** What people type to run Collet where the server was started, like `./collet`. */
    readonly command: string
    /** Callers need no credential here: everybody may look at the catalog and try tools. */
    readonly isOpen: boolean
    readonly signIn: {
      /** The command that prints a one-time link; absent where the server takes no such links. */
      readonly link: string | null
      /** The name of the provider that people sign in with. */
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

/** Whether somebody may do what needs a scope. Asked before a request: one that is refused is written down by the server. */
export function holdsScope(principal: Principal | null | undefined, scope: string): boolean {
  return principal != null && coversScope(principal.scopes, scope)
}

/** The same for what concerns the whole server, and not one tenant of several. */
export function holdsServerScope(principal: Principal | null | undefined, scope: string): boolean {
  return holdsScope(principal, scope) && (principal?.isOperator === true || principal?.tenant === 'default')
}

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async ({ signal }) => {
    const session = await request<Session>('/console/session', { signal })
    if (!isForTheSame(session)) return startAnew()
    return session
  },
  staleTime: Number.POSITIVE_INFINITY,
})

/** The person whose data the page holds: `undefined` until somebody signed in. */
let holder: string | undefined

/**
 * Whether what the page holds may be shown to who signed in. Whoever only looked may sign in and go on; one person after another may
 * not, nor nobody after somebody.
 */
function isForTheSame({ principal }: Session): boolean {
  const who = principal === null ? undefined : nameOf(principal)
  if (holder !== undefined && who !== holder) {
    // Whose session has ended may come back to what is theirs.
    if (who !== undefined) forgetAllKept()
    return false
  }
  holder = who
  return true
}

/** Who it is, within the whole server: the same name in another tenant is somebody else. */
export function nameOf({ tenant, id }: Pick<Principal, 'tenant' | 'id'>): string {
  return `${tenant} ${id}`
}

/** A page loaded anew holds nothing of anybody: no answer, no form, no draft. It comes up at the same address. */
function startAnew(): Promise<never> {
  location.reload()
  return new Promise(() => undefined)
}

/** Nor does the browser bring one back that somebody left: it would show what they saw. */
export function forgetLeftPages(): void {
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted) void startAnew()
  })
}

/** `undefined` until the server has answered; places are shown only after that. */
export function useSession(): Session | undefined {
  return useQuery(sessionQuery).data
}

export function useSignIn(): { signIn(key: string): Promise<void>; signOut(): Promise<void> } {
  const client = useQueryClient()
  return {
    async signIn(key) {
      const body = { key: key.trim() }
      await enter(client, await request('/console/session', { method: 'POST', body, mayBeSignedOut: true }))
    },
    async signOut() {
      await request('/console/session', { method: 'DELETE', mayBeSignedOut: true })
      // Nothing that one person has seen stays in the page or in the browser for the next.
      forgetAllKept()
      sessionToken.forget()
      location.assign(document.baseURI)
    },
  }
}

/** Somebody who signed in in another window, by the printed link for one, is let in here when coming back to this one. */
export function useSignInElsewhere(isAwaited: boolean): void {
  const client = useQueryClient()
  useEffect(() => {
    if (!isAwaited) return undefined
    const look = async (): Promise<void> => {
      const session = await request<Session>('/console/session').catch(() => undefined)
      if (session !== undefined && session.principal !== null) await enter(client, session)
    }
    const onReturn = (): void => void look()
    addEventListener('focus', onReturn)
    return () => removeEventListener('focus', onReturn)
  }, [client, isAwaited])
}

/** For the one whose session had ended, everything on screen is asked for again; for anybody else the page begins anew. */
export async function enter(client: QueryClient, session: Session): Promise<void> {
  sessionToken.keep(session.csrf)
  if (!isForTheSame(session)) return startAnew()
  client.setQueryData(sessionQuery.queryKey, session)
  sessionGone.set(false)
  void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] })
}

/** Whom an operator most likely stores a credential for: without keys the person at this machine, else a key to be named. */
export function callerToName(session: Session | null | undefined): string {
  return session?.server.isOpen === true ? 'anonymous' : 'key:'
}
