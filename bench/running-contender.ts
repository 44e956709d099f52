import type { BenchRequest } from './bench-request.ts'
import { type BenchServer, startBenchServer } from './bench-server.ts'
import type { Contender } from './contenders.ts'
import { applyLoad, type LoadSlice } from './load.ts'
import { RequestBytes } from './request-bytes.ts'

const USUAL_CONNECTIONS = 32

/** A contender in its process, checked and ready to be loaded. */
export interface RunningContender {
  load(durationMs: number): Promise<LoadSlice>
  stop(): Promise<void>
}

export async function startContender(
  contender: Contender,
  nodeOptions: readonly string[] = [],
): Promise<RunningContender> {
  const server = await startBenchServer(contender.command, nodeOptions)
  let credentialed: Contender
  try {
    credentialed = { ...contender, request: await withCredential(contender, server) }
    await expectSum(credentialed, server)
  } catch (error) {
    await server.stop()
    throw error
  }
  const request = new RequestBytes(credentialed.request, server.port)
  const { connections = USUAL_CONNECTIONS } = contender
  return {
    load: (durationMs) => applyLoad({ server, request, connections, durationMs, expectedStatus: 200 }),
    stop: () => server.stop(),
  }
}

/** The request with the credential that the contender requires. */
async function withCredential(contender: Contender, server: BenchServer): Promise<BenchRequest> {
  const { request, access } = contender
  if (access === undefined) return request
  const { 'x-api-key': _, ...anonymous } = request.headers
  if (access === 'open') return { ...request, headers: anonymous }
  return { ...request, headers: { ...anonymous, authorization: `Bearer ${await server.credential()}` } }
}

/** Checks that the server adds 2 + 3 correctly, and refuses a request without a credential. */
async function expectSum(contender: Contender, server: BenchServer): Promise<void> {
  const { method, path, headers, body } = contender.request
  const url = `http://127.0.0.1:${server.port}${path}`
  const reply = await fetch(url, { method, headers, body: JSON.stringify(body) })
  const text = await reply.text()
  const isJson = reply.headers.get('content-type')?.startsWith('application/json') ?? false
  if (reply.status !== 200 || !isJson || !/"(?:value|text|result)":"?5\b/.test(text)) {
    throw new Error(`${contender.title}: expected the sum 5 as JSON, got status ${reply.status}: ${text}`)
  }
  if (contender.access === 'open') return
  const { 'x-api-key': _, authorization: __, ...anonymous } = headers
  const refused = await fetch(url, { method, headers: anonymous, body: JSON.stringify(body) })
  await refused.arrayBuffer()
  if (refused.status !== 401) {
    throw new Error(`${contender.title}: expected 401 without an API key, got ${refused.status}.`)
  }
}
