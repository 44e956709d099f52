import type { SourceView } from '#sources/kit/sources'
import { histogramSamples, type Metric, type Rendered, renderMetrics } from './exposition.ts'
import type { Tallies } from './metrics.ts'
import { processMetrics } from './process-metrics.ts'

/** Puts tallies in the words of Prometheus, with what Node tells of the process. */
export function openRegistry(tallies: Tallies): () => Promise<Rendered> {
  const ofProcess = processMetrics()
  return async () => {
    const metrics = [
      ...(await ofProcess()),
      ...callMetrics(tallies),
      ...serverMetrics(tallies),
      ...commitMetrics(tallies),
      ...sourceMetrics(tallies),
      ...certificateMetrics(tallies),
    ]
    return renderMetrics(metrics)
  }
}

function callMetrics({ calls, running, cut, isReady }: Tallies): readonly Metric[] {
  return [
    {
      name: 'collet_ready',
      help: 'Whether new calls are taken: 1, or 0 while the store is out of reach or the server stops.',
      type: 'gauge',
      samples: [{ value: isReady() ? 1 : 0 }],
    },
    {
      name: 'collet_calls_ambiguous_total',
      help: 'Calls that a dead server left running, found by this one: nobody knows whether they took effect.',
      type: 'counter',
      samples: [{ value: cut() }],
    },
    {
      name: 'collet_call_duration_seconds',
      help: 'Time from taking a call to its outcome, its commit included; replays are left out.',
      type: 'histogram',
      samples: [...calls.values()].flatMap(({ labels, seconds }) => histogramSamples(labels, seconds)),
    },
    {
      name: 'collet_calls_running',
      help: 'Calls being answered now.',
      type: 'gauge',
      samples: [{ value: running() }],
    },
    {
      name: 'collet_calls_total',
      help: 'Calls answered, by tool and outcome; replays of a recorded outcome are marked.',
      type: 'counter',
      samples: [...calls.values()].flatMap(({ labels, answered, replayed }) => [
        ...[...answered].map(([outcome, value]) => ({
          labels: { ...labels, outcome, replayed: 'false' },
          value,
        })),
        ...[...replayed].map(([outcome, value]) => ({
          labels: { ...labels, outcome, replayed: 'true' },
          value,
        })),
      ]),
    },
  ]
}

function serverMetrics({ refused, requests }: Tallies): readonly Metric[] {
  return [
    {
      name: 'collet_limit_refusals_total',
      help: 'Calls and requests refused by a limit, by the limit.',
      type: 'counter',
      samples: [...refused].map(([limit, value]) => ({ labels: { limit }, value })),
    },
    {
      name: 'collet_http_requests_total',
      help: 'HTTP requests answered, by route, method and status.',
      type: 'counter',
      samples: requests().map(({ route, method, status, count }) => ({
        labels: { route, method, status },
        value: count,
      })),
    },
  ]
}

function commitMetrics({ commitRows, commitSeconds }: Tallies): readonly Metric[] {
  return [
    {
      name: 'collet_store_commit_rows',
      help: 'Rows per commit group.',
      type: 'histogram',
      samples: histogramSamples({}, commitRows),
    },
    {
      name: 'collet_store_commit_duration_seconds',
      help: 'Time one commit group took to become durable.',
      type: 'histogram',
      samples: histogramSamples({}, commitSeconds),
    },
  ]
}

/** How sources are, asked at each scrape. */
function sourceMetrics({ sources }: Tallies): readonly Metric[] {
  const gauge = (name: string, help: string, measure: (source: SourceView) => number): Metric => ({
    ...{ name, help, type: 'gauge' },
    samples: sources().map((source) => ({
      labels: { source: source.key, type: source.type },
      value: measure(source),
    })),
  })
  return [
    gauge('collet_source_up', 'Whether a source answers: 1, or 0 while it is down.', ({ state }) =>
      state === 'down' ? 0 : 1,
    ),
    gauge('collet_source_tools', 'Tools of a source that agents can see.', ({ tools }) => tools),
    gauge(
      'collet_source_waiting',
      'Changed definitions that wait for an operator.',
      ({ waiting }) => waiting,
    ),
  ]
}

/** A server without a certificate has no such metric: 0 would be one that ended long ago. */
function certificateMetrics({ certificateEndsAtMs }: Tallies): readonly Metric[] {
  const endsAtMs = certificateEndsAtMs()
  if (endsAtMs === undefined) return []
  return [
    {
      name: 'collet_tls_certificate_expiry_timestamp_seconds',
      help: 'When the certificate of the server ends, in seconds since 1970.',
      type: 'gauge',
      samples: [{ value: Math.floor(endsAtMs / 1_000) }],
    },
  ]
}
