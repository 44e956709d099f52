import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useMemo, useRef } from 'react'
import type { Conversation } from '../../../../src/admin-api/call-views.ts'
import { requestJson } from '../../api/client.ts'
import { quoted } from '../../app/commands.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { countOf, formatClock, formatDuration } from '../../parts/format.ts'
import { Note, StateMark, ToolName } from '../../parts/meaning.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { callerText, useHoldsScope } from './api.ts'
import { type Span, type WaterfallRow, waterfallOf } from './waterfall.ts'
import { words } from './words.ts'
import './call.css'
import './conversation.css'

/*
 * The calls of one run, session or trace as a waterfall: what waited, what ran and for how long. The router loads it, and pages of
 * calls link to it. Only the rows in view are drawn.
 */

const KINDS = ['run', 'session', 'trace'] as const
export type ConversationKind = (typeof KINDS)[number]

const ROW_PX = 36
const OPEN_REFRESH_MS = 3_000

export function ConversationPage(): ReactNode {
  const [search] = useSearchState()
  const kind = KINDS.find((name) => search[name] !== undefined) ?? 'run'
  const id = search[kind] ?? ''
  const isAllowed = useHoldsScope('admin:calls')
  usePageCommand(`collet calls conversation --${kind} ${quoted(id)}`)
  return (
    <Page
      title={`${words.conversationOf[kind]} ${visibleText(id)}`}
      heading={<Heading kind={kind} id={id} />}
    >
      {isAllowed ? <Waterfall kind={kind} id={id} at={search.at} /> : <NeedsScope scope="admin:calls" />}
    </Page>
  )
}

function Heading({ kind, id }: { readonly kind: ConversationKind; readonly id: string }): ReactNode {
  return (
    <>
      <Link to="/calls" className="crumb">
        {words.calls}
      </Link>
      <span className="crumb" aria-hidden="true">
        /
      </span>
      {words.conversationOf[kind]}{' '}
      <span className="mono-h clip" title={visibleText(id)}>
        {visibleText(id)}
      </span>
    </>
  )
}

interface WaterfallProps {
  readonly kind: ConversationKind
  readonly id: string
  /** A time of the conversation, which limits the search to a day around it. */
  readonly at: string | undefined
}

function Waterfall({ kind, id, at }: WaterfallProps): ReactNode {
  const { data, error, refetch, dataUpdatedAt } = useQuery({
    queryKey: ['conversation', kind, id, at],
    queryFn: ({ signal }) => {
      const params = new URLSearchParams({ [kind]: id, ...(at === undefined ? {} : { at }) })
      return requestJson<Conversation>(`/admin/calls/conversation?${params}`, { signal })
    },
    refetchInterval: ({ state }) =>
      state.data?.calls.some(({ finished_at: finished }) => finished === null) ? OPEN_REFRESH_MS : false,
  })
  const rows = useMemo(() => waterfallOf(data?.calls ?? [], dataUpdatedAt), [data, dataUpdatedAt])
  if (data === undefined)
    return error === null ? (
      <Loading what={words.conversation.toLowerCase()} rows={8} />
    ) : (
      <Failed what={words.conversationUnread} error={error} onRetry={() => void refetch()} />
    )
  if (rows.length === 0) return <Empty title={words.conversationEmpty}>{words.conversationEmptyWhy}</Empty>
  return (
    <div className="conversation">
      <Summary calls={data.calls} />
      {!data.whole && <Note>{words.callsLeftOut}</Note>}
      <Rows rows={rows} />
    </div>
  )
}

function Summary({ calls }: { readonly calls: Conversation['calls'] }): ReactNode {
  const failed = calls.filter(({ state }) => state === 'failed' || state === 'released').length
  const [first, last] = [calls[0], calls.at(-1)]
  if (first === undefined || last === undefined) return null
  const callers = new Set(calls.map((call) => callerText(call)))
  return (
    <p className="num conversation-sum">
      <b>{countOf(calls.length, 'call')}</b>
      {failed > 0 && <StateMark state="failed" label={`${failed} failed`} />}
      <span className="dim">
        {formatClock(first.created_at)} – {formatClock(last.finished_at ?? last.created_at)}
      </span>
      <span className="dim mono clip">{[...callers].slice(0, 3).join(', ')}</span>
    </p>
  )
}

function Rows({ rows }: { readonly rows: readonly WaterfallRow[] }): ReactNode {
  const box = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
  })
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard.
    <div ref={box} className="waterfall" tabIndex={0} role="region" aria-label={words.conversationCaption}>
      <ol style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const row = rows[index]
          return row === undefined ? null : (
            <li
              key={row.call.record}
              style={{ top: start, height: ROW_PX }}
              aria-posinset={index + 1}
              aria-setsize={rows.length}
            >
              <Row row={row} />
            </li>
          )
        })}
      </ol>
    </div>
  )
}

function Row({ row }: { readonly row: WaterfallRow }): ReactNode {
  const { call, depth, waitedMs } = row
  const error = call.error_message ?? call.error_code
  const isWaiting = call.waits.some(({ until }) => until === null)
  const times = [
    ...(waitedMs === 0
      ? []
      : [isWaiting ? words.waitsSince(formatDuration(waitedMs)) : words.waited(formatDuration(waitedMs))]),
    ...(call.ran_ms === null ? [] : [words.ran(formatDuration(call.ran_ms))]),
  ]
  return (
    <>
      <span className="w-name" style={{ paddingLeft: `${depth}rem` }}>
        <StateMark state={call.state} isCalm />
        <Link to="/calls/$record" params={{ record: call.record }} className="clip" title={call.tool}>
          <ToolName name={call.tool} />
        </Link>
      </span>
      <Bar row={row} label={times.length === 0 ? words.notEnded : times.join(', ')} />
      <span className="w-times num clip" title={error === null ? undefined : visibleText(error)}>
        {error === null ? (
          <span className="dim">{times.join(', ')}</span>
        ) : (
          <span className="error-text" dir="auto">
            {visibleText(error)}
          </span>
        )}
      </span>
    </>
  )
}

/** Times as a bar: the whole call in grey, waits in amber, and the last run in the text colour. */
function Bar({
  row: { bar, waits, run, call },
  label,
}: {
  readonly row: WaterfallRow
  readonly label: string
}): ReactNode {
  return (
    <svg className="w-bar" viewBox="0 0 1000 12" preserveAspectRatio="none" role="img" aria-label={label}>
      <Part span={bar} className="whole" />
      {waits.map((span) => (
        <Part key={`${span.from} ${span.to}`} span={span} className="wait" />
      ))}
      {run !== undefined && <Part span={run} className={call.error_code === null ? 'run' : 'run bad'} />}
    </svg>
  )
}

function Part({
  span: { from, to },
  className,
}: {
  readonly span: Span
  readonly className: string
}): ReactNode {
  // Very short times stay visible.
  const width = Math.max(3, (to - from) * 1_000)
  return (
    <rect x={Math.min(from * 1_000, 1_000 - width)} y={0} width={width} height={12} className={className} />
  )
}
