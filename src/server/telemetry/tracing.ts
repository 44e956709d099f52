/**
 * Reports requests: one log line for each, and one OpenTelemetry span for each call, sent to an OTLP collector. `exchange.ts` calls it
 * only if requests are logged or spans are exported. Invariant: log lines and spans contain no inputs, outputs or credentials; if the
 * collector is slow, spans are dropped and calls are not delayed.
 */

import type { Clock } from '#kernel/base/clock'
import type { TraceContext } from '#protocols/trace-context'
import type { ServerLog } from './log.ts'
import {
  encodeAttributes,
  encodeResource,
  OTLP_SCOPE,
  type OtlpAttributes,
  type OtlpResource,
  OtlpSender,
  type OtlpTarget,
  toNanoseconds,
} from './otlp.ts'

export interface RequestScope {
  readonly trace: Readonly<TraceContext>
  readonly startedMs: number
  call: ObservedCall | undefined
  /** Set if an MCP operation exports the span, so that the request does not. */
  hasOperation?: boolean
}

/** The services that reports use; not the type of an exchange, because the declarations of this package must not need those of Node. */
interface RequestReports {
  readonly clock: Clock
  readonly log: ServerLog
  readonly spans?: SpanExporter | undefined
}

/** Writes the log line of a request and exports the span of its call. Only spans have call ids and run ids. */
export function reportRequest(
  { clock, log, spans }: RequestReports,
  { method, route, trace }: { readonly method: string; readonly route: string; readonly trace: TraceContext },
  scope: RequestScope,
  status: number,
): void {
  const { call, startedMs } = scope
  const durationMs = clock.monotonicMs() - startedMs
  const { callId: _callId, runId: _runId, tenant: _tenant, principal: _principal, ...logged } = call ?? {}
  log.debug({ method, route, status, durationMs, traceId: trace.traceId, ...logged }, 'request')
  if (spans === undefined || !trace.isSampled || call === undefined || scope.hasOperation === true) return
  spans.export({
    ...trace,
    name: `execute_tool ${call.tool}`,
    kind: 'server',
    startedAtMs: clock.nowMs() - durationMs,
    durationMs,
    hasFailed: call.outcome !== 'ok',
    attributes: {
      ...callAttributes(call),
      'http.request.method': method,
      'http.route': route,
      'http.response.status_code': status,
    },
  })
}

export interface SpanExporter {
  /** Queues a span; drops it if the queue is full. Never throws, never waits. */
  export(span: Span): void
  /** Sends the queued spans, within the time limit of one request. */
  close(): Promise<void>
}

const MAX_QUEUED = 4_096
const MAX_PER_REQUEST = 512
const FLUSH_EVERY_MS = 1_000

/** Sends spans in batches, one request at a time. */
export function createSpanExporter(target: OtlpTarget, flushEveryMs = FLUSH_EVERY_MS): SpanExporter {
  const queue: Span[] = []
  const sender = new OtlpSender(target, 'traces')
  let sending: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  const flush = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.splice(0, MAX_PER_REQUEST)
      await sender.send(encodeSpans(batch, target.resource), batch.length)
      if (sender.isFailing) return
    }
  }

  const startFlush = (): Promise<void> => {
    clearTimeout(timer)
    timer = undefined
    sending ??= flush().finally(() => {
      sending = undefined
      if (queue.length > 0) schedule()
    })
    return sending
  }

  const schedule = (): void => {
    timer ??= setTimeout(startFlush, flushEveryMs).unref()
  }

  return {
    export(span) {
      if (queue.length >= MAX_QUEUED) {
        sender.drop(1)
        return
      }
      queue.push(span)
      if (queue.length >= MAX_PER_REQUEST) void startFlush()
      else schedule()
    },
    async close() {
      await sending
      await startFlush()
      clearTimeout(timer)
    },
  }
}

/** The call inside a request, as its log line and span show it. */
interface ObservedCall {
  readonly tool: string
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly isReplay: boolean
  readonly record: string
  readonly callId: string
  readonly runId: string | undefined
  /** Trace id that the call names, if it differs from that of the request. */
  readonly callerTraceId: string | undefined
  readonly tenant: string
  /** An opaque id, as in the audit stream, because a subject may be an email address. */
  readonly principal: string
}

/** Attributes under the names of OpenTelemetry for tool calls, and under our own. */
export function callAttributes(call: ObservedCall): OtlpAttributes {
  return {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': call.tool.replace(/@.*$/, ''),
    'gen_ai.tool.call.id': call.callId,
    ...(call.outcome === 'ok' ? {} : { 'error.type': call.outcome }),
    'collet.tenant': call.tenant,
    'collet.principal': call.principal,
    'collet.tool': call.tool,
    'collet.outcome': call.outcome,
    'collet.replayed': call.isReplay,
    'collet.call_id': call.callId,
    ...(call.runId === undefined ? {} : { 'collet.run_id': call.runId }),
    ...(call.callerTraceId === undefined ? {} : { 'collet.trace_id': call.callerTraceId }),
  }
}

/** One served call, or one operation. Attributes name the tool and the outcome, never contents. */
interface Span extends Readonly<Omit<TraceContext, 'isSampled'>> {
  readonly name: string
  readonly kind: keyof typeof KINDS
  readonly startedAtMs: number
  readonly durationMs: number
  readonly hasFailed: boolean
  readonly attributes: OtlpAttributes
}

const KINDS = { server: 2, client: 3 } as const
const STATUS_UNSET = 0
const STATUS_ERROR = 2

/** The JSON encoding of an OTLP `ExportTraceServiceRequest`. */
function encodeSpans(spans: readonly Span[], resource: OtlpResource): object {
  const scopeSpans = [{ scope: OTLP_SCOPE, spans: spans.map(encodeSpan) }]
  return { resourceSpans: [{ resource: encodeResource(resource), scopeSpans }] }
}

/** An absent parent is `undefined`, which JSON leaves out. */
function encodeSpan({ traceId, spanId, parentSpanId, link, name, ...span }: Span): object {
  return {
    traceId,
    spanId,
    parentSpanId,
    name,
    kind: KINDS[span.kind],
    startTimeUnixNano: toNanoseconds(span.startedAtMs),
    endTimeUnixNano: toNanoseconds(span.startedAtMs + span.durationMs),
    attributes: encodeAttributes(span.attributes),
    links: link === undefined ? undefined : [link],
    status: { code: span.hasFailed ? STATUS_ERROR : STATUS_UNSET },
  }
}
