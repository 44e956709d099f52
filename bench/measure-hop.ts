import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { type BenchServer, startBenchServer } from './bench-server.ts'
import { API_KEY } from './servers/add-contract.ts'
import { type Figure, percentile } from './statistics.ts'

const CALLS_PER_TURN = 100
/** The warm-up makes 4 000 calls of each kind, because V8 optimises a function only after about 3 000 calls. */
export const CALLS_OF_HOPS = { turns: 55, warmUpTurns: 40 }

export interface Times {
  readonly p50Ms: number
  readonly p99Ms: number
}

/** `more`: p50 through Collet minus p50 of direct calls, in milliseconds. */
type HopFigures = Readonly<Record<'more' | 'p99Ratio', Figure>>

/** One client calls a tool of an MCP server directly and through Collet, in turns, one call at a time. */
export async function measureHop(): Promise<HopFigures> {
  const upstream = await startBenchServer({ file: 'mcp', args: [] })
  try {
    const url = `http://127.0.0.1:${upstream.port}/mcp`
    const collet = await startBenchServer({ file: 'collet', args: ['--store', 'sqlite', '--upstream', url] })
    try {
      return await compare(upstream, collet)
    } finally {
      await collet.stop()
    }
  } finally {
    await upstream.stop()
  }
}

async function compare(upstream: BenchServer, collet: BenchServer): Promise<HopFigures> {
  const ways = {
    direct: { client: await connect(upstream), tool: 'Calculator_Add', times: listOfTimes() },
    through: { client: await connect(collet), tool: 'Upstream_Calculator_Add', times: listOfTimes() },
  }
  for (let turn = 0; turn < CALLS_OF_HOPS.turns; turn += 1) {
    for (const { client, tool, times } of Object.values(ways)) {
      const taken = await callInTurn(client, tool)
      if (turn >= CALLS_OF_HOPS.warmUpTurns) times.push(...taken)
    }
  }
  for (const { client } of Object.values(ways)) await client.close()
  const [direct, through] = [summarize(ways.direct.times), summarize(ways.through.times)]
  return {
    more: { ...through, value: through.p50Ms - direct.p50Ms },
    p99Ratio: { ...through, value: through.p99Ms / direct.p99Ms },
  }
}

function listOfTimes(): number[] {
  return []
}

async function connect({ port }: BenchServer): Promise<Client> {
  const mode = { pin: '2026-07-28' }
  const client = new Client({ name: 'bench', version: '1.0.0' }, { versionNegotiation: { mode } })
  const requestInit = { headers: { 'x-api-key': API_KEY } }
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`), { requestInit }),
  )
  return client
}

export async function callInTurn(client: Client, name: string): Promise<readonly number[]> {
  const times: number[] = []
  for (let call = 0; call < CALLS_PER_TURN; call += 1) {
    const startedMs = performance.now()
    const { content } = await client.callTool({ name, arguments: { a: 2, b: 3 } })
    times.push(performance.now() - startedMs)
    if (!JSON.stringify(content).includes('"5"')) throw new Error(`${name}: expected the sum 5.`)
  }
  return times
}

export function summarize(taken: readonly number[]): Times {
  const times = Float64Array.from(taken).sort()
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) }
}
