import { createServer } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { Approvals } from '#kernel/approval/approvals'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { parseToolRef } from '#kernel/base/ids'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { CallReply, CallRequest } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import { Catalog, ToolIndex } from '#kernel/tool/catalog'
import { CatalogChanges } from '#kernel/tool/catalog-changes'
import { jsonReply } from '#server/http/exchange'
import { createMetrics, observeCalls } from '#server/telemetry/metrics'
import { createSpanExporter, type SpanExporter } from '#server/telemetry/tracing'
import { VERSION } from '#server/version'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { refuseWithCode, startApp, stopApps, type TestAppOptions } from './start-app.ts'

const closing: (() => unknown)[] = []

afterEach(async () => {
  await stopApps()
  await Promise.all(closing.splice(0).map((close) => close()))
})

interface OtlpSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly { key: string; value: object }[]
  readonly status: { code: number }
}

/** Attribute values by name. */
function attributesOf({ attributes }: Pick<OtlpSpan, 'attributes'>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}

/** A collector that keeps the spans it receives. */
async function startCollector(status = 200) {
  const spans: OtlpSpan[] = []
  const resources: unknown[] = []
  const requests: string[] = []
  const server = createServer(async (request, response) => {
    requests.push(`${request.method} ${request.url} ${request.headers['content-type']}`)
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = JSON.parse(Buffer.concat(chunks).toString())
    spans.push(...body.resourceSpans[0].scopeSpans[0].spans)
    resources.push(attributesOf(body.resourceSpans[0].resource))
    response.writeHead(status).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(
    () => server.closeAllConnections(),
    () => server.close(),
  )
  const address = server.address()
  const port = address === null || typeof address === 'string' ? 0 : address.port
  return { spans, resources, requests, endpoint: `http://127.0.0.1:${port}/` }
}

const fakeGateway = (reply: Partial<CallReply>): Gateway => ({
  catalogFor: () => new Catalog(new ToolIndex([])),
  toolkits: () => new Map(),
  catalogChanges: new CatalogChanges(),
  call: async () => ({
    callId: 'c',
    replayed: false,
    outcome: { ok: true, valueJson: '1', durationMs: 1 },
    ...reply,
  }),
  readCall: async () => undefined,
  listCalls: async () => ({ calls: [] }),
  cancelCall: async () => undefined,
  readRun: async () => undefined,
  admit: () => undefined,
  enterWaiting: () => () => undefined,
  endRun: async () => false,
  openSession: async () => ({ sessionId: 's', runId: 'r' }),
  closeSession: async () => false,
  approvals: new Approvals({ store: openMemoryStore(), clock: SYSTEM_CLOCK }),
  findChallenge: async () => undefined,
  isReady: () => true,
  unavailableReason: () => undefined,
})

/** A protocol whose calls go through an observed gateway. */
function startCalling(reply: Partial<CallReply>, options: TestAppOptions & { callTraceId?: string } = {}) {
  const metrics = createMetrics()
  const gateway = observeCalls(fakeGateway(reply), {
    metrics,
    clock: SYSTEM_CLOCK,
    store: { digest: () => 'digest' },
    noteDenial: () => undefined,
    rejections: { count: () => undefined },
  })
  const { callTraceId, ...rest } = options
  return startApp({
    metrics,
    routes: [
      {
        method: 'POST',
        path: '/tools/call',
        access: 'open',
        body: 'json',
        async handle({ principal, traceId }) {
          const tool = parseToolRef('A.B@1.0.0')
          if (tool === undefined) throw new Error('bad test')
          const empty = new Map()
          const request: CallRequest = {
            tool,
            input: 's3cr3t',
            key: undefined,
            traceId: callTraceId ?? traceId,
            userId: undefined,
            tokens: empty,
            secrets: empty,
          }
          await gateway.call(principal, request)
          return jsonReply(200, {})
        },
        refuse: refuseWithCode,
      },
      {
        method: 'GET',
        path: '/health',
        access: 'open',
        body: 'never',
        handle: () => jsonReply(200, {}),
        refuse: refuseWithCode,
      },
    ],
    ...rest,
  })
}

const exporter = (endpoint: string, log = SILENT_LOGGER): SpanExporter => {
  const spans = createSpanExporter(
    { url: `${endpoint}v1/traces`, log, resource: { instanceId: 'replica-1' } },
    5,
  )
  closing.push(() => spans.close())
  return spans
}

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const traceparent = `00-${TRACE}-b7ad6b7169203331-01`

describe('span export', () => {
  it('exports one content-free span per call, under the caller’s span', async () => {
    const collector = await startCollector()
    const spans = exporter(collector.endpoint)
    const { url } = await startCalling({}, { spans })
    await fetch(`${url}/health`)
    const response = await fetch(`${url}/tools/call`, { method: 'POST', headers: { traceparent } })
    await spans.close()
    expect(collector.requests).toEqual(['POST /v1/traces application/json'])
    expect(collector.spans).toHaveLength(1)
    const [span] = collector.spans
    expect(span).toMatchObject({
      traceId: TRACE,
      parentSpanId: 'b7ad6b7169203331',
      name: 'execute_tool unknown',
      status: { code: 0 },
    })
    expect(response.headers.get('traceparent')).toBe(`00-${TRACE}-${span?.spanId}-01`)
    expect(BigInt(span?.endTimeUnixNano ?? 0)).toBeGreaterThan(BigInt(span?.startTimeUnixNano ?? 0))
    expect(span?.attributes).toContainEqual({ key: 'collet.outcome', value: { stringValue: 'ok' } })
    // An integer, as the semantic convention for this name requires.
    expect(span?.attributes).toContainEqual({ key: 'http.response.status_code', value: { intValue: '200' } })
    expect(span?.attributes).toContainEqual({ key: 'http.route', value: { stringValue: '/tools/call' } })
    expect(JSON.stringify(collector.spans)).not.toContain('s3cr3t')
  })

  it('has the attribute names that dashboards expect, the caller, and the name and version of the server', async () => {
    const collector = await startCollector()
    const spans = exporter(collector.endpoint)
    const error = { code: 'tool_failed', message: 'no', canRetry: false } as const
    const { url } = await startCalling({ outcome: { ok: false, error, durationMs: 1 } }, { spans })
    await fetch(`${url}/tools/call`, { method: 'POST' })
    await spans.close()
    expect(collector.resources).toEqual([
      { 'service.name': 'collet', 'service.version': VERSION, 'service.instance.id': 'replica-1' },
    ])
    expect(collector.spans.map(attributesOf)).toEqual([
      expect.objectContaining({
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'unknown',
        'gen_ai.tool.call.id': 'c',
        'error.type': 'tool_failed',
        'collet.tenant': 'default',
        'collet.principal': 'prn_digest',
      }),
    ])
  })

  it('samples spans without a parent, skips those that the caller did not sample, and marks failures', async () => {
    const collector = await startCollector()
    const spans = exporter(collector.endpoint)
    const error = { code: 'tool_failed', message: 's3cr3t', canRetry: false } as const
    const { url } = await startCalling({ outcome: { ok: false, error, durationMs: 1 } }, { spans })
    await fetch(`${url}/tools/call`, {
      method: 'POST',
      headers: { traceparent: traceparent.replace(/01$/, '00') },
    })
    await fetch(`${url}/tools/call`, { method: 'POST' })
    await spans.close()
    expect(collector.spans).toHaveLength(1)
    expect(collector.spans[0]).toMatchObject({ status: { code: 2 } })
    expect(collector.spans[0]?.parentSpanId).toBeUndefined()
    expect(JSON.stringify(collector.spans)).not.toContain('s3cr3t')
  })

  it('drops spans with one warning while the collector fails, and calls continue', async () => {
    const collector = await startCollector(500)
    const warnings: unknown[] = []
    const spans = exporter(collector.endpoint, { ...SILENT_LOGGER, warn: (fields) => warnings.push(fields) })
    const { url } = await startCalling({}, { spans })
    for (let round = 0; round < 3; round += 1) {
      expect((await fetch(`${url}/tools/call`, { method: 'POST' })).status).toBe(200)
      await spans.close()
    }
    expect(warnings).toHaveLength(1)
  })

  it('keeps a bounded queue when the collector does not answer', async () => {
    const gate = Promise.withResolvers<Response>()
    const sizes: number[] = []
    const spans = createSpanExporter({
      url: 'http://127.0.0.1:1/v1/traces',
      log: SILENT_LOGGER,
      resource: { instanceId: 'replica-1' },
      fetch: (_url, init) => {
        sizes.push(JSON.parse(String(init?.body)).resourceSpans[0].scopeSpans[0].spans.length)
        return sizes.length === 1 ? gate.promise : Promise.resolve(new Response('{}'))
      },
    })
    const span = {
      traceId: TRACE,
      spanId: 'b7ad6b7169203331',
      parentSpanId: undefined,
      name: 'x',
      kind: 'server' as const,
      startedAtMs: 0,
      durationMs: 1,
      hasFailed: false,
      attributes: {},
    }
    for (let index = 0; index < 10_000; index += 1) spans.export(span)
    gate.resolve(new Response('{}'))
    await spans.close()
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(512 + 4_096)
  })
})

describe('the log line of a request', () => {
  it('links the caller’s trace_id to the trace, and names the tool and the outcome', async () => {
    const { url, logged } = await startCalling(
      { replayed: true },
      { logLevel: 'debug', callTraceId: 'my-trace' },
    )
    await fetch(`${url}/tools/call`, { method: 'POST', headers: { traceparent } })
    expect(JSON.parse(logged[0] ?? '')).toMatchObject({
      traceId: TRACE,
      callerTraceId: 'my-trace',
      tool: 'unknown',
      outcome: 'ok',
      isReplay: true,
    })
    expect(logged.join()).not.toContain('s3cr3t')
  })
})
