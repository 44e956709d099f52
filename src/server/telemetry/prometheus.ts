import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { SourceView } from '#core/imports/sources'
import type { Distribution, Rendered, Tallies } from './metrics.ts'

/** Puts tallies in the words of Prometheus, with what Node tells of the process, in a registry of their own. */
export function openRegistry(tallies: Tallies): () => Promise<Rendered> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  addCallMetrics(registry, tallies)
  addLimitMetrics(registry, tallies)
  addRequestMetrics(registry, tallies)
  addCommitMetrics(registry, tallies)
  addSourceMetrics(registry, tallies)
  addCertificateMetrics(registry, tallies)
  return async () => ({ contentType: registry.contentType, text: await registry.metrics() })
}

function addCallMetrics(registry: Registry, { calls, running, cut, isReady }: Tallies): void {
  new Gauge({
    name: 'collet_ready',
    help: 'Whether new calls are taken: 1, or 0 while the store is out of reach or the server stops.',
    registers: [registry],
    collect() {
      this.set(isReady() ? 1 : 0)
    },
  })
  new Counter({
    name: 'collet_calls_ambiguous_total',
    help: 'Calls that a dead server left running, found by this one: nobody knows whether they took effect.',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(cut())
    },
  })
  new TalliedHistogram(registry, {
    name: 'collet_call_duration_seconds',
    help: 'Time from taking a call to its outcome, its commit included; replays are left out.',
    read: () => [...calls].map(([tool, { seconds }]) => [{ tool }, seconds]),
  })
  new Gauge({
    name: 'collet_calls_running',
    help: 'Calls being answered now.',
    registers: [registry],
    collect() {
      this.set(running())
    },
  })
  new Counter({
    name: 'collet_calls_total',
    help: 'Calls answered, by tool and outcome; replays of a recorded outcome are marked.',
    labelNames: ['tool', 'outcome', 'replayed'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [tool, { answered, replayed }] of calls) {
        for (const [outcome, count] of answered) this.inc({ tool, outcome, replayed: 'false' }, count)
        for (const [outcome, count] of replayed) this.inc({ tool, outcome, replayed: 'true' }, count)
      }
    },
  })
}

function addLimitMetrics(registry: Registry, { refused }: Tallies): void {
  new Counter({
    name: 'collet_limit_refusals_total',
    help: 'Calls and requests refused by a limit, by the limit.',
    labelNames: ['limit'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [limit, count] of refused) this.inc({ limit }, count)
    },
  })
}

function addRequestMetrics(registry: Registry, { requests }: Tallies): void {
  new Counter({
    name: 'collet_http_requests_total',
    help: 'HTTP requests answered, by route, method and status.',
    labelNames: ['route', 'method', 'status'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { route, method, status, count } of requests()) this.inc({ route, method, status }, count)
    },
  })
}

function addCommitMetrics(registry: Registry, { commitRows, commitSeconds }: Tallies): void {
  new TalliedHistogram(registry, {
    name: 'collet_store_commit_rows',
    help: 'Rows per commit group.',
    read: () => [[{}, commitRows]],
  })
  new TalliedHistogram(registry, {
    name: 'collet_store_commit_duration_seconds',
    help: 'Time one commit group took to become durable.',
    read: () => [[{}, commitSeconds]],
  })
}

/** How sources are, asked at each scrape. */
function addSourceMetrics(registry: Registry, { sources }: Tallies): void {
  const gauge = (name: string, help: string, measure: (source: SourceView) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ['source', 'type'],
      registers: [registry],
      collect() {
        this.reset()
        for (const source of sources()) this.set({ source: source.key, type: source.type }, measure(source))
      },
    })
  }
  gauge('collet_source_up', 'Whether a source answers: 1, or 0 while it is down.', ({ state }) =>
    state === 'down' ? 0 : 1,
  )
  gauge('collet_source_tools', 'Tools of a source that agents can see.', ({ tools }) => tools)
  gauge('collet_source_waiting', 'Changed definitions that wait for an operator.', ({ waiting }) => waiting)
}

/** A server without a certificate has no such metric: 0 would be one that ended long ago. */
function addCertificateMetrics(registry: Registry, { certificateEndsAtMs }: Tallies): void {
  if (certificateEndsAtMs() === undefined) return
  new Gauge({
    name: 'collet_tls_certificate_expiry_timestamp_seconds',
    help: 'When the certificate of the server ends, in seconds since 1970.',
    registers: [registry],
    collect() {
      this.set(Math.floor((certificateEndsAtMs() ?? 0) / 1_000))
    },
  })
}

type Labels = Readonly<Record<string, string>>

interface TalliedOptions {
  readonly name: string
  readonly help: string
  read(): readonly (readonly [Labels, Distribution])[]
}

interface Sample {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly sharedLabels: Labels
  readonly value: number
}

/** A histogram that is rendered from tallies instead of collected by the library. */
class TalliedHistogram extends Histogram {
  readonly #options: TalliedOptions

  constructor(registry: Registry, options: TalliedOptions) {
    super({ name: options.name, help: options.help, registers: [registry] })
    this.#options = options
  }

  /** Where the registry, and the inherited `get`, take samples from; the library's types leave it out. */
  async getForPromString(): Promise<object> {
    const { name, help, read } = this.#options
    const values = read().flatMap(([labels, tally]) => samplesOf(name, labels, tally))
    return { name, help, type: 'histogram', aggregator: 'sum', values }
  }
}

function samplesOf(name: string, sharedLabels: Labels, tally: Distribution): readonly Sample[] {
  const { bounds, buckets, count, sum } = tally
  let below = 0
  const cumulative = bounds.map((le, index) => {
    below += buckets[index] ?? 0
    return { metricName: `${name}_bucket`, labels: { le }, sharedLabels, value: below }
  })
  return [
    ...cumulative,
    { metricName: `${name}_bucket`, labels: { le: '+Inf' }, sharedLabels, value: count },
    { metricName: `${name}_sum`, labels: {}, sharedLabels, value: sum },
    { metricName: `${name}_count`, labels: {}, sharedLabels, value: count },
  ]
}
