import { useQuery } from '@tanstack/react-query'
import { Link, useLocation, useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { type Budget, isUsedUp } from '../api/budgets.ts'
import { requestJson } from '../api/client.ts'
import { untilRefused } from '../api/queries.ts'
import { holdsScope, holdsServerScope, type Session, useSession } from '../api/session.ts'
import { toolCountQuery } from '../api/tools.ts'
import { IconButton } from '../parts/button.tsx'
import { formatCount } from '../parts/format.ts'
import { Icon, Mark } from '../parts/icon.tsx'
import { Menu } from '../parts/menu.tsx'
import { openDialog, pagesFor } from './pages.ts'
import { AccountMenu } from './person/account-menu.tsx'
import { toggleTheme } from './theme.ts'
import { WORDS } from './words.tsx'

/*
 * The navigation, with counts of items that wait for a person. Used by `frame.tsx`. Lists that the person may not see are not
 * requested, because each refusal is recorded.
 */

export function Rail(): ReactNode {
  const session = useSession()
  const counts = useWaitingCounts(session)
  const pages = pagesFor(session)
  const isLong = pages.length > BAR_PLACES
  return (
    <nav className="rail" aria-label={WORDS.pages}>
      <Link className="brand" to="/">
        <Mark />
        {WORDS.collet}
        <small>{session?.server.version}</small>
      </Link>
      <button type="button" className="jump" title={WORDS.jump} onClick={() => openDialog.set('palette')}>
        <Icon name="search" size={14} />
        <span>{WORDS.jump}</span>
        <kbd>{isMac() ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      <ul className="places">
        {pages.map(({ to, name, icon }, index) => (
          <li key={to} className={isLong && index >= BAR_PLACES - 1 ? 'wide-only' : undefined}>
            <Link to={to} title={name} activeProps={{ 'aria-current': 'page' }}>
              <Icon name={icon} />
              <span className="name">{name}</span>
              <WaitingCount {...counts[to]} />
              {to === '/tools' && <ToolCount session={session} />}
            </Link>
          </li>
        ))}
        {isLong && <MorePages pages={pages.slice(BAR_PLACES - 1)} counts={counts} />}
      </ul>
      {session?.principal === null && (
        <button type="button" className="jump" title={WORDS.signIn} onClick={() => openDialog.set('sign-in')}>
          <Icon name="key" size={14} />
          <span>{WORDS.signIn}</span>
        </button>
      )}
      <div className="rail-foot">
        <AccountMenu />
        <AccountMenu isSmall />
        <IconButton icon="theme" label={WORDS.switchTheme} onClick={toggleTheme} />
      </div>
    </nav>
  )
}

/** On a phone, the bar has room for this many places; the last is a menu of the others. */
const BAR_PLACES = 5

interface MorePagesProps {
  readonly pages: ReturnType<typeof pagesFor>
  readonly counts: WaitingCounts
}

function MorePages({ pages, counts }: MorePagesProps): ReactNode {
  const navigate = useNavigate()
  const { pathname } = useLocation()
  const isHere = pages.some(({ to }) => pathname.startsWith(to))
  const count = pages.reduce((sum, { to }) => sum + (counts[to]?.count ?? 0), 0)
  return (
    <li className="phone-only">
      <Menu
        className={isHere ? 'plain more here' : 'plain more'}
        hasArrow={false}
        label={
          <>
            <Icon name="more" />
            <span className="name">{WORDS.more}</span>
            <WaitingCount count={count} what={count === 1 ? WORDS.needsAttention : WORDS.needAttention} />
          </>
        }
        items={pages.map(({ to, name, icon }) => ({
          label: name,
          icon,
          onChoose: () => void navigate({ to }),
        }))}
      />
    </li>
  )
}

function WaitingCount({ count, what }: { readonly count?: number; readonly what?: string }): ReactNode {
  if (count === undefined || count === 0) return null
  return (
    <span className="count due">
      {formatCount(count)}
      <span className="vh"> {what}</span>
    </span>
  )
}

/** The count is requested only for people who may see tools; for others the request would be refused. */
function ToolCount({ session }: { readonly session: Session | undefined }): ReactNode {
  const maySeeTools = session !== undefined && (session.principal !== null || session.server.isOpen)
  const { data } = useQuery({
    ...toolCountQuery,
    enabled: maySeeTools,
    refetchInterval: untilRefused(REFETCH_MS),
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

const REFETCH_MS = 15_000

type WaitingCounts = Readonly<Partial<Record<string, { readonly count?: number; readonly what?: string }>>>

function useWaitingCounts(session: Session | undefined): WaitingCounts {
  const principal = session?.principal
  const approvals = useCount({
    ...{ name: 'approvals', path: '/admin/approvals?state=pending&limit=100' },
    isOn: holdsScope(principal, 'approvals:respond'),
    isWaiting: ({ obstacle }) => obstacle === null,
  })
  const pins = useCount({
    ...{ name: 'pins', path: '/admin/pins?waiting=true' },
    isOn: holdsServerScope(principal, 'admin:pins'),
    // A rejected definition waits for a change upstream, not for a person.
    isWaiting: ({ waiting }) => waiting?.rejected_by === null,
  })
  const sources = useCount({
    ...{ name: 'sources', path: '/admin/sources' },
    isOn: holdsServerScope(principal, 'admin:sources'),
    isWaiting: ({ state }) => state === 'down' || state === 'degraded',
  })
  const budgets = useCount({
    ...{ name: 'budgets', path: '/admin/budgets' },
    isOn: holdsScope(principal, 'admin:calls'),
    isWaiting: ({ units = [] }) => isUsedUp({ units }),
  })
  const problems = (pins.count ?? 0) + (sources.count ?? 0)
  return {
    '/calls': { ...budgets, what: budgets.count === 1 ? WORDS.budgetUsedUp : WORDS.budgetsUsedUp },
    '/approvals': { ...approvals, what: 'waiting' },
    '/sources': { count: problems, what: problems === 1 ? WORDS.needsAttention : WORDS.needAttention },
  }
}

interface Row {
  readonly obstacle?: string | null
  readonly waiting?: { readonly rejected_by: string | null } | null
  readonly state?: string
  readonly units?: Budget['units']
}

interface CountOptions {
  readonly name: string
  readonly path: string
  readonly isOn: boolean
  /** Whether a row waits for this person. */
  readonly isWaiting: (row: Row) => boolean
}

function useCount({ name, path, isOn, isWaiting }: CountOptions): { readonly count?: number } {
  const { data } = useQuery({
    queryKey: [WORDS.waitingCounts, name],
    queryFn: async ({ signal }) => {
      const answer = await requestJson<Readonly<Record<string, readonly Row[]>>>(path, { signal })
      return answer[name]?.filter(isWaiting).length ?? 0
    },
    enabled: isOn,
    refetchInterval: untilRefused(REFETCH_MS),
    staleTime: 0,
    retry: false,
  })
  return data === undefined ? {} : { count: data }
}

function isMac(): boolean {
  return /Mac|iP(hone|ad|od)/.test(navigator.userAgent)
}
