import { rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Settings } from '#config/settings'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import { type RunningServer, startServer } from '#server/start-server'
import { startStdio } from '#server/start-stdio'
import { VERSION } from '#server/version'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { ask } from '../conformance/mcp-talk.ts'
import { testSettings } from '../test-settings.ts'
import { attributesOf, type ReceivedSpan, startOtlpReceiver } from './otlp-receiver.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const PARENT = `00-${TRACE}-${SPAN}-01`
const LIMIT_MS = 60_000

/** A server on the official SDK; its tools return the `_meta` that they received, or fail. */
async function startUpstream(): Promise<string> {
  const http = createServer(async (request, response) => {
    const mcp = new McpServer({ name: 'up', version: '1' })
    mcp.registerTool('meta', {}, ({ _meta }) => ({
      content: [{ type: 'text', text: JSON.stringify(_meta) }],
    }))
    mcp.registerTool('fail', {}, () => ({ content: [{ type: 'text', text: 'no' }], isError: true }))
    mcp.registerPrompt('greet', {}, () => ({
      messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }],
    }))
    const transport = new StreamableHTTPServerTransport()
    await mcp.connect(transport)
    await transport.handleRequest(request, response)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    http.closeAllConnections()
    http.close()
  })
  const address = http.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/mcp`
}

async function start(changes: Partial<Settings>): Promise<RunningServer> {
  const sources = new Map([['Up', MCP_OPTIONS.parse({ type: 'mcp', url: await startUpstream() })]])
  const settings = testSettings({ sources, ...changes })
  const server = await startServer(settings, { graceMs: 0 })
  onTestFinished(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true, force: true })
  })
  await server.sourceRead('Up')
  return server
}

async function receive() {
  const receiver = await startOtlpReceiver()
  onTestFinished(() => receiver.stop())
  return receiver
}

const named = (spans: readonly ReceivedSpan[], name: string, kind: number): ReceivedSpan | undefined =>
  spans.find((span) => span.name === name && span.kind === kind)

describe('telemetry of MCP', () => {
  it(
    'has a SERVER span and a CLIENT span for a call, in one trace that the upstream continues',
    async () => {
      const receiver = await receive()
      const collet = await start({ otlpEndpoint: receiver.endpoint })
      const client = new Client({ name: 'test', version: '1' })
      const transport = new StreamableHTTPClientTransport(new URL(`${collet.url}/mcp`))
      await client.connect(transport)
      const { content } = await client.callTool({
        name: 'Up_meta',
        arguments: { secret: 's3cr3t' },
        _meta: { traceparent: PARENT, tracestate: 'vendor=1', baggage: 'user=ann' },
      })
      await client.callTool({ name: 'Up_fail' })
      await client.callTool({ name: 'No_such' }).catch(() => undefined)
      await client.getPrompt({ name: 'Up_greet' })
      await client.listTools()
      await client.close()
      await collet.close()

      const { spans } = receiver
      const served = named(spans, 'tools/call Up_meta', 2)
      expect(served).toMatchObject({ traceId: TRACE, parentSpanId: SPAN, status: { code: 0 } })
      expect(served?.attributes).toMatchObject({
        'mcp.method.name': 'tools/call',
        'mcp.protocol.version': '2025-11-25',
        'mcp.session.id': transport.sessionId,
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'Up_meta',
        'gen_ai.tool.call.id': expect.any(String),
        'jsonrpc.request.id': expect.any(String),
        'network.transport': 'tcp',
        'network.protocol.name': 'http',
        'collet.tenant': 'default',
        'collet.principal': expect.stringMatching(/^prn_/),
        'collet.outcome': 'ok',
      })
      const sent = named(spans, 'tools/call meta', 3)
      expect(sent).toMatchObject({ traceId: TRACE, parentSpanId: served?.spanId, status: { code: 0 } })
      expect(sent?.attributes).toMatchObject({
        'mcp.method.name': 'tools/call',
        'mcp.protocol.version': '2025-11-25',
        'gen_ai.tool.name': 'meta',
        'server.address': '127.0.0.1',
        'collet.source': 'Up',
      })
      expect(JSON.stringify(content)).toContain(`00-${TRACE}-${sent?.spanId}-01`)
      expect(JSON.stringify(content)).toContain('vendor=1')
      expect(JSON.stringify(content)).toContain('user=ann')
      expect(named(spans, 'tools/call Up_fail', 2)?.attributes).toMatchObject({ 'error.type': 'tool_error' })
      expect(named(spans, 'tools/call fail', 3)?.attributes).toMatchObject({ 'error.type': 'tool_error' })
      // An unknown name is not repeated: callers cannot create span names.
      expect(named(spans, 'tools/call', 2)).toMatchObject({ status: { code: 2 } })
      expect(named(spans, 'prompts/get Up_greet', 2)?.attributes).toMatchObject({
        'gen_ai.prompt.name': 'Up_greet',
      })
      expect(named(spans, 'initialize', 2)?.attributes).toMatchObject({
        'mcp.session.id': transport.sessionId,
      })
      expect(named(spans, 'tools/list', 2)).toBeDefined()
      expect(JSON.stringify(spans)).not.toMatch(/s3cr3t|No_such/)
      expect(receiver.resources[0]).toMatchObject({
        'service.name': 'collet',
        'service.version': VERSION,
        'service.instance.id': expect.any(String),
      })
    },
    LIMIT_MS,
  )

  it(
    'links the span of the HTTP request if the message of 2026-07-28 names another',
    async () => {
      const receiver = await receive()
      const collet = await start({ otlpEndpoint: receiver.endpoint })
      const headers = { traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01` }
      await ask(collet.url, { method: 'tools/list', meta: { traceparent: PARENT } }, { headers })
      await ask(collet.url, { method: 'no/such' }, { headers })
      await collet.close()
      const listed = named(receiver.spans, 'tools/list', 2)
      expect(listed).toMatchObject({ traceId: TRACE, parentSpanId: SPAN })
      expect(listed?.links).toEqual([{ traceId: '1'.repeat(32), spanId: '2'.repeat(16) }])
      expect(listed?.attributes).toMatchObject({ 'mcp.protocol.version': '2026-07-28' })
      expect(named(receiver.spans, '_OTHER', 2)).toMatchObject({
        traceId: '1'.repeat(32),
        attributes: {
          'mcp.method.name': '_OTHER',
          'error.type': '-32601',
          'rpc.response.status_code': '-32601',
        },
      })
    },
    LIMIT_MS,
  )

  it(
    'has spans for a client on stdio',
    async () => {
      const receiver = await receive()
      const settings = testSettings({ otlpEndpoint: receiver.endpoint })
      onTestFinished(() => rmSync(settings.dataFolder, { recursive: true, force: true }))
      const lines: string[] = []
      const serving = await startStdio(settings, {
        apiKey: undefined,
        write: (line) => void lines.push(line),
      })
      const meta = {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
        traceparent: PARENT,
      }
      const message = { jsonrpc: '2.0', id: 'a', method: 'tools/list', params: { _meta: meta } }
      await serving.serve(
        (async function* () {
          yield `${JSON.stringify(message)}\n`
        })(),
      )
      await serving.close()
      expect(lines.join()).toContain('"result"')
      const [span] = receiver.spans
      expect(span).toMatchObject({ name: 'tools/list', kind: 2, traceId: TRACE, parentSpanId: SPAN })
      expect(span?.attributes).toMatchObject({ 'network.transport': 'pipe', 'jsonrpc.request.id': 'a' })
    },
    LIMIT_MS,
  )
})

describe('metrics over OTLP', () => {
  it(
    'sends the metrics of /metrics and the durations of operations, at the interval and at the end',
    async () => {
      const receiver = await receive()
      const collet = await start({
        otlpEndpoint: receiver.endpoint,
        otlp: {
          metricsIntervalMs: 50,
          traces: false,
          headers: { 'x-collector': new Secret('key') },
          resource: { 'service.name': 'front', 'deployment.environment.name': 'test' },
        },
      })
      await vi.waitFor(() => expect(receiver.exports()).toBeGreaterThan(1), LIMIT_MS)
      const client = new Client({ name: 'test', version: '1' })
      await client.connect(new StreamableHTTPClientTransport(new URL(`${collet.url}/mcp`)))
      await client.callTool({ name: 'Up_meta' })
      await client.callTool({ name: 'Up_fail' })
      await client.close()
      await collet.close()
      expect(receiver.spans).toEqual([])
      expect(new Set(receiver.headers)).toEqual(new Set(['key']))
      expect(receiver.resources[0]).toMatchObject({
        'service.name': 'front',
        'deployment.environment.name': 'test',
      })
      const metrics = receiver.metrics()
      const calls = metrics.get('collet_calls_total')?.sum
      expect(calls?.isMonotonic).toBe(true)
      expect(
        calls?.dataPoints.map(({ attributes, asDouble }) => [attributesOf(attributes), asDouble]),
      ).toEqual(expect.arrayContaining([[expect.objectContaining({ outcome: 'tool_failed' }), 1]]))
      expect(metrics.get('process_resident_memory_bytes')).toMatchObject({ unit: 'By' })
      for (const [name, tool] of [
        ['mcp.server.operation.duration', 'Up_meta'],
        ['mcp.client.operation.duration', 'meta'],
      ]) {
        const metric = metrics.get(name ?? '')
        expect(metric).toMatchObject({ unit: 's', histogram: { aggregationTemporality: 2 } })
        const point = metric?.histogram?.dataPoints.find(
          ({ attributes }) => attributesOf(attributes)['gen_ai.tool.name'] === tool,
        )
        expect(point).toMatchObject({ count: '1', explicitBounds: expect.arrayContaining([0.01, 300]) })
        const counts = (point?.bucketCounts ?? []).map(Number)
        expect(counts).toHaveLength((point?.explicitBounds?.length ?? 0) + 1)
        expect(counts.reduce((total, count) => total + count, 0)).toBe(1)
      }
    },
    LIMIT_MS,
  )

  it(
    'a collector that is down or never answers costs one warning, and neither calls nor the stop fail',
    async () => {
      const silent = createServer(() => undefined)
      await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => {
        silent.closeAllConnections()
        silent.close()
      })
      const address = silent.address()
      const port = typeof address === 'object' && address !== null ? address.port : 0
      const warnings: string[] = []
      const settings = testSettings({
        otlpEndpoint: `http://127.0.0.1:${port}`,
        otlp: { metricsIntervalMs: 20, traces: 'http://127.0.0.1:1/v1/traces' },
      })
      onTestFinished(() => rmSync(settings.dataFolder, { recursive: true, force: true }))
      const log = {
        ...SILENT_LOGGER,
        warn: (_fields: object, text: string) => void warnings.push(text),
        writes: { debug: false },
        logCall: undefined,
        setLevel: () => undefined,
      }
      const collet = await startServer(settings, { graceMs: 0, log: log as never })
      for (let index = 0; index < 5; index += 1)
        expect((await ask(collet.url, { method: 'tools/list' })).status).toBe(200)
      const startedMs = performance.now()
      await collet.close()
      // One request that waits for its time limit, and the last one.
      expect(performance.now() - startedMs).toBeLessThan(20_000)
      expect(warnings.filter((text) => text.startsWith('traces cannot'))).toHaveLength(1)
      expect(warnings.filter((text) => text.startsWith('metrics cannot'))).toHaveLength(1)
    },
    LIMIT_MS,
  )
})
