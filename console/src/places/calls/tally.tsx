import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { memo, type ReactNode } from 'react'
import { countOf, formatClock, formatCount, formatDuration } from '../../parts/format.ts'
import { StateMark } from '../../parts/meaning.tsx'
import { Bars } from '../../parts/plot.tsx'
import { type CallStats, type StateCounts, statsQuery } from './api.ts'
import { type CallQuery, type CallStateName, spanOf } from './query.ts'

/** How many calls, what became of them, and when. The counts of what needs a look lead there. Not drawn with each row that comes. */
export const Tally = memo(function Tally({ query, isLive }: TallyProps): ReactNode {
  const { data } = useQuery(statsQuery(query.filters, isLive))
  if (data === undefined) return <div className="tally" />
  return (
    <>
      <div className="tally">
        <p className="grow num">
          <b>{formatCount(total(data.states))}</b> {total(data.states) === 1 ? 'call' : 'calls'} in{' '}
          {spanOf(query.filters)}
          {!data.whole && ', and older ones that were not counted'}
        </p>
        {LOOKED_AT.map((state) => (
          <Count key={state} state={state} count={data.states[state] ?? 0} query={query} />
        ))}
      </div>
      <Histogram stats={data} />
    </>
  )
})

interface TallyProps {
  readonly query: CallQuery
  readonly isLive: boolean
}

/** What needs a look, the worst first. */
const LOOKED_AT = ['failed', 'ambiguous', 'parked'] as const satisfies readonly CallStateName[]

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
  const others = query.tokens.filter(({ key }) => key !== 'status').map(({ text }) => text)
  return (
    <Link to="/calls" search={{ q: [...others, `status:${state}`].join(' ') }} className="num">
      <StateMark state={state} label={`${formatCount(count)} ${state}`} />
    </Link>
  )
}

function Histogram({ stats }: { readonly stats: CallStats }): ReactNode {
  const { since, until, bucket_ms: bucketMs, buckets } = stats
  const [from, to] = [Date.parse(since), Date.parse(until)]
  const count = Math.max(1, Math.ceil((to - from) / bucketMs))
  const counted = new Map(
    buckets.map(({ at, states }) => [Math.round((Date.parse(at) - from) / bucketMs), states]),
  )
  const bars = Array.from({ length: count }, (_, index) => {
    const states = counted.get(index) ?? {}
    return { key: String(index), parts: partsOf(states) }
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

function partsOf({ failed = 0, released = 0, ambiguous = 0, parked = 0, ...others }: StateCounts) {
  return [
    { value: total(others), tone: 'ok' },
    { value: failed + released, tone: 'bad' },
    { value: parked, tone: 'park' },
    { value: ambiguous, tone: 'amb' },
  ]
}

function summaryOf({ states, since, bucket_ms: bucketMs }: CallStats): string {
  const { failed = 0, ambiguous = 0, parked = 0 } = states
  return `${countOf(total(states), 'call')} since ${formatClock(since)}, one bar for ${formatDuration(bucketMs)}: ${formatCount(failed)} failed, ${formatCount(ambiguous)} ambiguous, ${formatCount(parked)} parked`
}

function shortClock(at: number): string {
  const clock = formatClock(at)
  // Within a day the minutes are enough.
  return clock.length === 8 ? clock.slice(0, 5) : clock.replace(/, .*/, '')
}

function total(states: StateCounts): number {
  return Object.values(states).reduce((sum, count) => sum + count, 0)
}
