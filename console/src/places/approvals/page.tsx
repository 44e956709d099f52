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
import { WORDS } from './words.tsx'

/*
 * The page of approvals. Loaded by the router. People without a scope for it send no requests, because each refusal is recorded.
 */

const VIEWS = [
  { value: 'mine', label: WORDS.waitingForMe },
  { value: 'waiting', label: WORDS.allWaiting },
  { value: 'decided', label: WORDS.decided },
] as const

type View = (typeof VIEWS)[number]['value']

/** For people without either scope, the page names the scopes. */
export function ApprovalsPage(): ReactNode {
  const principal = useSession()?.principal
  const mayDecide = holdsScope(principal, 'approvals:respond')
  if (mayDecide || holdsScope(principal, 'approvals:read')) return <Approvals mayDecide={mayDecide} />
  return (
    <Page title={WORDS.approvals}>
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
      title={WORDS.approvals}
      sub={waiting === undefined ? undefined : waitingText(waiting, mayDecide)}
      actions={
        <Segment
          label={WORDS.whichApprovals}
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
  return WORDS.waitingForYou(countOf(mine, 'call'), others === 0 ? '' : WORDS.forOthers(others))
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
      <section className="inbox" aria-label={WORDS.inbox}>
        <Inbox
          current={id}
          waiting={shown}
          decided={decided}
          isDecidedOnly={view === 'decided'}
          elsewhere={waiting.length - shown.length}
        />
      </section>
      {id === undefined ? <NothingOpen count={shown.length} view={view} /> : <Decision key={id} id={id} />}
      <PaneDivider name="approvals" label={WORDS.widthInbox} />
    </div>
  )
}

function NothingOpen({ count, view }: { readonly count: number; readonly view: View }): ReactNode {
  usePageCommand(view === 'decided' ? 'collet approvals list --state all' : 'collet approvals list')
  return (
    <section className="decide" aria-label={WORDS.decision}>
      {count > 0 ? (
        <Empty title={WORDS.chooseCall}>{WORDS.itsArgumentsAreShownHere}</Empty>
      ) : (
        <Empty
          title={WORDS.nothingDecide}
          actions={
            <Link className="btn sm" to="/tools" search={{ approval: 'always' }}>
              {WORDS.seeToolsNeedApproval}
            </Link>
          }
        >
          {WORDS.callNeedsApprovalAppearsHere}
        </Empty>
      )}
    </section>
  )
}

function NotThere({ error, onRetry }: { readonly error: unknown; readonly onRetry: () => void }): ReactNode {
  usePageCommand('collet approvals list')
  if (error === null) return <Loading what={WORDS.approvals2} />
  return (
    <Failed
      what={WORDS.approvalsCouldNotBeRead}
      error={error}
      safe={WORDS.waitingCallsAreNotAffected}
      onRetry={onRetry}
    />
  )
}
