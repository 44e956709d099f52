import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Authenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { fault } from '#core/errors'
import type { SourceView } from '#core/imports/sources'
import type { LimitName } from '#core/limits/settings'
import { ANONYMOUS, coversScope } from '#core/principal'
import type { HttpReply } from '#protocols/http-exchange'
import { createHttpApp, type HttpApp, type HttpAppOptions } from '#server/http/app'
import { refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { NoteDenial } from './observe.ts'

interface EndedCall {
  /** A tool id from the catalog, or `unknown`: callers cannot add label values. */
  readonly tool: string
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly durationMs: number
  readonly isReplay: boolean
}

/** Numbers for `/metrics`, in a registry of their own. */
export interface Metrics {
  callStarted(): void
  callLeft(): void
  callEnded(call: EndedCall): void
  /** `route` is the route's pattern, never a path. */
  requestAnswered(route: string, method: string, status: number): void
  /** A call, or a request, that a limit refused. */
  limitRefused(name: LimitName): void
  /** Lets sources be asked at each scrape. */
  followSources(read: () => readonly SourceView[]): void
  /** Lets the end of the certificate be asked at each scrape. */
  followCertificate(readExpiresAtMs: () => number): void
  /** One commit group of the store became durable. */
  groupCommitted(rows: number, durationMs: number): void
  render(): Promise<{ readonly contentType: string; readonly text: string }>
}

const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const COMMIT_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5]
const COMMIT_ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]

export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const tallies = new CallTallies(CALL_SECONDS)
  let running = 0
  addCallMetrics(registry, tallies, () => running)
  const refused = new Map<LimitName, number>()
  addLimitMetrics(registry, refused)
  const requests = new RequestTallies()
  addRequestMetrics(registry, requests)
  const commitRows = new Histogram({
    name: 'collet_store_commit_rows',
    help: 'Rows per commit group.',
    buckets: COMMIT_ROWS,
    registers: [registry],
  })
  const commitSeconds = new Histogram({
    name: 'collet_store_commit_duration_seconds',
    help: 'Time one commit group took to become durable.',
    buckets: COMMIT_SECONDS,
    registers: [registry],
  })
  return {
    callStarted() {
      running += 1
    },
    callLeft() {
      running -= 1
    },
    callEnded({ tool, outcome, durationMs, isReplay }) {
      tallies.add(tool, outcome, isReplay, durationMs)
    },
    followSources(read) {
      addSourceMetrics(registry, read)
    },
    followCertificate(readExpiresAtMs) {
      new Gauge({
        name: 'collet_tls_certificate_expiry_timestamp_seconds',
        help: 'When the certificate of the server ends, in seconds since 1970.',
        registers: [registry],
        collect() {
          this.set(Math.floor(readExpiresAtMs() / 1_000))
        },
      })
    },
    limitRefused(name) {
      refused.set(name, (refused.get(name) ?? 0) + 1)
    },
    requestAnswered(route, method, status) {
      requests.add(route, method, status)
    },
    groupCommitted(rows, durationMs) {
      commitRows.observe(rows)
      commitSeconds.observe(durationMs / 1_000)
    },
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  }
}

function addLimitMetrics(registry: Registry, refused: ReadonlyMap<LimitName, number>): void {
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

function addRequestMetrics(registry: Registry, tallies: RequestTallies): void {
  new Counter({
    name: 'collet_http_requests_total',
    help: 'HTTP requests answered, by route, method and status.',
    labelNames: ['route', 'method', 'status'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { route, method, status, count } of tallies.entries())
        this.inc({ route, method, status }, count)
    },
  })
}

function addCallMetrics(registry: Registry, tallies: CallTallies, readRunning: () => number): void {
  new DurationHistogram(tallies, registry)
  new Gauge({
    name: 'collet_calls_running',
    help: 'Calls being answered now.',
    registers: [registry],
    collect() {
      this.set(readRunning())
    },
  })
  new Counter({
    name: 'collet_calls_total',
    help: 'Calls answered, by tool and outcome; replays of a recorded outcome are marked.',
    labelNames: ['tool', 'outcome', 'replayed'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [tool, { answered, replayed }] of tallies.entries()) {
        for (const [outcome, count] of answered) this.inc({ tool, outcome, replayed: 'false' }, count)
        for (const [outcome, count] of replayed) this.inc({ tool, outcome, replayed: 'true' }, count)
      }
    },
  })
}

/** How sources are, asked at each scrape. */
function addSourceMetrics(registry: Registry, read: () => readonly SourceView[]): void {
  const gauge = (name: string, help: string, measure: (source: SourceView) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ['source', 'type'],
      registers: [registry],
      collect() {
        this.reset()
        for (const source of read()) this.set({ source: source.key, type: source.type }, measure(source))
      },
    })
  }
  gauge('collet_source_up', 'Whether a source answers: 1, or 0 while it is down.', ({ state }) =>
    state === 'down' ? 0 : 1,
  )
  gauge('collet_source_tools', 'Tools of a source that agents can see.', ({ tools }) => tools)
  gauge('collet_source_waiting', 'Changed definitions that wait for an operator.', ({ waiting }) => waiting)
}

interface RequestTally {
  readonly route: string
  readonly method: string
  readonly status: number
  count: number
}

/** Counts of answered requests in plain numbers, for the reason given at `CallTallies`. */
class RequestTallies {
  readonly #byRoute = new Map<string, Map<string, Map<number, RequestTally>>>()
  readonly #all: RequestTally[] = []

  add(route: string, method: string, status: number): void {
    const known = this.#byRoute.get(route)?.get(method)?.get(status)
    if (known === undefined) this.#open(route, method, status)
    else known.count += 1
  }

  entries(): readonly Readonly<RequestTally>[] {
    return this.#all
  }

  #open(route: string, method: string, status: number): void {
    const tally = { route, method, status, count: 1 }
    this.#all.push(tally)
    const byMethod = this.#byRoute.get(route) ?? new Map<string, Map<number, RequestTally>>()
    const byStatus = byMethod.get(method) ?? new Map<number, RequestTally>()
    this.#byRoute.set(route, byMethod.set(method, byStatus.set(status, tally)))
  }
}

const NAME = 'collet_call_duration_seconds'
const HELP = 'Time from taking a call to its outcome, its commit included; replays are left out.'

interface Sample {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly sharedLabels: Readonly<Record<string, string>>
  readonly value: number
}

/** Durations by tool, rendered from tallies instead of collected by the library. */
class DurationHistogram extends Histogram {
  readonly #tallies: CallTallies

  constructor(tallies: CallTallies, registry: Registry) {
    super({ name: NAME, help: HELP, registers: [registry] })
    this.#tallies = tallies
  }

  /** Where the registry, and the inherited `get`, take samples from; the library's types leave it out. */
  async getForPromString(): Promise<object> {
    const values = [...this.#tallies.entries()].flatMap(([tool, tally]) => this.#samplesOf(tool, tally))
    return { name: NAME, help: HELP, type: 'histogram', aggregator: 'sum', values }
  }

  #samplesOf(tool: string, tally: Readonly<ToolTally>): readonly Sample[] {
    const { buckets, count, sumSeconds } = tally
    const sharedLabels = { tool }
    let below = 0
    const cumulative = this.#tallies.bounds.map((le, index) => {
      below += buckets[index] ?? 0
      return { metricName: `${NAME}_bucket`, labels: { le }, sharedLabels, value: below }
    })
    return [
      ...cumulative,
      { metricName: `${NAME}_bucket`, labels: { le: '+Inf' }, sharedLabels, value: count },
      { metricName: `${NAME}_sum`, labels: {}, sharedLabels, value: sumSeconds },
      { metricName: `${NAME}_count`, labels: {}, sharedLabels, value: count },
    ]
  }
}

/** What one tool's calls add up to. */
interface ToolTally {
  /** Calls by outcome: `ok`, or the error code. */
  readonly answered: Map<string, number>
  readonly replayed: Map<string, number>
  /** Runs no slower than the bound of the same index, but slower than the one before. */
  readonly buckets: number[]
  count: number
  sumSeconds: number
}

/**
 * Counts of calls in plain numbers, read when `/metrics` is asked. Through prom-client's own counters the same
 * costs 5 µs of CPU per call, a tenth of the whole request.
 */
class CallTallies {
  readonly bounds: readonly number[]
  readonly #byTool = new Map<string, ToolTally>()

  /** Upper bounds of the duration buckets, in seconds. */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds
  }

  add(tool: string, outcome: string, isReplay: boolean, durationMs: number): void {
    const tally = this.#tallyOf(tool)
    const counts = isReplay ? tally.replayed : tally.answered
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
    if (isReplay) return
    const seconds = durationMs / 1_000
    tally.count += 1
    tally.sumSeconds += seconds
    const index = this.bounds.findIndex((bound) => seconds <= bound)
    if (index !== -1) tally.buckets[index] = (tally.buckets[index] ?? 0) + 1
  }

  entries(): Iterable<readonly [string, Readonly<ToolTally>]> {
    return this.#byTool
  }

  #tallyOf(tool: string): ToolTally {
    const known = this.#byTool.get(tool)
    if (known !== undefined) return known
    const tally = {
      answered: new Map(),
      replayed: new Map(),
      buckets: this.bounds.map(() => 0),
      count: 0,
      sumSeconds: 0,
    }
    this.#byTool.set(tool, tally)
    return tally
  }
}

const NOBODY: Authenticator = {
  isConfigured: false,
  authenticate: () => ANONYMOUS,
  refresh: () => {},
  close: async () => {},
}

/** `/metrics` on a port of its own, which a firewall or the loopback interface guards instead of a credential. */
export function createMetricsListener(
  port: number,
  settings: Settings['server'],
  world: Pick<HttpAppOptions, 'log' | 'metrics' | 'clock' | 'sharing'>,
  shown: ShownMetrics,
): HttpApp {
  const host = settings.metricsHost ?? '127.0.0.1'
  return createHttpApp({
    ...world,
    authenticator: NOBODY,
    settings: {
      host,
      port,
      publicUrl: undefined,
      bodyLimitBytes: 1_024,
      allowedOrigins: [],
      maxConnections: 100,
    },
    routes: [
      {
        method: 'GET',
        path: '/metrics',
        access: 'open',
        body: 'never',
        handle: () => metricsReply(shown),
        refuse: refuseWithMessage,
      },
    ],
  })
}

/** What a reader of metrics gets: of this process, or of all workers of its server. */
export type ShownMetrics = Pick<Metrics, 'render'>

interface MetricsRouteOptions {
  readonly metrics: ShownMetrics
  readonly authenticator: Authenticator
  /** Whether the server is bound to loopback only. */
  readonly isLoopback: boolean
  readonly noteDenial?: NoteDenial
}

const SCOPE = 'metrics:read'

/** `GET /metrics`: open on loopback while no credential is configured, otherwise for the scope `metrics:read`. */
export function createMetricsRoute(options: MetricsRouteOptions): ServerRoute {
  const { metrics, authenticator, noteDenial } = options
  const isOpen = (): boolean => !authenticator.isConfigured && options.isLoopback
  return {
    method: 'GET',
    path: '/metrics',
    access: 'authenticated',
    body: 'never',
    handle({ principal }) {
      if (isOpen() || coversScope(principal.scopes, SCOPE)) return metricsReply(metrics)
      noteDenial?.(principal, { action: 'metrics', resource: SCOPE, reason: 'scope' })
      throw fault('not_authorized', `Metrics need a credential with the scope ${SCOPE}.`)
    },
    refuse: refuseWithMessage,
  }
}

async function metricsReply(metrics: ShownMetrics): Promise<HttpReply> {
  const { contentType, text } = await metrics.render()
  return {
    status: 200,
    headers: { 'content-type': contentType, 'cache-control': 'no-store' },
    body: text,
  }
}
