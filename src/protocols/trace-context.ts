import { randomFillSync } from 'node:crypto'

/**
 * W3C trace context: reads and writes `traceparent`, `tracestate` and `baggage`. The HTTP server opens a trace for each request,
 * MCP continues the trace that a message names in `_meta`, and telemetry records spans. Invariant: a caller's `tracestate` and
 * `baggage` reach an upstream only as short printable ASCII, which every header can carry.
 */

/** The position of one request in a trace: its own span, and its caller's span if the request names one. */
export interface TraceContext {
  /** Changes, together with `parentSpanId` and `isSampled`, if a message inside the request names a trace. */
  traceId: string
  readonly spanId: string
  parentSpanId: string | undefined
  isSampled: boolean
  /** The span that the transport named, if the message named another one. */
  link?: SpanReference
}

interface SpanReference {
  readonly traceId: string
  readonly spanId: string
}

export type TraceExtras = Readonly<Record<string, string>>

/** Members of a message, or headers, that may name a trace. Their values are unchecked. */
export interface NamedTrace {
  readonly traceparent?: unknown
  readonly tracestate?: unknown
  readonly baggage?: unknown
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const TRACE_DIGITS = 32
const SPAN_DIGITS = 16
const NO_TRACE = '0'.repeat(TRACE_DIGITS)
const NO_SPAN = '0'.repeat(SPAN_DIGITS)
const TRACE_ID = /^[0-9a-f]{32}$/

/** Continues a valid `traceparent`, and starts a trace for an absent or invalid one, as W3C requires. */
export function openTrace(traceparent: unknown, samplesNewTraces: boolean): TraceContext {
  const parent = parseTraceparent(traceparent)
  return {
    traceId: parent?.traceId ?? randomHex(TRACE_DIGITS),
    spanId: randomHex(SPAN_DIGITS),
    parentSpanId: parent?.spanId,
    isSampled: parent?.isSampled ?? samplesNewTraces,
  }
}

/**
 * Moves a span into the trace that a message names, which is closer to the caller than that of the transport. The parent that the
 * transport named becomes a link. Returns false if the message names no valid trace.
 */
export function continueTrace(trace: TraceContext, { traceparent }: NamedTrace): boolean {
  const parent = parseTraceparent(traceparent)
  if (parent === undefined) return false
  if (trace.parentSpanId !== undefined && trace.parentSpanId !== parent.spanId)
    trace.link = { traceId: trace.traceId, spanId: trace.parentSpanId }
  trace.traceId = parent.traceId
  trace.parentSpanId = parent.spanId
  trace.isSampled = parent.isSampled
  return true
}

export function formatTraceparent(trace: Pick<TraceContext, 'traceId' | 'spanId' | 'isSampled'>): string {
  return `00-${trace.traceId}-${trace.spanId}-${trace.isSampled ? '01' : '00'}`
}

export function isTraceId(text: string): boolean {
  return TRACE_ID.test(text) && text !== NO_TRACE
}

/** The lengths that the W3C specifications require every participant to forward. */
const MAX_EXTRA_LENGTHS = { tracestate: 512, baggage: 8_192 } as const
const EXTRAS = ['tracestate', 'baggage'] as const
const PRINTABLE = /^[\x20-\x7e]+$/

/** Reads `baggage`, and `tracestate` if the trace is the caller's; a value that is too long or not printable is dropped. */
export function readTraceExtras(
  named: NamedTrace,
  { parentSpanId }: Pick<TraceContext, 'parentSpanId'>,
): TraceExtras | undefined {
  if (named.tracestate === undefined && named.baggage === undefined) return undefined
  const extras: Record<string, string> = {}
  for (const name of parentSpanId === undefined ? EXTRAS.slice(1) : EXTRAS) {
    const text = named[name]
    if (typeof text === 'string' && text.length <= MAX_EXTRA_LENGTHS[name] && PRINTABLE.test(text))
      extras[name] = text
  }
  return extras
}

export function parseTraceparent(
  text: unknown,
): (SpanReference & { readonly isSampled: boolean }) | undefined {
  const match = typeof text === 'string' ? TRACEPARENT.exec(text) : null
  if (match === null) return undefined
  const [, version = '', traceId = '', spanId = '', flags = '', rest] = match
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined
  if (traceId === NO_TRACE || spanId === NO_SPAN) return undefined
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

const randomPool = Buffer.alloc(4_096)
let pool = ''
let used = 0

/** Takes digits from a pool, because calling the random source for each request is measurably slower. */
function randomHex(digits: number): string {
  if (used + digits > pool.length) {
    pool = randomFillSync(randomPool).toString('hex')
    used = 0
  }
  used += digits
  return pool.slice(used - digits, used)
}
