import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { memo, type ReactNode } from 'react'
import { budgetsQuery, isUsedUp } from '../../api/budgets.ts'
import { causeOf, countOf, formatClock, formatCount, formatDuration } from '../../parts/format.ts'
import { Note, StateMark } from '../../parts/meaning.tsx'
import { Bars } from '../../parts/plot.tsx'
import { type CallStats, type StateCounts, statsQuery } from './api.ts'
import { type CallQuery, type CallStateName, REJECTED, spanOf } from './query.ts'

/*
 * Counts of calls by outcome, with a histogram. `page.tsx` uses it. Counts that need attention link to their calls.
 */

/** Counts by outcome, and a histogram. Counts that need attention link to their calls. Memoised, so that new rows do not redraw it. */
export const Tally = memo(function Tally({ query, isLive }: TallyProps): ReactNode {
  const { data } = useQuery(statsQuery(query.filters, isLive))
  if (data === undefined) return <div className="tally" />
  return (
    <>
      <div className="tally">
        <p className="grow num">
          <b>{formatCount(total(data.states))}</b> {total(data.states) === 1 ? 'call' : 'calls'} in{' '}
          {spanOf(query.filters)}
          {!data.whole && ', plus older calls not counted'}
        </p>
        {ATTENTION_STATES.map((state) => (
          <Count key={state} state={state} count={data.states[state] ?? 0} query={query} />
        ))}
        <Rejected counts={data.rejected} query={query} />
      </div>
      <UsedUpBudgets />
      <Histogram stats={data} />
    </>
  )
})

interface TallyProps {
  readonly query: CallQuery
  readonly isLive: boolean
}

/** Counts that need attention, the most serious first. */
const ATTENTION_STATES = ['failed', 'ambiguous', 'parked'] as const satisfies readonly CallStateName[]

function Count({
  state,
  count,
  query,
}: {
  readonly state: CallStateName
  readonly count: number
  readonly query: CallQuery
}): ReactNode {
  if (count === 0) return null
  return (
    <Link to="/calls" search={{ q: queryWith(query, state) }} className="num">
      <StateMark state={state} label={`${formatCount(count)} ${state}`} />
    </Link>
  )
}

/** Notes about used-up budgets. Their calls are rejected, which the list of calls does not show. */
function UsedUpBudgets(): ReactNode {
  const { data = [] } = useQuery(budgetsQuery)
  return data.filter(isUsedUp).map(({ tenant, principal, window_seconds: seconds, resets_at: resetsAt }) => (
    <Note key={`${tenant} ${principal} ${seconds}`} tone="failed">
      The budget of {principal === null ? `tenant ${tenant}` : principal} is used up. Its calls are rejected
      until {formatClock(resetsAt)}.
    </Note>
  ))
}

/** Rejected requests are not recorded as calls, so without this count a failing caller would be invisible. */
function Rejected({
  counts,
  query,
}: {
  readonly counts: CallStats['rejected']
  readonly query: CallQuery
}): ReactNode {
  const requests = total(counts)
  if (requests === 0) return null
  const causes = Object.entries(counts).map(([code, count]) => `${formatCount(count)} ${causeOf(code)}`)
  return (
    <Link to="/calls" search={{ q: queryWith(query, REJECTED) }} className="num" title={causes.join(', ')}>
      <StateMark state="failed" label={`${formatCount(requests)} rejected`} />
    </Link>
  )
}

function queryWith({ tokens }: CallQuery, status: string): string {
  const others = tokens.filter(({ key }) => key !== 'status').map(({ text }) => text)
  return [...others, `status:${status}`].join(' ')
}

function Histogram({ stats }: { readonly stats: CallStats }): ReactNode {
  const { since, until, bucket_ms: bucketMs, buckets } = stats
  const [from, to] = [Date.parse(since), Date.parse(until)]
  // Buckets start at round times, so that a bar keeps its calls over time.
  const first = Math.floor(from / bucketMs)
  const counted = new Map(buckets.map((bucket) => [Math.floor(Date.parse(bucket.at) / bucketMs), bucket]))
  const bars = Array.from({ length: Math.max(1, Math.ceil(to / bucketMs) - first) }, (_, index) => {
    const { states = {}, rejected = 0 } = counted.get(first + index) ?? {}
    return { key: String(first + index), parts: partsOf(states, rejected) }
  })
  return (
    <figure className="histo">
      <Bars bars={bars} height={40} gap={0.4} className="" summary={summaryOf(stats)} />
      <figcaption className="num" aria-hidden="true">
        {[0, 1, 2].map((third) => (
          <span key={third}>{shortClock(from + ((to - from) * third) / 3)}</span>
        ))}
        <span>{Date.now() - to < bucketMs ? 'now' : shortClock(to)}</span>
      </figcaption>
    </figure>
  )
}

function partsOf(
  { failed = 0, released = 0, ambiguous = 0, parked = 0, ...others }: StateCounts,
  rejected: number,
) {
  return [
    { value: total(others), tone: 'ok' },
    { value: failed + released + rejected, tone: 'bad' },
    { value: parked, tone: 'parked' },
    { value: ambiguous, tone: 'ambiguous' },
  ]
}

function summaryOf({ states, rejected, since, bucket_ms: bucketMs }: CallStats): string {
  const { failed = 0, ambiguous = 0, parked = 0 } = states
  return `${countOf(total(states), 'call')} since ${formatClock(since)}, one bar for ${formatDuration(bucketMs)}: ${formatCount(failed)} failed, ${formatCount(ambiguous)} ambiguous, ${formatCount(parked)} parked, ${formatCount(total(rejected))} rejected`
}

function shortClock(at: number): string {
  const clock = formatClock(at)
  // Within a day, hours and minutes are enough.
  return clock.length === 8 ? clock.slice(0, 5) : clock.replace(/, .*/, '')
}

function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0)
}
