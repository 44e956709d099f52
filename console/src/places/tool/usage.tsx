import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useMemo } from 'react'
import { holdsScope, useSession } from '../../api/session.ts'
import { useTimeRange } from '../../app/time-range.ts'
import { Chart } from '../../parts/charts/chart.tsx'
import { RangePicker } from '../../parts/charts/range-picker.tsx'
import { durationOf, Stat } from '../../parts/charts/stat.tsx'
import { fixedRange } from '../../parts/charts/time-range.ts'
import { formatCount, formatDuration } from '../../parts/format.ts'
import { type Usage, usageQuery } from './tool-data.ts'
import { WORDS } from './words.tsx'

/*
 * The usage of a tool over a time range: calls, errors and run times, with charts. `about.tsx` uses it. Only people who may see
 * calls see it.
 */

export function UsageStats({ id }: { readonly id: string }): ReactNode {
  const maySee = holdsScope(useSession()?.principal, 'admin:calls')
  const [range, setRange] = useTimeRange('24h')
  const { data: usage } = useQuery({ ...usageQuery(id, range), enabled: maySee })
  if (usage === undefined) return null
  const select = (sinceMs: number, untilMs: number): void => {
    const selected = fixedRange(sinceMs, untilMs)
    if (selected !== undefined) setRange(selected)
  }
  const share = usage.calls === 0 ? 0 : (usage.errors / usage.calls) * 100
  return (
    <section aria-labelledby="usage-h" className="stack-3">
      <div className="row">
        <h2 id="usage-h">{WORDS.usage}</h2>
        <span className="grow" />
        <RangePicker range={range} onChange={setRange} />
      </div>
      <dl className="stats">
        <Stat name="Calls" value={`${formatCount(usage.calls)}${usage.whole ? '' : '+'}`} />
        <Stat name="Errors" value={share.toFixed(share > 0 && share < 10 ? 1 : 0)} unit="%" />
        <Stat name="p50" {...durationOf(usage.p50_ms)} />
        <Stat name="p95" {...durationOf(usage.p95_ms)} />
      </dl>
      {usage.calls > 0 && <UsageCharts usage={usage} onSelect={select} />}
    </section>
  )
}

interface UsageChartsProps {
  readonly usage: Usage
  readonly onSelect: (sinceMs: number, untilMs: number) => void
}

function UsageCharts({ usage, onSelect }: UsageChartsProps): ReactNode {
  const { buckets, step_seconds: seconds } = usage
  const { times, counts, durations } = useMemo(() => {
    const column = (member: 'p50_ms' | 'p95_ms') => buckets.map((bucket) => bucket[member])
    return {
      times: buckets.map(({ at }) => Date.parse(at)),
      counts: [
        {
          name: WORDS.withoutError,
          tone: 'ok' as const,
          values: buckets.map(({ calls, errors }) => calls - errors),
        },
        { name: WORDS.errors, tone: 'bad' as const, values: buckets.map(({ errors }) => errors) },
      ],
      durations: [
        { name: 'p50', tone: 'strong' as const, values: column('p50_ms') },
        { name: 'p95', tone: 'line' as const, values: column('p95_ms') },
      ],
    }
  }, [buckets])
  const shared = { times, stepMs: seconds * 1_000, height: 120, onSelect }
  return (
    <>
      <Chart
        {...shared}
        kind="bars"
        series={counts}
        format={formatCount}
        summary={WORDS.callsErrors(formatCount(usage.calls), formatCount(usage.errors))}
      />
      {usage.p50_ms !== null && usage.p95_ms !== null && (
        <Chart
          {...shared}
          kind="lines"
          series={durations}
          format={formatDuration}
          summary={WORDS.runTimeP50P95(formatDuration(usage.p50_ms), formatDuration(usage.p95_ms))}
        />
      )}
    </>
  )
}
