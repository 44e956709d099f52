import { type ReactNode, useMemo } from 'react'
import { Chart } from '../../parts/charts/chart.tsx'
import { durationOf, Stat } from '../../parts/charts/stat.tsx'
import { fixedRange, type TimeRange } from '../../parts/charts/time-range.ts'
import { formatCount, formatDuration } from '../../parts/format.ts'
import { errorShare, type Overview, shownShare } from './overview-data.ts'
import { words } from './words.ts'

/*
 * The figures and charts of the overview. `page.tsx` uses it. Dragging over a chart narrows the time range of all pages.
 */

/** The figures of the whole range. */
export function Figures({ overview }: { readonly overview: Overview }): ReactNode {
  const { calls, rejected, p50_ms: p50, p95_ms: p95 } = overview
  return (
    <dl className="stats">
      <Stat name={words.calls} value={formatCount(calls)} />
      <Stat name={words.errorRate} value={shownShare(errorShare(overview))} unit={calls === 0 ? '' : '%'} />
      <Stat name={words.p50} {...durationOf(p50)} />
      <Stat name={words.p95} {...durationOf(p95)} />
      <Stat name={words.rejected} value={formatCount(rejected)} />
    </dl>
  )
}

interface OverviewChartsProps {
  readonly overview: Overview
  readonly setRange: (range: TimeRange) => void
}

export function OverviewCharts({ overview, setRange }: OverviewChartsProps): ReactNode {
  const { calls, errors, rejected, p50_ms: p50, p95_ms: p95, buckets, step_seconds: seconds } = overview
  const columns = useMemo(() => columnsOf(buckets), [buckets])
  const select = (sinceMs: number, untilMs: number): void => {
    const selected = fixedRange(sinceMs, untilMs)
    if (selected !== undefined) setRange(selected)
  }
  const shared = { times: columns.times, stepMs: seconds * 1_000, onSelect: select }
  const summary = words.callsSummary(formatCount(calls), formatCount(errors), formatCount(rejected))
  return (
    <section aria-labelledby="calls-h" className="stack-3">
      <div className="sec-head">
        <h2 id="calls-h">{words.calls}</h2>
      </div>
      <Chart {...shared} kind="bars" series={columns.counts} format={formatCount} summary={summary} />
      <div className="pair">
        <figure>
          <figcaption>{words.errorRate}</figcaption>
          <Chart
            {...shared}
            kind="bars"
            height={120}
            series={columns.shares}
            hasLegend={false}
            format={formatShare}
            summary={words.rateSummary(shownShare(errorShare(overview)))}
          />
        </figure>
        <figure>
          <figcaption>
            {words.runTime}: {words.p50}, {words.p95}
          </figcaption>
          <Chart
            {...shared}
            kind="lines"
            height={120}
            series={columns.durations}
            hasLegend={false}
            format={formatDuration}
            summary={words.runTimeSummary(formatMs(p50), formatMs(p95))}
          />
        </figure>
      </div>
    </section>
  )
}

function columnsOf(buckets: Overview['buckets']) {
  const column = (member: 'p50_ms' | 'p95_ms') => buckets.map((bucket) => bucket[member])
  return {
    times: buckets.map(({ at }) => Date.parse(at)),
    counts: [
      {
        name: words.withoutError,
        tone: 'ok' as const,
        values: buckets.map(({ calls, errors }) => calls - errors),
      },
      { name: words.errors, tone: 'bad' as const, values: buckets.map(({ errors }) => errors) },
      { name: words.rejected, tone: 'strong' as const, values: buckets.map(({ rejected }) => rejected) },
    ],
    shares: [{ name: words.errorRate, tone: 'bad' as const, values: buckets.map(errorShare) }],
    durations: [
      { name: words.p50, tone: 'strong' as const, values: column('p50_ms') },
      { name: words.p95, tone: 'line' as const, values: column('p95_ms') },
    ],
  }
}

function formatShare(share: number): string {
  return `${shownShare(share)} %`
}

function formatMs(ms: number | null): string {
  return ms === null ? '–' : formatDuration(ms)
}
