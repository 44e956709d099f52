import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useEffect, useMemo, useRef } from 'react'
import { ApiError } from '../../api/client.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { PaneDivider } from '../../app/pane-divider.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { useTimeRange } from '../../app/time-range.ts'
import { ViewsMenu } from '../../app/views/views-menu.tsx'
import { useKey } from '../../keyboard.ts'
import { Button } from '../../parts/button.tsx'
import { RangePicker } from '../../parts/charts/range-picker.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { Segment } from '../../parts/tabs.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { useHoldsScope } from './api.ts'
import { CallTable, OlderFailed } from './call-table.tsx'
import { CallDetail } from './detail.tsx'
import { ErrorGroups } from './error-groups.tsx'
import { type CallQuery, commandOf, isSearch, REJECTED, readQuery, showCommand, withRange } from './query.ts'
import { QueryBar } from './query-bar.tsx'
import { RejectedList } from './rejected.tsx'
import { Tally } from './tally.tsx'
import { type LiveCallList, useCallList } from './use-call-list.ts'
import { words } from './words.ts'
import './calls.css'

/*
 * The page with the live list of calls. Loaded by the router. Query, live state and the open call are in the address.
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

function Calls(): ReactNode {
  const [{ q = '', live: liveWord = 'on', call: selected, tab = 'timeline', inputs, view }, change] =
    useSearchState()
  const [range, setRange] = useTimeRange('24h')
  const query = useMemo(() => {
    const read = readQuery(q)
    return { ...read, filters: withRange(read.filters, range) }
  }, [q, range])
  const isLive = liveWord === 'on'
  const canRead = useHoldsScope('calls:read')
  const withInputs = canRead && inputs === 'on'
  const live = useCallList(query.filters, isLive)
  const list = useRef<HTMLElement>(null)
  const navigate = useNavigate()
  usePageCommand(
    selected !== undefined
      ? showCommand(selected)
      : view === 'errors'
        ? commandOf(query.filters, false, 'collet calls errors')
        : commandOf(query.filters, isLive),
  )

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
          {canRead && (
            <button
              type="button"
              className="btn"
              aria-pressed={withInputs}
              title={words.inputsTitle}
              onClick={() => void change({ inputs: withInputs ? undefined : 'on' })}
            >
              {words.showInputs}
            </button>
          )}
          <ViewsMenu page="/calls" />
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
          <div className="calls-bar">
            <Segment
              label={words.views}
              value={view === 'errors' ? 'errors' : 'calls'}
              options={[
                { value: 'calls', label: words.calls },
                { value: 'errors', label: words.errors },
              ]}
              onChange={(next) =>
                void change({ view: next === 'errors' ? next : undefined }, { isStep: true })
              }
            />
            <span className="grow" />
            <RangePicker range={range} onChange={setRange} />
          </div>
          <Tally query={query} isLive={isLive} />
          {view === 'errors' ? (
            <ErrorGroups filters={query.filters} isLive={isLive} />
          ) : query.filters.state === REJECTED ? (
            <RejectedList filters={query.filters} isLive={isLive} />
          ) : (
            <List
              {...{ live, query, selected, list, withInputs }}
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
        {selected !== undefined && <PaneDivider name="calls" label={words.detailWidth} resizes="second" />}
      </div>
    </Page>
  )
}

interface ListProps {
  readonly live: LiveCallList
  readonly query: CallQuery
  readonly selected: string | undefined
  readonly withInputs: boolean
  readonly list: React.RefObject<HTMLElement | null>
  readonly onOpen: (record: string) => void
  readonly onClear: () => void
}

function List({ live, query, selected, withInputs, list, onOpen, onClear }: ListProps): ReactNode {
  const { view, error, isLoading, retry, loadOlder } = live
  const searchesOn =
    isSearch(query.filters) && view.rows.length === 0 && view.older !== null && view.olderError === null
  useEffect(() => {
    if (searchesOn) loadOlder()
  }, [searchesOn, loadOlder])
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
    return (
      <CallTable live={live} scroller={list} selected={selected} withInputs={withInputs} onOpen={onOpen} />
    )
  if (searchesOn) return <Loading what={words.searching} rows={6} />
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
