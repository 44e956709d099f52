/**
 * Reports requests: one log line for each, and one OpenTelemetry span for each call, sent to an OTLP collector. Runs only if
 * requests are logged or spans are exported. Invariant: neither has inputs, outputs or credentials, and a slow collector costs
 * spans, never calls.
 */

import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import { VERSION } from '#server/version'
import type { ServerLog } from './log.ts'

/** The position of one request in a W3C trace: its own span, and the span of its caller if the request names one. */
export interface TraceContext {
  /** Changes if the call inside the request names a trace. */
  traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly isSampled: boolean
}

export interface RequestScope {
  readonly trace: Readonly<TraceContext>
  readonly startedMs: number
  call: ObservedCall | undefined
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
  if (spans === undefined || !trace.isSampled || call === undefined) return
  spans.export({
    ...trace,
    name: `execute_tool ${call.tool}`,
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
const REQUEST_TIMEOUT_MS = 5_000

/** Sends spans in batches, one request at a time. */
export function createSpanExporter(options: {
  /** Base URL of an OTLP/HTTP collector, for example `http://127.0.0.1:4318`. */
  readonly endpoint: string
  readonly log: Logger
  /** Id of this process among the replicas. */
  readonly instanceId: string
  readonly fetch?: typeof fetch
  readonly flushEveryMs?: number
}): SpanExporter {
  const { log, instanceId } = options
  const send = options.fetch ?? fetch
  const url = `${options.endpoint.replace(/\/+$/, '')}/v1/traces`
  const queue: Span[] = []
  let dropped = 0
  let isFailing = false
  let sending: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  const post = async (batch: readonly Span[]): Promise<void> => {
    try {
      const response = await send(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(toOtlp(batch, instanceId)),
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      })
      await response.body?.cancel()
      if (!response.ok) throw new Error(`The trace collector answered ${response.status}.`)
      if (isFailing) log.info({ dropped }, 'traces are exported again')
      isFailing = false
      dropped = 0
    } catch (err) {
      dropped += batch.length
      if (!isFailing)
        log.warn({ err, url }, 'traces cannot be exported; spans are dropped until the collector answers')
      isFailing = true
    }
  }

  const flush = async (): Promise<void> => {
    while (queue.length > 0) {
      await post(queue.splice(0, MAX_PER_REQUEST))
      if (isFailing) return
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
    timer ??= setTimeout(startFlush, options.flushEveryMs ?? FLUSH_EVERY_MS).unref()
  }

  return {
    export(span) {
      if (queue.length >= MAX_QUEUED) {
        dropped += 1
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
  /** An opaque id, as in the audit stream, because a subject may be a mail address. */
  readonly principal: string
}

/** Attributes under the names of OpenTelemetry for tool calls, and under our own. */
function callAttributes(call: ObservedCall): Span['attributes'] {
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

/** One served call. Attributes name the tool and the outcome, never contents. */
interface Span extends Readonly<Omit<TraceContext, 'isSampled'>> {
  readonly name: string
  readonly startedAtMs: number
  readonly durationMs: number
  readonly hasFailed: boolean
  readonly attributes: Readonly<Record<string, string | number | boolean>>
}

const SERVER_KIND = 2
const STATUS_UNSET = 0
const STATUS_ERROR = 2

/** The JSON encoding of an OTLP `ExportTraceServiceRequest`. */
function toOtlp(spans: readonly Span[], instanceId: string): object {
  const service = { 'service.name': 'collet', 'service.version': VERSION, 'service.instance.id': instanceId }
  return {
    resourceSpans: [
      {
        resource: { attributes: Object.entries(service).map(toAttribute) },
        scopeSpans: [{ scope: { name: 'collet', version: VERSION }, spans: spans.map(toOtlpSpan) }],
      },
    ],
  }
}

/** An absent parent is `undefined`, which JSON leaves out. */
function toOtlpSpan({ traceId, spanId, parentSpanId, name, ...span }: Span): object {
  return {
    traceId,
    spanId,
    parentSpanId,
    name,
    kind: SERVER_KIND,
    startTimeUnixNano: toNanoseconds(span.startedAtMs),
    endTimeUnixNano: toNanoseconds(span.startedAtMs + span.durationMs),
    attributes: Object.entries(span.attributes).map(toAttribute),
    status: { code: span.hasFailed ? STATUS_ERROR : STATUS_UNSET },
  }
}

function toAttribute([key, value]: readonly [string, string | number | boolean]): object {
  switch (typeof value) {
    case 'string':
      return { key, value: { stringValue: value } }
    case 'boolean':
      return { key, value: { boolValue: value } }
    case 'number':
      // OTLP writes 64-bit integers as text in JSON.
      return { key, value: Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value } }
  }
}

/** Nanoseconds do not fit a double, microseconds do. */
function toNanoseconds(ms: number): string {
  return `${Math.round(ms * 1_000)}000`
}
