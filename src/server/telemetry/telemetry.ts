/**
 * Opens the exporters that send the telemetry of a process to an OTLP collector: spans, metrics and the log of MCP operations.
 * `collet serve` and `collet mcp` open it before their services, because sources report to it from the start.
 * Invariant: without an endpoint nothing is loaded, measured or sent.
 */

import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import type { ServerPart } from '#server/part'
import type { Store } from '#store/collet-store'
import type { Metrics } from './metrics.ts'
import type { MetricsExporter } from './metrics-export.ts'
import type { Operations } from './operations.ts'
import type { OtlpTarget } from './otlp.ts'
import type { SpanExporter } from './tracing.ts'

export interface Telemetry extends ServerPart {
  /** Absent if traces are not exported. */
  readonly spans?: SpanExporter | undefined
  /** Absent if nothing is exported. */
  readonly operations?: Operations | undefined
  /** Names the process and its principals once the store is open. */
  attach(store: Pick<Store, 'digest' | 'writer'>): void
}

interface TelemetryOptions {
  readonly clock: Clock
  readonly log: Logger
  /** Absent for a process without metrics of its own. */
  readonly metrics?: Metrics
}

const NOTHING: Telemetry = { attach: () => undefined }
const METRICS_EVERY_MS = 60_000

export async function openTelemetry(
  { otlpEndpoint, otlp = {} }: Pick<Settings, 'otlpEndpoint' | 'otlp'>,
  { clock, log, metrics }: TelemetryOptions,
): Promise<Telemetry> {
  const urlOf = (signal: 'traces' | 'metrics'): string | undefined => {
    const own = otlp[signal]
    if (own === false) return undefined
    return (
      own ?? (otlpEndpoint === undefined ? undefined : `${otlpEndpoint.replace(/\/+$/, '')}/v1/${signal}`)
    )
  }
  const [tracesUrl, metricsUrl] = [urlOf('traces'), urlOf('metrics')]
  if (tracesUrl === undefined && metricsUrl === undefined) return NOTHING
  const [{ createSpanExporter }, { createOperations }, { createMetricsExporter }] = await Promise.all([
    import('./tracing.ts'),
    import('./operations.ts'),
    import('./metrics-export.ts'),
  ])
  // The store names the process once it is open.
  let instanceId: string = crypto.randomUUID()
  const resource = {
    get instanceId() {
      return instanceId
    },
    attributes: otlp.resource,
  }
  let store: Pick<Store, 'digest'> | undefined
  const targetOf = (url: string): OtlpTarget => ({ url, headers: otlp.headers, resource, log })
  const spans = tracesUrl === undefined ? undefined : createSpanExporter(targetOf(tracesUrl))
  const operations = createOperations({ clock, spans, store: () => store })
  let exporter: MetricsExporter | undefined
  if (metricsUrl !== undefined) {
    const collectOwn = await metrics?.openCollector()
    exporter = createMetricsExporter(targetOf(metricsUrl), {
      ...{ clock, intervalMs: otlp.metricsIntervalMs ?? METRICS_EVERY_MS },
      collect: async () => [...((await collectOwn?.()) ?? []), ...operations.durations()],
    })
  }
  return {
    spans,
    operations,
    attach(opened) {
      store = opened
      instanceId = opened.writer
    },
    async close() {
      await Promise.all([spans?.close(), exporter?.close()])
    },
  }
}
