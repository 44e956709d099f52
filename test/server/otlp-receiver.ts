import { createServer } from 'node:http'

/** A local OTLP/HTTP receiver that keeps spans and metrics. */

export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[]
  readonly attributes: Readonly<Record<string, unknown>>
  readonly status: { readonly code: number }
}

interface DataPoint {
  readonly attributes: readonly { key: string; value: object }[]
  readonly asDouble?: number
  readonly count?: string
  readonly sum?: number
  readonly bucketCounts?: readonly string[]
  readonly explicitBounds?: readonly number[]
}

interface ReceivedMetric {
  readonly name: string
  readonly unit: string
  readonly gauge?: { readonly dataPoints: readonly DataPoint[] }
  readonly sum?: { readonly isMonotonic: boolean; readonly dataPoints: readonly DataPoint[] }
  readonly histogram?: { readonly aggregationTemporality: number; readonly dataPoints: readonly DataPoint[] }
}

export function attributesOf(
  attributes: readonly { readonly key: string; readonly value: object }[],
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}

export async function startOtlpReceiver() {
  const spans: ReceivedSpan[] = []
  const resources: Readonly<Record<string, unknown>>[] = []
  const headers: unknown[] = []
  /** The last export of metrics. */
  let metrics: readonly ReceivedMetric[] = []
  let exports = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = JSON.parse(Buffer.concat(chunks).toString())
    headers.push(request.headers['x-collector'])
    for (const { resource, scopeSpans } of body.resourceSpans ?? []) {
      resources.push(attributesOf(resource.attributes))
      for (const span of scopeSpans[0].spans)
        spans.push({ ...span, attributes: attributesOf(span.attributes) })
    }
    for (const { resource, scopeMetrics } of body.resourceMetrics ?? []) {
      resources.push(attributesOf(resource.attributes))
      metrics = scopeMetrics[0].metrics
      exports += 1
    }
    response.writeHead(200).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    endpoint: `http://127.0.0.1:${port}`,
    spans,
    resources,
    headers,
    metrics: (): ReadonlyMap<string, ReceivedMetric> => new Map(metrics.map((each) => [each.name, each])),
    exports: () => exports,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
