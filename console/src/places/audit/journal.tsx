import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import type { JournalEventPage } from '../../../../src/admin-api/journal.ts'
import { useSession } from '../../api/session.ts'
import { useListPosition } from '../../app/list-position.ts'
import { usePageCommand } from '../../app/page-command.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { useTimeRange } from '../../app/time-range.ts'
import { Button } from '../../parts/button.tsx'
import { RangePicker } from '../../parts/charts/range-picker.tsx'
import { boundsOf, type TimeRange } from '../../parts/charts/time-range.ts'
import { TextInput } from '../../parts/field.tsx'
import { formatClock } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { Filter } from '../../parts/menu.tsx'
import { Empty, Failed, Loading, messageOf } from '../../parts/states.tsx'
import { useListKeys } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { ExportButton } from './export.tsx'
import { eventsQuery, type JournalFilters, type ListedEvent, newerQuery } from './journal-data.ts'
import { EventDetail, Sentence } from './journal-event.tsx'
import { ACTIONS, words } from './words.ts'

/*
 * The journal as sentences, with filters; `page.tsx` uses it. Filters, range and the open event are in the address. Rows never move under
 * the reader: new events are announced and shown on request.
 */

/** The journal, filtered, with the event that is open beside it. */
export function Journal(): ReactNode {
  const [search, change] = useSearchState()
  const { person = '', action = '', object = '', tenant = '', event: selected } = search
  const filters = useMemo(() => ({ person, action, object, tenant }), [person, action, object, tenant])
  const [range, setRange] = useTimeRange('7d')
  const list = useRef<HTMLElement>(null)
  const found = useInfiniteQuery(eventsQuery(filters, range))
  const events = useMemo(() => found.data?.pages.flatMap((page) => page.events) ?? [], [found.data])
  const open = events.find(({ id }) => id === selected)
  usePageCommand(commandOf(filters, range))
  const close = (): void => void change({ event: undefined }, { isStep: true })
  return (
    <div className="split journal-split" data-detail={selected === undefined ? 'closed' : 'open'}>
      <section className="journal-list" aria-label={words.journal} ref={list}>
        <Filters
          filters={filters}
          range={range}
          onRange={setRange}
          onChange={(patch) => void change(patch)}
        />
        <NewEvents filters={filters} range={range} newest={events[0]} isLoaded={found.data !== undefined} />
        <Events
          {...{ found, events, list, selected }}
          isFiltered={Object.values(filters).some((value) => value !== '')}
          onOpen={(id) => void change({ event: id }, { isStep: true })}
          onClear={() => void change({ person: '', action: '', object: '', tenant: '' }, { isStep: true })}
        />
      </section>
      {open !== undefined && (
        <EventDetail
          key={open.id}
          event={open}
          onClose={close}
          onFilter={(patch) => void change({ ...patch, event: undefined }, { isStep: true })}
        />
      )}
    </div>
  )
}

/** The terminal command with these filters. */
function commandOf({ person, action, object, tenant }: JournalFilters, range: TimeRange): string {
  const { sinceMs, untilMs } = boundsOf(range)
  const times = 'last' in range ? ['--since', range.last] : ['--since', iso(sinceMs), '--until', iso(untilMs)]
  const given = Object.entries({ person, action, object, tenant }).filter(([, value]) => value !== '')
  return ['collet journal', ...given.flatMap(([name, value]) => [`--${name}`, quoted(value)]), ...times].join(
    ' ',
  )
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}

function quoted(text: string): string {
  return /^[\w.,:@/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

interface FiltersProps {
  readonly filters: JournalFilters
  readonly range: TimeRange
  readonly onRange: (range: TimeRange) => void
  readonly onChange: (patch: Partial<JournalFilters>) => void
}

function Filters({ filters, range, onRange, onChange }: FiltersProps): ReactNode {
  // A credential sees its own tenant only.
  const seesTenants = useSession()?.principal?.isOperator === true
  return (
    <div className="journal-filters" role="search">
      <TextFilter
        label={words.person}
        hint={words.personHint}
        value={filters.person}
        onChange={(person) => onChange({ person })}
      />
      <TextFilter
        label={words.object}
        hint={words.objectHint}
        value={filters.object}
        onChange={(object) => onChange({ object })}
      />
      {seesTenants && (
        <TextFilter
          label={words.tenant}
          hint={words.tenantHint}
          value={filters.tenant}
          onChange={(tenant) => onChange({ tenant })}
        />
      )}
      <Filter
        label={words.action}
        options={actionOptions}
        labelOf={(value) => ACTIONS[value] ?? value}
        values={filters.action === '' ? NONE : filters.action.split(',')}
        onChange={(values) => onChange({ action: values.join(',') })}
      />
      <span className="grow" />
      <RangePicker range={range} onChange={onRange} />
      <ExportButton filters={filters} range={range} />
    </div>
  )
}

const NONE: readonly string[] = []
const actionOptions = () => Object.keys(ACTIONS).map((value) => ({ value }))

interface TextFilterProps {
  readonly label: string
  readonly hint: string
  readonly value: string
  readonly onChange: (value: string) => void
}

const TYPING_MS = 300

/** Applied when the reader pauses, because each search reads many commits. */
function TextFilter({ label, hint, value, onChange }: TextFilterProps): ReactNode {
  const [text, setText] = useState(value)
  const sent = useRef(value)
  useEffect(() => {
    if (sent.current !== value) setText(value)
    sent.current = value
  }, [value])
  const latest = useRef(onChange)
  latest.current = onChange
  useEffect(() => {
    if (text.trim() === sent.current) return undefined
    const timer = setTimeout(() => {
      sent.current = text.trim()
      latest.current(text.trim())
    }, TYPING_MS)
    return () => clearTimeout(timer)
  }, [text])
  return (
    <TextInput
      aria-label={label}
      placeholder={`${label}: ${hint}`}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
    />
  )
}

/** A button that shows the events that were recorded since the list was read. */
function NewEvents({
  filters,
  range,
  newest,
  isLoaded,
}: {
  readonly filters: JournalFilters
  readonly range: TimeRange
  readonly newest: ListedEvent | undefined
  readonly isLoaded: boolean
}): ReactNode {
  const client = useQueryClient()
  const { data: count = 0 } = useQuery(newerQuery(filters, range, newest, isLoaded))
  if (count === 0) return null
  return (
    <div className="new-events" role="status">
      <Button
        isSmall
        onClick={() => void client.resetQueries({ queryKey: eventsQuery(filters, range).queryKey })}
      >
        {words.newEvents(count)}
      </Button>
    </div>
  )
}

const ROW_PX = 37
/** How far before the end older events are requested. */
const NEAR_END = 40

interface EventsProps {
  readonly found: ReturnType<
    typeof useInfiniteQuery<JournalEventPage, Error, { readonly pages: readonly JournalEventPage[] }>
  >
  readonly events: readonly ListedEvent[]
  readonly list: React.RefObject<HTMLElement | null>
  readonly selected: string | undefined
  readonly isFiltered: boolean
  readonly onOpen: (id: string) => void
  readonly onClear: () => void
}

function Events({ found, events, list, selected, isFiltered, onOpen, onClear }: EventsProps): ReactNode {
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = found
  const top = useRef<HTMLDivElement>(null)
  const keyOf = (index: number): string => events[index]?.id ?? ''
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => list.current,
    estimateSize: () => ROW_PX,
    overscan: 16,
    scrollMargin: (top.current?.offsetTop ?? 0) - (list.current?.offsetTop ?? 0),
    getItemKey: keyOf,
  })
  const keys = useListKeys({
    length: events.length,
    keyOf,
    reveal: (index) => virtual.scrollToIndex(index, { align: 'auto' }),
  })
  useListPosition({ list: virtual, length: events.length, keyOf, focus: keys.enter })
  const drawn = virtual.getVirtualItems()
  const last = drawn.at(-1)
  const lastPage = data?.pages.at(-1)
  // A page without events is continued by the reader, who sees how far the search came.
  const isNearEnd =
    last !== undefined && last.index > events.length - NEAR_END && (lastPage?.events.length ?? 0) > 0
  useEffect(() => {
    if (isNearEnd && hasNextPage && !isFetchingNextPage && error === null) void fetchNextPage()
  }, [isNearEnd, hasNextPage, isFetchingNextPage, error, fetchNextPage])
  if (data === undefined)
    return error === null ? (
      <Loading what="the journal" rows={12} />
    ) : (
      <Failed what={words.unreadable} error={error} onRetry={() => void refetch()} />
    )
  const margin = virtual.options.scrollMargin
  return (
    <>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys move between the rows, which have the focus. */}
      <div ref={top} onKeyDown={keys.onKeyDown}>
        <ul className="events" aria-label={words.caption} style={{ height: virtual.getTotalSize() }}>
          {drawn.map(({ index, key, start }) => {
            const event = events[index]
            if (event === undefined) return null
            return (
              <li
                key={key}
                ref={virtual.measureElement}
                data-index={index}
                aria-posinset={index + 1}
                aria-setsize={hasNextPage ? -1 : events.length}
                style={{ transform: `translateY(${start - margin}px)` }}
              >
                <EventRow
                  event={event}
                  isSelected={event.id === selected}
                  link={keys.rowProps(index)}
                  onOpen={onOpen}
                />
              </li>
            )
          })}
        </ul>
      </div>
      <SearchEnd
        searchedTo={lastPage?.searched_to ?? null}
        isSearching={isFetchingNextPage}
        error={error}
        onContinue={hasNextPage ? () => void fetchNextPage() : undefined}
        empty={
          events.length > 0 ? undefined : isFiltered ? (
            <Empty title={words.noMatch} actions={<Button onClick={onClear}>{words.clear}</Button>}>
              {words.noMatchHint}
            </Empty>
          ) : (
            <Empty title={words.noneInRange}>{words.noneInRangeHint}</Empty>
          )
        }
      />
    </>
  )
}

interface SearchEndProps {
  readonly searchedTo: string | null
  readonly isSearching: boolean
  readonly error: Error | null
  readonly onContinue: (() => void) | undefined
  /** Shown if the whole search found nothing. */
  readonly empty: ReactNode
}

/** What follows the last row: how far the search came, and a button to continue it. */
function SearchEnd({ searchedTo, isSearching, error, onContinue, empty }: SearchEndProps): ReactNode {
  if (error !== null) return <Note tone="failed">{messageOf(error)}</Note>
  if (onContinue === undefined) return empty ?? <p className="meta dim events-end">{words.end}</p>
  return (
    <p className="row events-end" role="status">
      <span className="soft grow">
        {isSearching ? words.searching : searchedTo !== null && words.searchedTo(formatClock(searchedTo))}
      </span>
      <Button isSmall isBusy={isSearching} onClick={onContinue}>
        {words.continue}
      </Button>
    </p>
  )
}

interface EventRowProps {
  readonly event: ListedEvent
  readonly isSelected: boolean
  readonly link: ReturnType<ReturnType<typeof useListKeys>['rowProps']>
  readonly onOpen: (id: string) => void
}

const EventRow = memo(
  function EventRow({ event, isSelected, link, onOpen }: EventRowProps): ReactNode {
    return (
      <button
        {...link}
        type="button"
        className="event"
        aria-current={isSelected}
        onClick={() => onOpen(event.id)}
      >
        <time className="num dim" dateTime={event.at}>
          {formatClock(event.at)}
        </time>
        <span className="what">
          <Sentence event={event} />
          {event.why !== null && (
            <span className="soft why" dir="auto">
              {visibleText(event.why)}
            </span>
          )}
        </span>
        {event.tenant !== null && event.tenant !== 'default' && (
          <span className="dim clip">{visibleText(event.tenant)}</span>
        )}
      </button>
    )
  },
  (one, other) =>
    one.event === other.event &&
    one.isSelected === other.isSelected &&
    one.link.tabIndex === other.link.tabIndex,
)
