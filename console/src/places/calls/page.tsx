import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useMemo, useRef } from 'react'
import { ApiError } from '../../api/client.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { useKey } from '../../keyboard.ts'
import { Button } from '../../parts/button.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { useHoldsScope } from './api.ts'
import { CallTable, OlderFailed } from './call-table.tsx'
import { CallDetail } from './detail.tsx'
import { type CallQuery, commandOf, REJECTED, readQuery, showCommand } from './query.ts'
import { QueryBar } from './query-bar.tsx'
import { RejectedList } from './rejected.tsx'
import { Tally } from './tally.tsx'
import { type LiveCallList, useCallList } from './use-call-list.ts'
import './calls.css'

/*
 * The page with the live list of calls. The router loads it. Query, live state and the open call are in the address.
 */

const SCOPE = 'admin:calls'

/** For people without the scope, the page names it and sends no requests. */
export function CallsPage(): ReactNode {
  if (useHoldsScope(SCOPE)) return <Calls />
  return (
    <Page title="Calls">
      <NeedsScope scope={SCOPE} />
    </Page>
  )
}

/** The live list of calls. Query, live state and the open call are in the address. */
function Calls(): ReactNode {
  const [{ q = '', live: liveWord = 'on', call: selected, tab = 'timeline' }, change] = useSearchState()
  const query = useMemo(() => readQuery(q), [q])
  const isLive = liveWord === 'on'
  const live = useCallList(query.filters, isLive)
  const list = useRef<HTMLElement>(null)
  const navigate = useNavigate()
  usePageCommand(selected === undefined ? commandOf(query.filters, isLive) : showCommand(selected))

  const setLive = (isOn: boolean): void => void change({ live: isOn ? undefined : 'off' })
  const open = (record: string): void => void change({ call: record }, { isStep: true })
  const close = (): void => {
    change({ call: undefined, tab: undefined }, { isStep: true })
    list.current?.querySelector<HTMLElement>(`[data-record="${CSS.escape(selected ?? '')}"] a`)?.focus()
  }
  useKey('l', () => setLive(!isLive))
  useKey('Escape', close, selected !== undefined)
  const problems = query.tokens.filter(({ problem }) => problem !== undefined)
  return (
    <Page
      title="Calls"
      actions={
        <>
          <QueryBar
            tokens={query.tokens}
            onChange={(words) => change({ q: words.join(' ') }, { isStep: true })}
          />
          <LiveButton live={live} isLive={isLive} onPress={() => setLive(!isLive)} />
        </>
      }
    >
      <div className="split calls-split" data-detail={selected === undefined ? 'closed' : 'open'}>
        <section className="calls-list" aria-label="Calls" ref={list}>
          {problems.map(({ text, problem }) => (
            <Note key={text} tone="failed">
              <code>{text}</code> is ignored. {problem}
            </Note>
          ))}
          <Tally query={query} isLive={isLive} />
          {query.filters.state === REJECTED ? (
            <RejectedList filters={query.filters} isLive={isLive} />
          ) : (
            <List
              {...{ live, query, selected, list }}
              onOpen={open}
              onClear={() => void navigate({ to: '/calls', search: {} })}
            />
          )}
        </section>
        {selected !== undefined && (
          <CallDetail
            key={selected}
            record={selected}
            tab={tab}
            onTab={(id) => change({ tab: id === 'timeline' ? undefined : id })}
            onClose={close}
          />
        )}
      </div>
    </Page>
  )
}

interface ListProps {
  readonly live: LiveCallList
  readonly query: CallQuery
  readonly selected: string | undefined
  readonly list: React.RefObject<HTMLElement | null>
  readonly onOpen: (record: string) => void
  readonly onClear: () => void
}

function List({ live, query, selected, list, onOpen, onClear }: ListProps): ReactNode {
  const { view, error, isLoading, retry } = live
  // A scope may be revoked while the page is open.
  if (error instanceof ApiError && error.status === 403) return <NeedsScope scope={SCOPE} />
  if (error !== null && view.rows.length === 0)
    return (
      <Failed
        what="The calls could not be read"
        error={error}
        safe="Calls already recorded are safe."
        onRetry={retry}
      />
    )
  if (isLoading) return <Loading what="calls" rows={12} />
  if (view.rows.length > 0 || view.waiting > 0)
    return <CallTable live={live} scroller={list} selected={selected} onOpen={onOpen} />
  if (view.older !== null)
    return (
      <>
        <OlderFailed live={live} />
        <Empty
          title="No match in the newest calls"
          actions={<Button onClick={live.loadOlder}>Search older calls</Button>}
        >
          The newest 10,000 calls were searched.
        </Empty>
      </>
    )
  return query.tokens.length > 0 ? (
    <Empty title="No call matches" actions={<Button onClick={onClear}>Clear the filter</Button>}>
      Nothing for <code>{visibleText(query.tokens.map(({ text }) => text).join(' '))}</code>.
    </Empty>
  ) : (
    <Empty title="No calls yet">The first call appears here when it is made.</Empty>
  )
}

function LiveButton({
  live: { live, rate },
  isLive,
  onPress,
}: {
  readonly live: LiveCallList
  readonly isLive: boolean
  readonly onPress: () => void
}): ReactNode {
  const isOn = live === 'live'
  return (
    <button
      type="button"
      className="btn live"
      aria-pressed={isLive}
      title="Turn live updates on or off (l)"
      onClick={onPress}
    >
      <span className={isOn ? 'beat' : 'beat off'} aria-hidden="true" />
      {isLive && !isOn ? (live === 'stopped' ? 'Not live' : 'Waiting') : 'Live'}
      {isOn && <span className="num dim">{rate}/s</span>}
    </button>
  )
}
