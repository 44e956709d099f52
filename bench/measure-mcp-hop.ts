/**
 * A call to an MCP server over HTTP: by the official client alone, and by our source through the guarded way out.
 * `node --conditions=collet-source bench/measure-mcp-hop.ts [calls]`
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { createGuardedFetch } from '#egress/guarded-fetch'
import { startModernServer } from '../test/sources/modern-mcp-server.ts'
import { openMcp } from '../test/sources/open-mcp.ts'

const ROUNDS = 20
const calls = Number(process.argv[2] ?? 4000)

function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}

const server = await startModernServer()
const { host } = new URL(server.url)
const way = createGuardedFetch({ allow: [host] })
const upstream = openMcp({ url: server.url }, { services: { fetch: way } })
await upstream.discover()
const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode: 'auto' } })
await client.connect(new StreamableHTTPClientTransport(new URL(server.url)))
const input = { a: 1, b: 2 }
const ways = {
  direct: () => client.callTool({ name: 'add', arguments: input }),
  source: () => upstream.call('add', input),
}
const times: Record<keyof typeof ways, number[]> = { direct: [], source: [] }
for (let round = 0; round < ROUNDS; round += 1)
  for (const name of ['direct', 'source'] as const)
    for (let index = 0; index < calls / ROUNDS; index += 1) {
      const began = performance.now()
      await ways[name]()
      if (round > 1) times[name].push(performance.now() - began)
    }
for (const [name, taken] of Object.entries(times)) {
  const sorted = taken.toSorted((left, right) => left - right)
  const [p50, p99] = [quantile(sorted, 0.5), quantile(sorted, 0.99)].map((each) => each.toFixed(3))
  console.log(`${name.padEnd(8)} p50 ${p50} ms  p99 ${p99} ms  n ${sorted.length}`)
}
await upstream.source.close()
await client.close()
await way.close()
await server.close()
