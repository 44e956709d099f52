/** One served call. Attributes say what ran and how it ended, never with what. */
export interface Span {
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
export function toOtlp(spans: readonly Span[]): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: [toAttribute(['service.name', 'collet'])] },
        scopeSpans: [{ scope: { name: 'collet' }, spans: spans.map(toOtlpSpan) }],
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
      return { key, value: { doubleValue: value } }
  }
}

/** Nanoseconds do not fit a double, microseconds do. */
function toNanoseconds(ms: number): string {
  return `${Math.round(ms * 1_000)}000`
}
