/**
 * Renders metrics in the text format of Prometheus: the counts of `metrics.ts` and the process statistics of Node.
 * The first reader of the metrics loads it, so that a server without readers does not.
 */

import { readdir } from 'node:fs/promises'
import { constants, monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks'
import type { SourceView } from '#sources/kit/sources'
import type { Distribution, Tallies } from './metrics.ts'

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export interface Rendered {
  readonly contentType: string
  readonly text: string
}

type NewDistribution = (bounds: readonly number[]) => Distribution

/** Reads all metrics. Each reader has its own, because some metrics cover the time since it last read them. */
export type CollectMetrics = () => Promise<readonly Metric[]>

/** Returns a function that collects the tallies and the metrics of the process. */
export function createCollector(tallies: Tallies, newDistribution: NewDistribution): CollectMetrics {
  const collectProcess = processMetrics(newDistribution)
  return async () => [
    ...(await collectProcess()),
    ...callMetrics(tallies),
    ...serverMetrics(tallies),
    ...sourceMetrics(tallies),
    ...certificateMetrics(tallies),
  ]
}

function callMetrics({ calls, running, ambiguousCalls, isReady }: Tallies): readonly Metric[] {
  const samplesOf = (labels: Labels, outcomes: ReadonlyMap<string, number>, replayed: string) =>
    [...outcomes].map(([outcome, value]) => ({ labels: { ...labels, outcome, replayed }, value }))
  return [
    gauge(
      'collet_ready',
      '1 if new calls are accepted, 0 while the store is unreachable or the server is stopping.',
      isReady() ? 1 : 0,
    ),
    counter(
      'collet_calls_ambiguous_total',
      'Calls with an unknown effect, found by this server after another server crashed while running them.',
      ambiguousCalls,
    ),
    histogram(
      'collet_call_duration_seconds',
      'Time from accepting a call to its outcome, commit included. Replays are not counted.',
      [...calls.values()].map(({ labels, seconds }) => ({ labels, distribution: seconds })),
    ),
    gauge('collet_calls_running', 'Calls in progress.', running),
    counter(
      'collet_calls_total',
      'Answered calls by tool and outcome. Replays of a recorded outcome have replayed="true".',
      [...calls.values()].flatMap(({ labels, answered, replayed }) => [
        ...samplesOf(labels, answered, 'false'),
        ...samplesOf(labels, replayed, 'true'),
      ]),
    ),
  ]
}

function serverMetrics({ refused, requests, commitRows, commitSeconds }: Tallies): readonly Metric[] {
  return [
    counter(
      'collet_limit_refusals_total',
      'Calls and requests that a limit refused, by limit.',
      [...refused].map(([limit, value]) => ({ labels: { limit }, value })),
    ),
    counter(
      'collet_http_requests_total',
      'Answered HTTP requests by route, method and status.',
      requests.map(({ count, ...labels }) => ({ labels, value: count })),
    ),
    histogram('collet_store_commit_rows', 'Rows per commit group.', [
      { labels: {}, distribution: commitRows },
    ]),
    histogram('collet_store_commit_duration_seconds', 'Time until a commit group was durable.', [
      { labels: {}, distribution: commitSeconds },
    ]),
  ]
}

function sourceMetrics({ sources }: Tallies): readonly Metric[] {
  const samplesOf = (measure: (source: SourceView) => number) =>
    sources().map((source) => ({ labels: { source: source.key, type: source.type }, value: measure(source) }))
  return [
    gauge(
      'collet_source_up',
      '1 if the source answers, 0 while it is down.',
      samplesOf(({ state }) => (state === 'down' ? 0 : 1)),
    ),
    gauge(
      'collet_source_tools',
      'Tools of a source that agents can see.',
      samplesOf(({ tools }) => tools),
    ),
    gauge(
      'collet_source_waiting',
      'Changed tool definitions that wait for a decision by an operator.',
      samplesOf(({ waiting }) => waiting),
    ),
  ]
}

/** A server without a certificate omits this metric, because 0 would mean an expired certificate. */
function certificateMetrics({ certificateEndsAtMs }: Tallies): readonly Metric[] {
  const endsAtMs = certificateEndsAtMs()
  if (endsAtMs === undefined) return []
  return [
    gauge(
      'collet_tls_certificate_expiry_timestamp_seconds',
      'Expiry of the TLS certificate, in seconds since 1970.',
      Math.floor(endsAtMs / 1_000),
    ),
  ]
}

const MICROSECONDS_PER_SECOND = 1_000_000
const NANOSECONDS_PER_SECOND = 1_000_000_000
const LAG_RESOLUTION_MS = 10
const GC_SECONDS = [0.001, 0.01, 0.1, 1, 2, 5]
const GC_KINDS: ReadonlyMap<unknown, string> = new Map([
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
])

/**
 * Metrics of this process under the names that dashboards for Node use. Event loop delay and garbage collection are measured from
 * this call on.
 */
export function processMetrics(newDistribution: NewDistribution): () => Promise<readonly Metric[]> {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
  lag.enable()
  const collections = watchCollections(newDistribution)
  return async () => {
    const metrics = [
      ...usage(),
      ...(await openFiles()),
      ...memory(),
      ...lagMetrics(lag),
      collections(),
      runtime(),
    ]
    // Each scrape covers the time since the previous one.
    lag.reset()
    return metrics
  }
}

function usage(): readonly Metric[] {
  const { user, system } = process.cpuUsage()
  const cpuTime = (name: string, help: string, microseconds: number): Metric =>
    counter(`process_cpu_${name}`, `${help} CPU time, in seconds.`, microseconds / MICROSECONDS_PER_SECOND)
  return [
    cpuTime('user_seconds_total', 'User', user),
    cpuTime('system_seconds_total', 'System', system),
    cpuTime('seconds_total', 'User and system', user + system),
    gauge(
      'process_start_time_seconds',
      'Start time of the process, in seconds since 1970.',
      Math.round(Date.now() / 1_000 - process.uptime()),
    ),
    gauge(
      'nodejs_active_resources_total',
      'Resources that keep the event loop alive: sockets, timers, requests.',
      process.getActiveResourcesInfo().length,
    ),
  ]
}

/** Only Linux lists open files; elsewhere this metric is absent. */
async function openFiles(): Promise<readonly Metric[]> {
  const files = await readdir('/proc/self/fd').catch(() => undefined)
  return files === undefined ? [] : [gauge('process_open_fds', 'Open file descriptors.', files.length)]
}

function memory(): readonly Metric[] {
  const { rss, heapTotal, heapUsed, external } = process.memoryUsage()
  return [
    gauge('process_resident_memory_bytes', 'Resident memory, in bytes.', rss),
    gauge('nodejs_heap_size_total_bytes', 'Size of the JavaScript heap, in bytes.', heapTotal),
    gauge('nodejs_heap_size_used_bytes', 'Used JavaScript heap, in bytes.', heapUsed),
    gauge('nodejs_external_memory_bytes', 'Memory of buffers outside the heap, in bytes.', external),
  ]
}

function lagMetrics(lag: ReturnType<typeof monitorEventLoopDelay>): readonly Metric[] {
  const delayGauge = (name: string, statistic: string, nanoseconds: number): Metric =>
    // Statistics are NaN until the first measurement.
    gauge(
      `nodejs_eventloop_lag_${name}_seconds`,
      `${statistic} delay of the event loop, in seconds.`,
      (nanoseconds || 0) / NANOSECONDS_PER_SECOND,
    )
  return [
    delayGauge('min', 'Smallest', lag.min > lag.max ? 0 : lag.min),
    delayGauge('max', 'Largest', lag.max),
    delayGauge('mean', 'Mean', lag.mean),
    delayGauge('stddev', 'Standard deviation of the', lag.stddev),
    delayGauge('p50', 'Median', lag.percentile(50)),
    delayGauge('p90', '90th percentile of the', lag.percentile(90)),
    delayGauge('p99', '99th percentile of the', lag.percentile(99)),
  ]
}

function watchCollections(newDistribution: NewDistribution): () => Metric {
  const byKind = new Map([...GC_KINDS.values()].map((kind) => [kind, newDistribution(GC_SECONDS)]))
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const detail: unknown = 'detail' in entry ? entry.detail : undefined
      const kind = typeof detail === 'object' && detail !== null && 'kind' in detail ? detail.kind : undefined
      byKind.get(GC_KINDS.get(kind) ?? '')?.add(entry.duration / 1_000)
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  return () =>
    histogram(
      'nodejs_gc_duration_seconds',
      'Duration of garbage collections, by kind.',
      [...byKind].map(([kind, distribution]) => ({ labels: { kind }, distribution })),
    )
}

function runtime(): Metric {
  const [major = '', minor = '', patch = ''] = process.versions.node.split('.')
  const labels = { version: process.version, major, minor, patch }
  return gauge('nodejs_version_info', 'Version of Node.', [{ labels, value: 1 }])
}

const gauge = metricOf('gauge')
const counter = metricOf('counter')
const histogram = (name: string, help: string, series: HistogramMetric['series']): Metric => ({
  ...{ name, help, type: 'histogram', series },
})

/** Returns a function that makes metrics of this type. A number stands for one sample without labels. */
function metricOf(type: PlainMetric['type']) {
  return (name: string, help: string, samples: number | readonly Sample[]): Metric => ({
    name,
    help,
    type,
    samples: typeof samples === 'number' ? [{ value: samples }] : samples,
  })
}

export function renderMetrics(metrics: readonly Metric[]): Rendered {
  return { contentType: CONTENT_TYPE, text: metrics.map(renderMetric).join('\n') }
}

type Labels = Readonly<Record<string, string | number>>

interface Sample {
  /** `_bucket`, `_sum` or `_count` of a histogram. */
  readonly suffix?: string
  readonly labels?: Labels
  readonly value: number
}

export type Metric = PlainMetric | HistogramMetric

interface PlainMetric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge'
  readonly samples: readonly Sample[]
}

interface HistogramMetric {
  readonly name: string
  readonly help: string
  readonly type: 'histogram'
  readonly series: readonly { readonly labels: Labels; readonly distribution: Distribution }[]
}

/** Samples of a histogram; buckets of Prometheus are cumulative. */
function histogramSamples({ labels, distribution }: HistogramMetric['series'][number]): readonly Sample[] {
  const { bounds, buckets, count, sum } = distribution
  let below = 0
  return [
    ...bounds.map((le, index) => {
      below += buckets[index] ?? 0
      return { suffix: '_bucket', labels: { le, ...labels }, value: below }
    }),
    { suffix: '_bucket', labels: { le: '+Inf', ...labels }, value: count },
    { suffix: '_sum', labels, value: sum },
    { suffix: '_count', labels, value: count },
  ]
}

function renderMetric(metric: Metric): string {
  const { name, help, type } = metric
  const samples = metric.type === 'histogram' ? metric.series.flatMap(histogramSamples) : metric.samples
  const lines = samples.map(
    ({ suffix = '', labels = {}, value }) => `${name}${suffix}${labelText(labels)} ${value}\n`,
  )
  return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${escaped(String(value)).replaceAll('"', '\\"')}"`,
  )
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}
