import { type BenchServer, startBenchServer } from './bench-server.ts'
import type { Contender } from './contenders.ts'
import { applyLoad, type LoadResult } from './load.ts'
import { RequestBytes } from './request-bytes.ts'

export interface Timing {
  readonly connections: number
  readonly warmUpMs: number
  readonly measureMs: number
}

/** A new process for each measurement: nothing else of ours runs beside it, and nothing is left over. */
export async function measureContender(contender: Contender, timing: Timing): Promise<LoadResult> {
  const server = await startBenchServer(contender.command)
  try {
    await expectSum(contender, server)
    return await loadServer(contender, server, timing)
  } finally {
    await server.stop()
  }
}

export async function loadServer(
  contender: Contender,
  server: BenchServer,
  timing: Timing,
): Promise<LoadResult> {
  const load = {
    port: server.port,
    request: new RequestBytes(contender.request, server.port),
    connections: timing.connections,
    expectedStatus: 200,
  }
  await applyLoad({ ...load, durationMs: timing.warmUpMs })
  return await applyLoad({ ...load, durationMs: timing.measureMs })
}

/** A fast wrong answer is worth nothing: 2 + 3 must come back, and nothing without the API key. */
async function expectSum(contender: Contender, server: BenchServer): Promise<void> {
  const { method, path, headers, body } = contender.request
  const url = `http://127.0.0.1:${server.port}${path}`
  const reply = await fetch(url, { method, headers, body: JSON.stringify(body) })
  const text = await reply.text()
  const isJson = reply.headers.get('content-type')?.startsWith('application/json') ?? false
  if (reply.status !== 200 || !isJson || !/"(?:value|text)":"?5\b/.test(text)) {
    throw new Error(`${contender.title}: expected the sum 5 as JSON, got status ${reply.status}: ${text}`)
  }
  const { 'x-api-key': _, ...anonymous } = headers
  const refused = await fetch(url, { method, headers: anonymous, body: JSON.stringify(body) })
  await refused.arrayBuffer()
  if (refused.status !== 401) {
    throw new Error(`${contender.title}: expected 401 without an API key, got ${refused.status}.`)
  }
}
