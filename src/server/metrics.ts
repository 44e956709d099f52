import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { SourceView } from '#core/imports/sources'
import type { LimitName } from '#core/limits/settings'
import { CallTallies } from './call-tallies.ts'
import { DurationHistogram } from './duration-histogram.ts'
import { RequestTallies } from './request-tallies.ts'
import { addSourceMetrics } from './source-metrics.ts'

export interface EndedCall {
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
