/**
 * Records MCP operations by the semantic conventions of OpenTelemetry: a SERVER span and a duration for each request of a client,
 * a CLIENT span and a duration for each request to a server. `telemetry.ts` opens it; protocols and sources report to it.
 * Invariant: the number of series is bounded, regardless of the number of tools and methods.
 */

import type { Clock } from '#kernel/base/clock'
import { opaquePrincipal } from '#kernel/base/principal'
import type { OperationAttributes, OperationLog } from '#protocols/protocol'
import { formatTraceparent, openTrace } from '#protocols/trace-context'
import { requestScope } from '#server/http/exchange'
import type { RequestTelemetry } from '#sources/kit/source'
import type { Store } from '#store/collet-store'
import { Distribution } from './metrics.ts'
import type { Metric } from './prometheus.ts'
import { callAttributes, type RequestScope, type SpanExporter } from './tracing.ts'

interface OperationOptions {
  readonly clock: Clock
  /** Absent if only metrics are exported. */
  readonly spans: SpanExporter | undefined
  /** Makes the opaque id of a principal; absent until the store is open. */
  store(): Pick<Store, 'digest'> | undefined
}

export interface Operations extends OperationLog, RequestTelemetry {
  /** The durations since the start. */
  durations(): readonly Metric[]
}

export function createOperations({ clock, spans, store }: OperationOptions): Operations {
  const served = new Durations('mcp.server.operation.duration', 'Duration of requests of MCP clients.')
  const sent = new Durations('mcp.client.operation.duration', 'Duration of requests to MCP servers.')
  return {
    durations: () => [served.metric(), sent.metric()],
    async serve(operation, run, endOf) {
      const { name, trace, principal } = operation
      const startedMs = clock.monotonicMs()
      const entered = requestScope.getStore()
      const scope: RequestScope = entered ?? { trace, startedMs, call: undefined }
      scope.hasOperation = true
      const answer = await (entered === undefined ? requestScope.run(scope, run) : run())
      const durationMs = clock.monotonicMs() - startedMs
      const { errorType, target, attributes, details } = endOf(answer)
      const measured = { ...operation.attributes, ...attributes, ...errorOf(errorType) }
      served.add(measured, durationMs)
      if (spans === undefined || !trace.isSampled) return answer
      const { call } = scope
      const opened = store()
      spans.export({
        ...trace,
        name: target === undefined ? name : `${name} ${target}`,
        kind: 'server',
        startedAtMs: clock.nowMs() - durationMs,
        durationMs,
        hasFailed: errorType !== undefined,
        attributes: {
          'collet.tenant': principal.tenant,
          ...(opened === undefined ? {} : { 'collet.principal': opaquePrincipal(opened, principal) }),
          ...(call === undefined ? {} : callAttributes(call)),
          ...operation.details,
          ...details,
          ...measured,
        },
      })
      return answer
    },
    start({ name, target, parent, attributes, details }) {
      const startedMs = clock.monotonicMs()
      const trace = parent === undefined ? undefined : openTrace(parent, false)
      return {
        traceparent: trace === undefined ? undefined : formatTraceparent(trace),
        end(errorType) {
          const durationMs = clock.monotonicMs() - startedMs
          const measured = { ...attributes, ...errorOf(errorType) }
          sent.add(measured, durationMs)
          if (spans === undefined || trace?.isSampled !== true) return
          spans.export({
            ...trace,
            name: target === undefined ? name : `${name} ${target}`,
            kind: 'client',
            startedAtMs: clock.nowMs() - durationMs,
            durationMs,
            hasFailed: errorType !== undefined,
            attributes: { ...details, ...measured },
          })
        },
      }
    },
  }
}

function errorOf(errorType: string | undefined): OperationAttributes {
  return errorType === undefined ? {} : { 'error.type': errorType }
}

/** Bucket bounds that the conventions specify for both durations. */
const BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
/** Maximum number of combinations of attributes; further combinations are counted without the name of their tool or prompt. */
const MAX_SERIES = 5_000

class Durations {
  readonly #name: string
  readonly #help: string
  readonly #series = new Map<
    string,
    { readonly labels: OperationAttributes; readonly distribution: Distribution }
  >()

  constructor(name: string, help: string) {
    this.#name = name
    this.#help = help
  }

  add(attributes: OperationAttributes, durationMs: number): void {
    const key = JSON.stringify(attributes)
    const known = this.#series.get(key) ?? this.#open(key, attributes)
    known.distribution.add(durationMs / 1_000)
  }

  metric(): Metric {
    return { name: this.#name, help: this.#help, type: 'histogram', series: [...this.#series.values()] }
  }

  #open(key: string, attributes: OperationAttributes) {
    const { 'gen_ai.tool.name': _tool, 'gen_ai.prompt.name': _prompt, ...rest } = attributes
    const isFull = this.#series.size >= MAX_SERIES
    const shortKey = isFull ? JSON.stringify(rest) : key
    const opened = this.#series.get(shortKey) ?? {
      labels: isFull ? rest : attributes,
      distribution: new Distribution(BOUNDS),
    }
    this.#series.set(shortKey, opened)
    return opened
  }
}
