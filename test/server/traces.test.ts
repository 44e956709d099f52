import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { serve } from '#server/create-gateway'
import { startPrincipalsServer } from './principals-server.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'

it('a trace continues to every kind of upstream, and to requests that a tool makes', async () => {
  const seen: string[] = []
  const service = createServer(({ headers }, response) => {
    seen.push(String(headers.traceparent))
    response.writeHead(200, { 'content-type': 'application/json' }).end('"done"')
  })
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    service.closeAllConnections()
    service.close()
  })
  const address = service.address()
  const host = `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  const upstream = await startPrincipalsServer({
    tools: requireTools([
      tool({
        id: 'Trace.Say@1.0.0',
        description: 'Says whose trace it is in.',
        input: {},
        output: {},
        policy: { safetyTier: 'read' },
        run: (_input, { traceId }) => traceId,
      }),
    ]),
  })
  onTestFinished(upstream.stop)
  const folder = mkdtempSync(join(tmpdir(), 'collet-traces-'))
  const file = join(folder, 'service.json')
  writeFileSync(
    file,
    JSON.stringify({
      openapi: '3.1.0',
      info: { title: 'Service', version: '1' },
      servers: [{ url: `http://${host}` }],
      paths: { '/a': { get: { operationId: 'Say', responses: { 200: { description: 'ok' } } } } },
    }),
  )
  const front = await serve(
    {
      store: `sqlite:${join(folder, 'front.db')}`,
      server: { port: 0 },
      log: { level: 'silent' },
      egress: { allow: [host, new URL(upstream.url).host] },
      tools: [
        tool({
          id: 'Own.Say@1.0.0',
          description: 'Fetches.',
          input: {},
          output: {},
          policy: { safetyTier: 'read' },
          run: async (_input, context) => (await context.fetch(`http://${host}/b`)).status,
        }),
      ],
      sources: {
        Otc: { type: 'otc', url: upstream.url },
        Open: { type: 'opentool', url: `${upstream.url}/opentool` },
        Mcp: { type: 'mcp', url: `${upstream.url}/mcp` },
        Api: { type: 'openapi', file },
      },
    },
    { folder },
  )
  onTestFinished(async () => {
    await front.close()
    rmSync(folder, { recursive: true })
  })
  await vi.waitFor(() => expect(front.counts().tools).toBe(5), 10_000)
  const call = async (name: string): Promise<unknown> => {
    const body = JSON.stringify({ request: { tool_id: name, trace_id: TRACE } })
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${front.url}/tools/call`, { method: 'POST', headers, body })
    return JSON.parse(await answer.text()).result?.value
  }
  expect(await call('Otc.Trace_Say')).toBe(TRACE)
  expect(await call('Open.Trace_Say')).toBe(TRACE)
  expect(JSON.stringify(await call('Mcp.Trace_Say'))).toContain(TRACE)
  await call('Api.Say')
  expect(await call('Own.Say')).toBe(200)
  expect(seen.map((header) => header.split('-')[1])).toEqual([TRACE, TRACE])
}, 60_000)
