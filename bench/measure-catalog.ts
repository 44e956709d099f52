import { type BenchRequest, listTools } from './bench-request.ts'
import { type BenchServer, startBenchServer } from './bench-server.ts'
import { LARGE_CATALOG } from './contenders.ts'
import { applyLoad } from './load.ts'
import { summarizeLoad, timeOf } from './load-result.ts'
import type { Timing } from './measure-round.ts'
import { RequestBytes } from './request-bytes.ts'
import type { Figure } from './statistics.ts'

type CatalogFigures = Readonly<Record<'startUp' | 'plain' | 'gzip' | 'notModified', Figure>>

/** Lists the large catalog over one connection, one request at a time. */
export async function measureCatalog({ sliceMs }: Timing): Promise<CatalogFigures> {
  const durationMs = 2 * sliceMs
  const server = await startBenchServer(LARGE_CATALOG.command)
  try {
    const etag = await expectWholeCatalog(server)
    const gzip = listTools({ 'accept-encoding': 'gzip' })
    return {
      startUp: { value: server.startUpMs },
      plain: await repeat(server, listTools(), 200, durationMs),
      gzip: await repeat(server, gzip, 200, durationMs),
      notModified: await repeat(server, listTools({ 'if-none-match': etag }), 304, durationMs),
    }
  } finally {
    await server.stop()
  }
}

async function repeat(
  server: BenchServer,
  request: BenchRequest,
  expectedStatus: number,
  durationMs: number,
): Promise<Figure> {
  const load = {
    server,
    request: new RequestBytes(request, server.port),
    connections: 1,
    expectedStatus,
  }
  await applyLoad({ ...load, durationMs: durationMs / 4 })
  return timeOf(summarizeLoad([await applyLoad({ ...load, durationMs })]))
}

/** Checks that answers contain every tool, plain and compressed, and are compressed only on request. */
async function expectWholeCatalog(server: BenchServer): Promise<string> {
  await expectTools(server, 'gzip')
  const etag = (await expectTools(server, 'identity')).headers.get('etag')
  if (etag === null) throw new Error('GET /tools: expected an ETag.')
  return etag
}

async function expectTools(server: BenchServer, encoding: 'identity' | 'gzip'): Promise<Response> {
  const { headers, path } = listTools({ 'accept-encoding': encoding })
  const reply = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers })
  const ids = new Set((await reply.text()).match(/"id":"[^"]+"/g))
  const sent = reply.headers.get('content-encoding') ?? 'identity'
  if (reply.status !== 200 || ids.size < LARGE_CATALOG.tools || sent !== encoding) {
    throw new Error(
      `GET /tools: expected ${LARGE_CATALOG.tools} tools as ${encoding}, got ${ids.size} as ${sent}, status ${reply.status}.`,
    )
  }
  return reply
}
