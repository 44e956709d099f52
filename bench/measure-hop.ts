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

/** `more`: p50 through Collet minus p50 of direct calls, in milliseconds; `write`: the same for a tool that is not classified. */
type HopFigures = Readonly<Record<'more' | 'p99Ratio' | 'write', Figure>>

/** One client calls a tool of an MCP server directly and through two gateways, in turns, one call at a time. */
export async function measureHop(): Promise<HopFigures> {
  const servers: BenchServer[] = []
  const start = async (file: string, ...args: string[]): Promise<BenchServer> => {
    const server = await startBenchServer({ file, args })
    servers.push(server)
    return server
  }
  try {
    const direct = await start('mcp')
    const collet = ['--store', 'sqlite', '--upstream', `http://127.0.0.1:${direct.port}/mcp`]
    const [through, write] = [
      await start('collet', ...collet),
      await start('collet', ...collet, '--unclassified'),
    ]
    return await compare({ direct, through, write })
  } finally {
    for (const server of servers.toReversed()) await server.stop()
  }
}

async function compare(servers: Readonly<Record<'direct' | 'through' | 'write', BenchServer>>) {
  const tool = 'Upstream_Calculator_Add'
  const ways = {
    direct: { client: await connect(servers.direct), tool: 'Calculator_Add', times: listOfTimes() },
    through: { client: await connect(servers.through), tool, times: listOfTimes() },
    write: { client: await connect(servers.write), tool, times: listOfTimes() },
  }
  for (let turn = 0; turn < CALLS_OF_HOPS.turns; turn += 1) {
    for (const { client, tool, times } of Object.values(ways)) {
      const taken = await callInTurn(client, tool)
      if (turn >= CALLS_OF_HOPS.warmUpTurns) times.push(...taken)
    }
  }
  for (const { client } of Object.values(ways)) await client.close()
  const direct = summarize(ways.direct.times)
  const [through, write] = [summarize(ways.through.times), summarize(ways.write.times)]
  return {
    more: { ...through, value: through.p50Ms - direct.p50Ms },
    p99Ratio: { ...through, value: through.p99Ms / direct.p99Ms },
    write: { ...write, value: write.p50Ms - direct.p50Ms },
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
