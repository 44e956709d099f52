import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { type Budget, isUsedUp } from '../api/budgets.ts'
import { request } from '../api/client.ts'
import { untilRefused } from '../api/queries.ts'
import { holdsScope, holdsServerScope, type Session, useSession } from '../api/session.ts'
import { toolCountQuery } from '../api/tools.ts'
import { IconButton } from '../parts/button.tsx'
import { formatCount } from '../parts/format.ts'
import { Icon, Mark } from '../parts/icon.tsx'
import { over, PLACES } from './places.ts'
import { toggleTheme } from './theme.ts'
import { YouMenu } from './you-menu.tsx'

/** Navigation, with counts of what waits for a person. */
export function Rail(): ReactNode {
  const session = useSession()
  const due = useDue(session)
  return (
    <nav className="rail" aria-label="Pages">
      <Link className="brand" to="/">
        <Mark />
        Collet
        <small>{session?.server.version}</small>
      </Link>
      <button type="button" className="jump" onClick={() => over.set('palette')}>
        <Icon name="search" size={14} />
        <span>Jump to…</span>
        <kbd>{isMac() ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      <ul className="places">
        {PLACES.map(({ to, name, icon }) => (
          <li key={to}>
            <Link to={to} title={name} activeProps={{ 'aria-current': 'page' }}>
              <Icon name={icon} />
              <span className="name">{name}</span>
              <Due {...due[to]} />
              {to === '/catalog' && <ToolCount session={session} />}
            </Link>
          </li>
        ))}
      </ul>
      <div className="rail-foot">
        <YouMenu />
        <YouMenu isSmall />
        <IconButton icon="theme" label="Switch theme" onClick={toggleTheme} />
      </div>
    </nav>
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

/** Counted only for people who may see the catalog: without a credential the request would be refused. */
function ToolCount({ session }: { readonly session: Session | undefined }): ReactNode {
  const mayLook = session !== undefined && (session.principal !== null || session.server.isOpen)
  const { data } = useQuery({
    ...toolCountQuery,
    enabled: mayLook,
    refetchInterval: untilRefused(LOOK_AGAIN_MS),
    retry: false,
  })
  if (data === undefined) return null
  return (
    <span className="count">
      {formatCount(data)}
      <span className="vh"> {data === 1 ? 'tool' : 'tools'}</span>
    </span>
  )
}

const LOOK_AGAIN_MS = 15_000

type DueCounts = Readonly<Partial<Record<string, { readonly count?: number; readonly what?: string }>>>

/** Counts of waiting items. Lists that the person may not see are not requested, because each refusal is recorded. */
function useDue(session: Session | undefined): DueCounts {
  const principal = session?.principal
  const approvals = useCount({
    ...{ name: 'approvals', path: '/admin/approvals?state=pending&limit=100' },
    isOn: holdsScope(principal, 'approvals:respond'),
    counts: ({ obstacle }) => obstacle === null,
  })
  const pins = useCount({
    ...{ name: 'pins', path: '/admin/pins?waiting=true' },
    isOn: holdsServerScope(principal, 'admin:pins'),
    // A rejected definition waits for a change upstream, not for a person.
    counts: ({ waiting }) => waiting?.rejected_by === null,
  })
  const sources = useCount({
    ...{ name: 'sources', path: '/admin/sources' },
    isOn: holdsServerScope(principal, 'admin:sources'),
    counts: ({ state }) => state === 'down' || state === 'degraded',
  })
  const budgets = useCount({
    ...{ name: 'budgets', path: '/admin/budgets' },
    isOn: holdsScope(principal, 'admin:calls'),
    counts: ({ units = [] }) => isUsedUp({ units }),
  })
  return {
    '/calls': { ...budgets, what: budgets.count === 1 ? 'budget used up' : 'budgets used up' },
    '/approvals': { ...approvals, what: 'waiting' },
    '/connections': { count: (pins.count ?? 0) + (sources.count ?? 0), what: 'need attention' },
  }
}

interface Row {
  readonly obstacle?: string | null
  readonly waiting?: { readonly rejected_by: string | null } | null
  readonly state?: string
  readonly units?: Budget['units']
}

interface Counting {
  readonly name: string
  readonly path: string
  readonly isOn: boolean
  /** Whether a row waits for this person. */
  readonly counts: (row: Row) => boolean
}

function useCount({ name, path, isOn, counts }: Counting): { readonly count?: number } {
  const { data } = useQuery({
    queryKey: ['due', name],
    queryFn: async ({ signal }) => {
      const answer = await request<Readonly<Record<string, readonly Row[]>>>(path, { signal })
      return answer[name]?.filter(counts).length ?? 0
    },
    enabled: isOn,
    refetchInterval: untilRefused(LOOK_AGAIN_MS),
    staleTime: 0,
    retry: false,
  })
  return data === undefined ? {} : { count: data }
}

function isMac(): boolean {
  return /Mac|iP(hone|ad|od)/.test(navigator.userAgent)
}
