import { readdir } from 'node:fs/promises'
import { constants, monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks'
import { Distribution, histogramSamples, type Metric } from './exposition.ts'

const MICROSECONDS = 1_000_000
const NANOSECONDS = 1_000_000_000
const LAG_RESOLUTION_MS = 10
const GC_SECONDS = [0.001, 0.01, 0.1, 1, 2, 5]
const GC_KINDS: ReadonlyMap<unknown, string> = new Map([
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
])

/**
 * What Node tells of this process, under the names that boards for Node already know. Delays of the event loop and garbage collection are
 * watched from now on: a server that nobody scrapes pays for neither.
 */
export function processMetrics(): () => Promise<readonly Metric[]> {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
  lag.enable()
  const collections = watchCollections()
  return async () => {
    const metrics = [
      ...usage(),
      ...(await openFiles()),
      ...memory(),
      ...lagMetrics(lag),
      collections(),
      runtime(),
    ]
    // Each scrape tells of the time since the one before.
    lag.reset()
    return metrics
  }
}

function usage(): readonly Metric[] {
  const { user, system } = process.cpuUsage()
  return [
    counter('process_cpu_user_seconds_total', 'User CPU time spent, in seconds.', user / MICROSECONDS),
    counter('process_cpu_system_seconds_total', 'System CPU time spent, in seconds.', system / MICROSECONDS),
    counter(
      'process_cpu_seconds_total',
      'User and system CPU time spent, in seconds.',
      (user + system) / MICROSECONDS,
    ),
    gauge(
      'process_start_time_seconds',
      'When the process started, in seconds since 1970.',
      Math.round(Date.now() / 1_000 - process.uptime()),
    ),
    gauge(
      'nodejs_active_resources_total',
      'What keeps the event loop alive: sockets, timers, requests.',
      process.getActiveResourcesInfo().length,
    ),
  ]
}

/** Linux lists them; elsewhere there is no such metric. */
async function openFiles(): Promise<readonly Metric[]> {
  const files = await readdir('/proc/self/fd').catch(() => undefined)
  return files === undefined ? [] : [gauge('process_open_fds', 'Open file descriptors.', files.length)]
}

function memory(): readonly Metric[] {
  const { rss, heapTotal, heapUsed, external } = process.memoryUsage()
  return [
    gauge('process_resident_memory_bytes', 'Resident memory, in bytes.', rss),
    gauge('nodejs_heap_size_total_bytes', 'Size of the JavaScript heap, in bytes.', heapTotal),
    gauge('nodejs_heap_size_used_bytes', 'What of the JavaScript heap is in use, in bytes.', heapUsed),
    gauge(
      'nodejs_external_memory_bytes',
      'Memory of buffers and the like outside of the heap, in bytes.',
      external,
    ),
  ]
}

type EventLoopDelay = ReturnType<typeof monitorEventLoopDelay>

function lagMetrics(lag: EventLoopDelay): readonly Metric[] {
  const one = (name: string, what: string, nanoseconds: number): Metric =>
    // Nothing was measured yet when it is no number.
    gauge(
      `nodejs_eventloop_lag_${name}seconds`,
      `${what} delay of the event loop.`,
      (nanoseconds || 0) / NANOSECONDS,
    )
  return [
    one('min_', 'Smallest', lag.min > lag.max ? 0 : lag.min),
    one('max_', 'Largest', lag.max),
    one('mean_', 'Mean', lag.mean),
    one('stddev_', 'Standard deviation of the', lag.stddev),
    one('p50_', 'Median', lag.percentile(50)),
    one('p90_', '90th percentile of the', lag.percentile(90)),
    one('p99_', '99th percentile of the', lag.percentile(99)),
  ]
}

function watchCollections(): () => Metric {
  const byKind = new Map([...GC_KINDS.values()].map((kind) => [kind, new Distribution(GC_SECONDS)]))
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { duration } = entry
      const detail: unknown = 'detail' in entry ? entry.detail : undefined
      const kind = typeof detail === 'object' && detail !== null && 'kind' in detail ? detail.kind : undefined
      byKind.get(GC_KINDS.get(kind) ?? '')?.add(duration / 1_000)
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  return () => ({
    name: 'nodejs_gc_duration_seconds',
    help: 'Time of garbage collections, by kind.',
    type: 'histogram',
    samples: [...byKind].flatMap(([kind, seconds]) => histogramSamples({ kind }, seconds)),
  })
}

function runtime(): Metric {
  const [major = '', minor = '', patch = ''] = process.versions.node.split('.')
  const labels = { version: process.version, major, minor, patch }
  return {
    name: 'nodejs_version_info',
    help: 'Version of Node.',
    type: 'gauge',
    samples: [{ labels, value: 1 }],
  }
}

function gauge(name: string, help: string, value: number): Metric {
  return { name, help, type: 'gauge', samples: [{ value }] }
}

function counter(name: string, help: string, value: number): Metric {
  return { name, help, type: 'counter', samples: [{ value }] }
}
