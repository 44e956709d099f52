import { addCall } from './bench-request.ts'
import { type BenchServer, startBenchServer } from './bench-server.ts'
import { EventReader } from './event-reader.ts'
import type { Figure } from './statistics.ts'

const FEW_TOOLS = 10
const MORE_TOOLS = 10_000
const STREAMS = 1_000
const RUN = 'watched'

type MemoryFigures = Readonly<Record<'tools' | 'streams', Figure>>

/** Measures a server's heap and buffers after garbage collections: per thousand tools, and per thousand open event streams. */
export async function measureMemory(): Promise<MemoryFigures> {
  const few = await withServer(FEW_TOOLS, measureStreams)
  const many = await withServer(FEW_TOOLS + MORE_TOOLS, async (server) => ({
    beforeBytes: await server.memoryBytes(),
  }))
  const bytesOfTools = (many.beforeBytes - few.beforeBytes) / (MORE_TOOLS / 1_000)
  const bytesOfStreams = (few.openBytes - few.beforeBytes) / (STREAMS / 1_000)
  return { tools: { value: bytesOfTools / 1e6 }, streams: { value: bytesOfStreams / 1e6 } }
}

async function withServer<Result>(tools: number, measure: (server: BenchServer) => Promise<Result>) {
  const args = ['--store=sqlite', `--tools=${tools}`]
  const server = await startBenchServer({ file: 'collet', args }, ['--expose-gc'])
  try {
    return await measure(server)
  } finally {
    await server.stop()
  }
}

async function measureStreams(server: BenchServer) {
  const { path, headers, body } = addCall()
  const { 'content-type': _, ...credential } = headers
  const url = `http://127.0.0.1:${server.port}`
  const call = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { ...headers, 'collet-run': RUN },
    body: JSON.stringify(body),
  })
  if (!call.ok) throw new Error(`The call in the run: status ${call.status}.`)
  await call.arrayBuffer()
  const beforeBytes = await server.memoryBytes()
  const readers = Array.from(
    { length: STREAMS },
    () => new EventReader(server.port, `/v1/runs/${RUN}/events`, credential),
  )
  await Promise.all(readers.map(({ opened }) => opened))
  const openBytes = await server.memoryBytes()
  await fetch(`${url}/v1/runs/${RUN}`, { method: 'DELETE', headers: credential })
  await Promise.all(readers.map(({ ended }) => ended))
  return { beforeBytes, openBytes }
}
