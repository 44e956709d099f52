import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { request } from '../api/client.ts'
import { type Session, useSession, useSignIn } from '../api/session.ts'
import { IconButton } from '../parts/button.tsx'
import { formatCount } from '../parts/format.ts'
import { Icon, type IconName, Mark } from '../parts/icon.tsx'
import { Menu } from '../parts/menu.tsx'
import { askToSignIn } from './sign-in.tsx'
import { toggleTheme } from './theme.ts'

/** The places, in the order of the rail and of the bar of a phone. `key` goes there after `g`. */
export const PLACES = [
  { to: '/catalog', name: 'Catalog', icon: 'catalog', key: 'c' },
  { to: '/calls', name: 'Calls', icon: 'calls', key: 'l' },
  { to: '/approvals', name: 'Approvals', icon: 'approvals', key: 'a' },
  { to: '/connections', name: 'Connections', icon: 'connections', key: 'n' },
  { to: '/settings', name: 'Settings', icon: 'settings', key: 's' },
] as const satisfies readonly { to: string; name: string; icon: IconName; key: string }[]

export function Rail({ onJump }: { readonly onJump: () => void }): ReactNode {
  const session = useSession()
  const due = useDue(session)
  return (
    <nav className="rail" aria-label="Places">
      <Link className="brand" to="/">
        <Mark />
        Collet
        <small>{session?.server.version}</small>
      </Link>
      <button type="button" className="jump" onClick={onJump}>
        <Icon name="search" size={14} />
        <span>Jump to…</span>
        <kbd>{isMac() ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      <ul className="places">
        {PLACES.map(({ to, name, icon }) => (
          <li key={to}>
            <Link to={to} activeProps={{ 'aria-current': 'page' }}>
              <Icon name={icon} />
              <span className="name">{name}</span>
              <Due {...due[to]} />
            </Link>
          </li>
        ))}
      </ul>
      <div className="rail-foot">
        <Who session={session} />
        <IconButton icon="theme" label="Switch theme" onClick={toggleTheme} />
      </div>
    </nav>
  )
}

function Who({ session }: { readonly session: Session | undefined }): ReactNode {
  const { signOut } = useSignIn()
  if (session === undefined) return <span className="grow" />
  const { principal } = session
  if (principal === null)
    return (
      <button type="button" className="btn sm grow" onClick={askToSignIn}>
        Sign in
      </button>
    )
  const role = principal.isOperator ? 'operator' : 'caller'
  return (
    <Menu
      className="who grow plain"
      hasArrow={false}
      label={
        <>
          <b className="clip">{principal.name ?? principal.id}</b>
          <span className="clip">
            {role} · tenant {principal.tenant}
          </span>
        </>
      }
      items={[{ label: 'Sign out', icon: 'lock', onChoose: () => void signOut() }]}
    />
  )
}

function Due({ count, what }: { readonly count?: number; readonly what?: string }): ReactNode {
  if (count === undefined || count === 0) return null
  return (
    <span className="count due">
      {formatCount(count)}
      <span className="vh"> {what}</span>
    </span>
  )
}

const LOOK_AGAIN_MS = 15_000

type DueCounts = Readonly<Partial<Record<string, { readonly count?: number; readonly what?: string }>>>

/** What waits for a person. Whoever may not see a list sees no number either. */
function useDue(session: Session | undefined): DueCounts {
  const isKnown = session !== undefined && session.principal !== null
  const approvals = useCount('approvals', '/admin/approvals?state=pending&limit=100', isKnown)
  const pins = useCount('pins', '/admin/pins?waiting=true', isKnown)
  return {
    '/approvals': { ...approvals, what: 'waiting' },
    '/connections': { ...pins, what: 'need attention' },
  }
}

function useCount(name: string, path: string, isOn: boolean): { readonly count?: number } {
  const { data } = useQuery({
    queryKey: ['due', name],
    queryFn: async ({ signal }) => {
      const answer = await request<Readonly<Record<string, readonly unknown[]>>>(path, { signal })
      return answer[name]?.length ?? 0
    },
    enabled: isOn,
    refetchInterval: LOOK_AGAIN_MS,
    retry: false,
  })
  return data === undefined ? {} : { count: data }
}

function isMac(): boolean {
  return /Mac|iP(hone|ad|od)/.test(navigator.userAgent)
}
