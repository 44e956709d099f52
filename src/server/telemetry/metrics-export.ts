/**
 * Exports metrics over OTLP at an interval, and once more when the server stops: those of `/metrics` under the same names, and the
 * durations of MCP operations. `telemetry.ts` opens it if an endpoint is configured.
 * Invariant: at most one request is under way, and nothing is queued: values are cumulative, so the next request includes
 * the values of a lost request.
 */

import type { Clock } from '#kernel/base/clock'
import {
  encodeAttributes,
  encodeResource,
  OTLP_SCOPE,
  OtlpSender,
  type OtlpTarget,
  toNanoseconds,
} from './otlp.ts'
import type { CollectMetrics, Metric } from './prometheus.ts'

export interface MetricsExporter {
  /** Sends the metrics a last time, within the time limit of one request. */
  close(): Promise<void>
}

export function createMetricsExporter(
  target: OtlpTarget,
  options: { readonly intervalMs: number; readonly clock: Clock; readonly collect: CollectMetrics },
): MetricsExporter {
  const { clock, collect, intervalMs } = options
  const sender = new OtlpSender(target, 'metrics')
  const startedAtMs = clock.nowMs()
  let sending: Promise<void> | undefined
  const send = async (): Promise<void> => {
    const metrics = await collect()
    const times = {
      startTimeUnixNano: toNanoseconds(startedAtMs),
      timeUnixNano: toNanoseconds(clock.nowMs()),
    }
    const encoded = metrics.map((metric) => encodeMetric(metric, times))
    const scopeMetrics = [{ scope: OTLP_SCOPE, metrics: encoded }]
    const resource = encodeResource(target.resource)
    await sender.send({ resourceMetrics: [{ resource, scopeMetrics }] }, metrics.length)
  }
  const sendOnce = (): Promise<void> => {
    sending ??= send()
      .catch((err: unknown) => target.log.warn({ err }, 'metrics cannot be collected for export'))
      .finally(() => {
        sending = undefined
      })
    return sending
  }
  const timer = setInterval(sendOnce, intervalMs).unref()
  return {
    async close() {
      clearInterval(timer)
      await sending
      // A collector that has just failed would only delay the stop.
      if (!sender.isFailing) await sendOnce()
    },
  }
}

interface Times {
  readonly startTimeUnixNano: string
  readonly timeUnixNano: string
}

const CUMULATIVE = 2

/** The JSON encoding of one OTLP `Metric`. */
function encodeMetric(metric: Metric, times: Times): object {
  const { name, help: description } = metric
  const unit = unitOf(name)
  if (metric.type === 'histogram') {
    const dataPoints = metric.series.map(({ labels, distribution: { bounds, buckets, count, sum } }) => ({
      ...times,
      attributes: encodeAttributes(labels),
      count: String(count),
      sum,
      bucketCounts: [...buckets, count - buckets.reduce((total, value) => total + value, 0)].map(String),
      explicitBounds: bounds,
    }))
    return { name, description, unit, histogram: { aggregationTemporality: CUMULATIVE, dataPoints } }
  }
  const dataPoints = metric.samples.map(({ labels = {}, value }) => ({
    ...times,
    attributes: encodeAttributes(labels),
    asDouble: value,
  }))
  if (metric.type === 'gauge') return { name, description, unit, gauge: { dataPoints } }
  return {
    name,
    description,
    unit,
    sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints },
  }
}

/** The unit that the name ends with, in the notation of OTLP. */
function unitOf(name: string): string {
  if (/_bytes(_total)?$/.test(name)) return 'By'
  return /_seconds(_total)?$|\.duration$/.test(name) ? 's' : '1'
}
