import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { holdsScope, useSession } from '../../api/session.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { PaneDivider } from '../../app/pane-divider.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { countOf } from '../../parts/format.ts'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { Segment } from '../../parts/tabs.tsx'
import { type Approval, inboxQuery } from './approval-data.ts'
import { Decision } from './decision.tsx'
import { Inbox } from './inbox.tsx'
import './approvals.css'

/*
 * The page of approvals. Loaded by the router. People without a scope for it send no requests, because each refusal is recorded.
 */

const VIEWS = [
  { value: 'mine', label: 'Waiting for me' },
  { value: 'waiting', label: 'All waiting' },
  { value: 'decided', label: 'Decided' },
] as const

type View = (typeof VIEWS)[number]['value']

/** For people without either scope, the page names the scopes. */
export function ApprovalsPage(): ReactNode {
  const principal = useSession()?.principal
  const mayDecide = holdsScope(principal, 'approvals:respond')
  if (mayDecide || holdsScope(principal, 'approvals:read')) return <Approvals mayDecide={mayDecide} />
  return (
    <Page title="Approvals">
      <NeedsScope scope="approvals:respond" or="approvals:read" />
    </Page>
  )
}

/** The inbox at the left, one decision at the right. */
function Approvals({ mayDecide }: { readonly mayDecide: boolean }): ReactNode {
  const { id } = useParams({ strict: false })
  const [{ show }, setSearch] = useSearchState()
  const views = mayDecide ? VIEWS : VIEWS.filter(({ value }) => value !== 'mine')
  const first = mayDecide ? 'mine' : 'decided'
  const view = views.find(({ value }) => value === show)?.value ?? first
  const inbox = useQuery(inboxQuery)
  const waiting = inbox.data?.waiting
  return (
    <Page
      title="Approvals"
      sub={waiting === undefined ? undefined : waitingText(waiting, mayDecide)}
      actions={
        <Segment
          label="Which approvals"
          value={view}
          options={views}
          onChange={(next) => setSearch({ show: next === first ? undefined : next })}
        />
      }
    >
      {inbox.data === undefined ? (
        <NotThere error={inbox.error} onRetry={() => void inbox.refetch()} />
      ) : (
        <Split id={id} view={view} {...inbox.data} />
      )}
    </Page>
  )
}

/** The first number is the one in the rail: the calls that this person may decide. */
function waitingText(waiting: readonly Approval[], mayDecide: boolean): string {
  if (!mayDecide) return `${countOf(waiting.length, 'call')} waiting`
  const mine = waiting.filter(({ obstacle }) => obstacle === null).length
  const others = waiting.length - mine
  return `${countOf(mine, 'call')} waiting for you${others === 0 ? '' : `, ${others} for others`}`
}

interface SplitProps {
  readonly id: string | undefined
  readonly view: View
  readonly waiting: readonly Approval[]
  readonly decided: readonly Approval[]
}

function Split({ id, view, waiting, decided }: SplitProps): ReactNode {
  const mine = waiting.filter(({ obstacle }) => obstacle === null)
  const shown = view === 'waiting' ? waiting : view === 'mine' ? mine : []
  return (
    <div className="split appr-split" data-detail={id === undefined ? undefined : 'open'}>
      <section className="inbox" aria-label="Inbox">
        <Inbox
          current={id}
          waiting={shown}
          decided={decided}
          isDecidedOnly={view === 'decided'}
          elsewhere={waiting.length - shown.length}
        />
      </section>
      {id === undefined ? <NothingOpen count={shown.length} view={view} /> : <Decision key={id} id={id} />}
      <PaneDivider name="approvals" label="Width of the inbox" />
    </div>
  )
}

function NothingOpen({ count, view }: { readonly count: number; readonly view: View }): ReactNode {
  usePageCommand(view === 'decided' ? 'collet approvals list --state all' : 'collet approvals list')
  return (
    <section className="decide" aria-label="Decision">
      {count > 0 ? (
        <Empty title="Choose a call">Its arguments are shown here before anything runs.</Empty>
      ) : (
        <Empty
          title="Nothing to decide"
          actions={
            <Link className="btn sm" to="/tools" search={{ approval: 'always' }}>
              See tools that need approval
            </Link>
          }
        >
          A call that needs approval appears here when it is made.
        </Empty>
      )}
    </section>
  )
}

function NotThere({ error, onRetry }: { readonly error: unknown; readonly onRetry: () => void }): ReactNode {
  usePageCommand('collet approvals list')
  if (error === null) return <Loading what="approvals" />
  return (
    <Failed
      what="Approvals could not be read"
      error={error}
      safe="Waiting calls are not affected."
      onRetry={onRetry}
    />
  )
}
