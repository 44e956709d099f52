import { type BenchRequest, describeTools } from './bench-request.ts'
import { type BenchServer, startBenchServer } from './bench-server.ts'
import { LARGE_CATALOG, manyPrincipals } from './contenders.ts'
import { applyLoad, type LoadSlice } from './load.ts'
import { summarizeLoad, timeOf } from './load-result.ts'
import type { Timing } from './measure-round.ts'
import { RequestBytes } from './request-bytes.ts'
import { NUMBER_DIGITS } from './servers/add-contract.ts'
import { DISTINCT_SCOPE_SETS, principalKey } from './servers/principals.ts'
import type { Figure } from './statistics.ts'

const PRINCIPALS = 1_000
/** Needed to collect garbage before each reading, because `process.memoryUsage()` counts garbage too. */
const WITH_GC = ['--expose-gc']

/** `memoryRatio`: memory kept after the catalog was served to many callers, divided by that for one caller per set of scopes. */
type PrincipalsFigures = Readonly<Record<'plain' | 'gzip' | 'memoryRatio', Figure>>

const REQUESTS = { plain: describeTools(), gzip: describeTools({ 'accept-encoding': 'gzip' }) } as const

/** Every caller reads the openwop catalog of 10 000 tools, plain and compressed. */
export async function measurePrincipals({ sliceMs }: Timing): Promise<PrincipalsFigures> {
  const durationMs = 2 * sliceMs
  const few = await withServer(DISTINCT_SCOPE_SETS, (server) => measureGrowth(server, DISTINCT_SCOPE_SETS))
  return await withServer(PRINCIPALS, async (server) => ({
    memoryRatio: { value: (await measureGrowth(server, PRINCIPALS)) / few },
    plain: timeOf(summarizeLoad([await readAll(server, REQUESTS.plain, PRINCIPALS, { durationMs })])),
    gzip: timeOf(summarizeLoad([await readAll(server, REQUESTS.gzip, PRINCIPALS, { durationMs })])),
  }))
}

async function withServer<Result>(
  principals: number,
  measure: (server: BenchServer) => Promise<Result>,
): Promise<Result> {
  const server = await startBenchServer(manyPrincipals(principals), WITH_GC)
  try {
    const result = await measure(server)
    await expectCatalogs(server, principals)
    return result
  } finally {
    await server.stop()
  }
}

/** Bytes kept after the reads. Few callers read as often as many, so that only the number of callers differs. */
async function measureGrowth(server: BenchServer, principals: number): Promise<number> {
  const before = await server.memoryBytes()
  for (const request of Object.values(REQUESTS)) {
    await readAll(server, request, principals, { durationMs: 0, minRequests: PRINCIPALS })
  }
  return (await server.memoryBytes()) - before
}

/** Reads whole answers one after another over one connection. */
function readAll(
  server: BenchServer,
  request: BenchRequest,
  principals: number,
  length: { readonly durationMs: number; readonly minRequests?: number },
): Promise<LoadSlice> {
  return applyLoad({
    server,
    request: new RequestBytes(request, server.port, principals),
    connections: 1,
    expectedStatus: 200,
    ...length,
  })
}

/** Checks that each set of scopes has a different, almost complete catalog, and that the last caller shares the one of its set. */
async function expectCatalogs(server: BenchServer, principals: number): Promise<void> {
  const positions = [...Array(DISTINCT_SCOPE_SETS).keys(), principals - 1]
  const replies = await Promise.all(positions.map((index) => readTools(server, index)))
  const etags = new Set(replies.map(({ etag }) => etag))
  const fewest = Math.min(...replies.map(({ tools }) => tools))
  if (etags.size !== DISTINCT_SCOPE_SETS || fewest < LARGE_CATALOG.tools - DISTINCT_SCOPE_SETS) {
    throw new Error(
      `GET /v1/tools: expected ${DISTINCT_SCOPE_SETS} catalogs of ${LARGE_CATALOG.tools} tools, got ${etags.size}, the smallest of ${fewest}.`,
    )
  }
}

async function readTools(server: BenchServer, index: number) {
  const { path } = REQUESTS.plain
  const headers = { 'x-api-key': principalKey(String(index).padStart(NUMBER_DIGITS, '0')) }
  const reply = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers })
  const tools = new Set((await reply.text()).match(/"toolId":"[^"]+"/g)).size
  return { etag: reply.headers.get('etag'), tools }
}
