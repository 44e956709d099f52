import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { startBenchServer } from './bench-server.ts'
import { CALLS_OF_HOPS, callInTurn, summarize, type Times } from './measure-hop.ts'
import { API_KEY } from './servers/add-contract.ts'
import type { Figure } from './statistics.ts'

/**
 * One client calls the tool of an MCP program on stdio over HTTP: through Collet, and through two proxies from npm that only pass messages
 * on, without records or checks. They take turns, one call at a time. Each proxy runs with the options that make it fastest.
 */

const PROGRAM = join(import.meta.dirname, 'servers', 'mcp-stdio.ts')
const BIN = join(import.meta.dirname, '..', 'node_modules', '.bin')
const START_LIMIT_MS = 30_000
const RETRY_MS = 50

/** `p50` is Collet's, in milliseconds; the others are its ratios to the p50 of the proxies. */
type StdioHopFigures = Readonly<Record<'p50' | 'overSupergateway' | 'overMcpProxy', Figure>>

interface Way {
  readonly client: Client
  readonly tool: string
  readonly times: number[]
  stop(): Promise<void>
}

export async function measureStdioHop(): Promise<StdioHopFigures> {
  const command = `${process.execPath} --disable-warning=ExperimentalWarning ${PROGRAM}`
  const opened: Way[] = []
  const open = async (way: Promise<Way>): Promise<Way> => {
    opened.push(await way)
    return await way
  }
  try {
    const ways = {
      collet: await open(startCollet()),
      supergateway: await open(
        startProxy('supergateway', (port) => [
          ...['--stdio', command, '--outputTransport', 'streamableHttp'],
          ...['--stateful', '--logLevel', 'none', '--port', String(port)],
        ]),
      ),
      mcpProxy: await open(
        startProxy('mcp-proxy', (port) => [
          ...['--host', '127.0.0.1', '--port', String(port), '--server', 'stream', '--no-eventStore'],
          ...['--', ...command.split(' ')],
        ]),
      ),
    }
    for (let turn = 0; turn < CALLS_OF_HOPS.turns; turn += 1) {
      for (const { client, tool, times } of Object.values(ways)) {
        const taken = await callInTurn(client, tool)
        if (turn >= CALLS_OF_HOPS.warmUpTurns) times.push(...taken)
      }
    }
    return figuresOf(summarize(ways.collet.times), {
      supergateway: summarize(ways.supergateway.times),
      mcpProxy: summarize(ways.mcpProxy.times),
    })
  } finally {
    for (const { client, stop } of opened.toReversed()) {
      await client.close()
      await stop()
    }
  }
}

function figuresOf(
  ours: Times,
  { supergateway, mcpProxy }: Readonly<Record<'supergateway' | 'mcpProxy', Times>>,
): StdioHopFigures {
  return {
    p50: { ...ours, value: ours.p50Ms },
    overSupergateway: { ...supergateway, value: ours.p50Ms / supergateway.p50Ms },
    overMcpProxy: { ...mcpProxy, value: ours.p50Ms / mcpProxy.p50Ms },
  }
}

async function startCollet(): Promise<Way> {
  const server = await startBenchServer({ file: 'collet', args: ['--store', 'sqlite', '--program', PROGRAM] })
  return { ...(await connect(server.port, 'Upstream_Calculator_Add')), stop: server.stop }
}

async function startProxy(name: string, argumentsFor: (port: number) => readonly string[]): Promise<Way> {
  const port = await freePort()
  // Started with the Node of this process, because their first line selects the first Node in the PATH.
  const child = spawn(process.execPath, [join(BIN, name), ...argumentsFor(port)], {
    stdio: 'ignore',
    env: { ...process.env, NODE_ENV: 'production' },
  })
  try {
    return { ...(await connect(port, 'Calculator_Add', child)), stop: () => stop(child) }
  } catch (error) {
    await stop(child)
    throw new Error(`${name} did not start.`, { cause: error })
  }
}

/** Retries until the server listens. All use a revision that all of them support. */
async function connect(port: number, tool: string, child?: ChildProcess): Promise<Omit<Way, 'stop'>> {
  const untilMs = performance.now() + START_LIMIT_MS
  for (;;) {
    const client = new Client({ name: 'bench', version: '1.0.0' })
    const requestInit = { headers: { 'x-api-key': API_KEY } }
    const url = new URL(`http://127.0.0.1:${port}/mcp`)
    try {
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit }))
      return { client, tool, times: [] }
    } catch (error) {
      const hasEnded = child === undefined || child.exitCode !== null
      if (hasEnded || performance.now() > untilMs) throw error
      await pause(RETRY_MS)
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('Expected a TCP address.')
  return address.port
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await Promise.race([exited, pause(5_000).then(() => child.kill('SIGKILL'))])
}
