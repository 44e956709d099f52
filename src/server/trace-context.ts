import { randomFillSync } from 'node:crypto'

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
