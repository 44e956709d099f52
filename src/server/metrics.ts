import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

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
  /** One commit group of the store became durable. */
  groupCommitted(rows: number, durationMs: number): void
  render(): Promise<{ readonly contentType: string; readonly text: string }>
}

const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const COMMIT_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5]
const COMMIT_ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]

/** Each update costs about a quarter of a microsecond, so the hot path uses the library as it is. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  const calls = new Counter({
    name: 'collet_calls_total',
    help: 'Calls answered, by tool and outcome; replays of a recorded outcome are marked.',
    labelNames: ['tool', 'outcome', 'replayed'],
    registers,
  })
  const callSeconds = new Histogram({
    name: 'collet_call_duration_seconds',
    help: 'Time from taking a call to its outcome, waiting for its commit included; replays left out.',
    labelNames: ['tool'],
    buckets: CALL_SECONDS,
    registers,
  })
  const running = new Gauge({ name: 'collet_calls_running', help: 'Calls being answered now.', registers })
  const requests = new Counter({
    name: 'collet_http_requests_total',
    help: 'HTTP requests answered, by route, method and status.',
    labelNames: ['route', 'method', 'status'],
    registers,
  })
  const commitRows = new Histogram({
    name: 'collet_store_commit_rows',
    help: 'Rows per commit group.',
    buckets: COMMIT_ROWS,
    registers,
  })
  const commitSeconds = new Histogram({
    name: 'collet_store_commit_duration_seconds',
    help: 'Time one commit group took to become durable.',
    buckets: COMMIT_SECONDS,
    registers,
  })
  return {
    callStarted: () => running.inc(),
    callLeft: () => running.dec(),
    callEnded({ tool, outcome, durationMs, isReplay }) {
      calls.inc({ tool, outcome, replayed: isReplay ? 'true' : 'false' })
      if (!isReplay) callSeconds.observe({ tool }, durationMs / 1_000)
    },
    requestAnswered: (route, method, status) => requests.inc({ route, method, status }),
    groupCommitted(rows, durationMs) {
      commitRows.observe(rows)
      commitSeconds.observe(durationMs / 1_000)
    },
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  }
}
