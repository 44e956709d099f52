import { randomFillSync } from 'node:crypto'
import type { Logger } from '#kernel/base/logger'
import { VERSION } from '#server/version'

/** One request's place in a W3C trace: its own span, and the caller's when it named one. */
export interface TraceContext {
  /** Another one once a caller named its own inside the request. */
  traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly isSampled: boolean
}

const TRACE_ID = /^[0-9a-f]{32}$/
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const TRACE_DIGITS = 32
const SPAN_DIGITS = 16
const NO_TRACE = '0'.repeat(TRACE_DIGITS)
const NO_SPAN = '0'.repeat(SPAN_DIGITS)

/** Goes on with a valid `traceparent`, and starts a trace for an absent or invalid one, as W3C asks. */
export function openTrace(traceparent: string | undefined, samplesNewTraces: boolean): TraceContext {
  const parent = traceparent === undefined ? undefined : parseTraceparent(traceparent)
  return {
    traceId: parent?.traceId ?? randomHex(TRACE_DIGITS),
    spanId: randomHex(SPAN_DIGITS),
    parentSpanId: parent?.parentSpanId,
    isSampled: parent?.isSampled ?? samplesNewTraces,
  }
}

/** Goes on with the trace that a call names in its body; what a `traceparent` header said before counts more. */
export function adoptTrace(trace: TraceContext, traceId: string): void {
  if (trace.parentSpanId === undefined && TRACE_ID.test(traceId) && traceId !== NO_TRACE)
    trace.traceId = traceId
}

export function formatTraceparent(trace: TraceContext): string {
  return `00-${trace.traceId}-${trace.spanId}-${trace.isSampled ? '01' : '00'}`
}

function parseTraceparent(text: string): Omit<TraceContext, 'spanId'> | undefined {
  const match = TRACEPARENT.exec(text)
  if (match === null) return undefined
  const [, version = '', traceId = '', parentSpanId = '', flags = '', rest] = match
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined
  if (traceId === NO_TRACE || parentSpanId === NO_SPAN) return undefined
  return { traceId, parentSpanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

const bytes = Buffer.alloc(4_096)
let pool = ''
let used = 0

/** Cut from a pool, because one call into the random source per request shows in a profile. */
function randomHex(digits: number): string {
  if (used + digits > pool.length) {
    pool = randomFillSync(bytes).toString('hex')
    used = 0
  }
  used += digits
  return pool.slice(used - digits, used)
}

export interface SpanExporter {
  /** Queues a span; drops it when the collector cannot keep up. Never throws, never waits. */
  export(span: Span): void
  /** Sends what is queued, within the time limit of one request. */
  close(): Promise<void>
}

interface SpanExporterOptions {
  /** Base URL of an OTLP/HTTP collector, such as `http://127.0.0.1:4318`. */
  readonly endpoint: string
  readonly log: Logger
  /** Tells this process from the other replicas. */
  readonly instanceId: string
  readonly fetch?: typeof fetch
  readonly flushEveryMs?: number
}

const MAX_QUEUED = 4_096
const MAX_PER_REQUEST = 512
const FLUSH_EVERY_MS = 1_000
const REQUEST_TIMEOUT_MS = 5_000

/** Sends spans in batches, one request at a time: a slow collector costs spans, never calls. */
export function createSpanExporter(options: SpanExporterOptions): SpanExporter {
  const { log, instanceId } = options
  const send = options.fetch ?? fetch
  const url = `${options.endpoint.replace(/\/+$/, '')}/v1/traces`
  let queue: Span[] = []
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
      if (!isFailing) log.warn({ err, url }, 'traces cannot be exported; spans are dropped until they can')
      isFailing = true
    }
  }

  const flush = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.slice(0, MAX_PER_REQUEST)
      queue = queue.slice(MAX_PER_REQUEST)
      await post(batch)
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

/** What a request's log line and span say about the call inside it. Call ids and run ids are callers' texts, which only spans have. */
export interface ObservedCall {
  readonly tool: string
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly isReplay: boolean
  readonly record: string
  readonly callId: string
  readonly runId: string | undefined
  /** The caller's own trace id, when it differs from the request's. */
  readonly callerTraceId: string | undefined
  readonly tenant: string
  /** Opaque, as in the audit stream: a subject may be a mail address. */
  readonly principal: string
}

/** Under the names that OpenTelemetry has for tool calls of agents, and our own. */
export function callAttributes(call: ObservedCall): Span['attributes'] {
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

/** One served call. Attributes say what ran and how it ended, never with what. */
interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
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

function toOtlpSpan(span: Span): object {
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    ...(span.parentSpanId === undefined ? {} : { parentSpanId: span.parentSpanId }),
    name: span.name,
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
