import { createServer } from 'node:http'
import { connect, opentool } from '#client/index'
import { dereference, load, validate } from '#protocols/opentool/index'
import { cpuMsSince } from '../cpu-time.ts'

/** Reads one document with many functions through every API, on a small heap, and prints the duration of each. */
const FUNCTIONS = 100_000

const functions = Array.from({ length: FUNCTIONS }, (_, index) => ({
  name: `function_${index}`,
  description: 'One of very many functions.',
  parameters: [
    { name: 'where', description: 'A place.', schema: { $ref: '#/schemas/Place' }, required: true },
    { name: 'count', schema: { type: 'integer' }, required: false },
  ],
  return: { name: 'sum', schema: { type: 'number' } },
}))
const text = JSON.stringify({
  opentool: '1.1.0',
  info: { title: 'Large', version: '1.0.0' },
  functions,
  schemas: { Place: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] } },
})
functions.length = 0

const server = createServer((request, response) => {
  const isCall = request.method === 'POST'
  response.writeHead(200, { 'content-type': 'application/json' })
  request.resume()
  request.on('end', () =>
    response.end(isCall ? '{"jsonrpc":"2.0","result":{"sum":7},"error":null,"id":"c1"}' : text),
  )
})
// Client and server share this thread: a connection is not idle while the other end is busy reading.
server.keepAliveTimeout = 600_000
await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
const address = server.address()
const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`

const tookMs: Record<string, number> = {}
async function timed(name: string, work: () => number | Promise<number>, wanted: number): Promise<void> {
  const started = process.cpuUsage()
  const got = await work()
  tookMs[name] = Math.round(cpuMsSince(started))
  if (got !== wanted) throw new Error(`${name}: expected ${wanted}, got ${got}`)
}

await timed('validate', () => validate(text).length, 0)
await timed('load', () => dereference(load(text)).functions.length, FUNCTIONS)
await timed('client load', async () => (await opentool.connect(url).load())?.functions.length ?? 0, FUNCTIONS)
const client = connect(url, { protocol: 'opentool' })
await timed('client list', async () => (await client.list()).length, FUNCTIONS)
await timed(
  'client calls',
  async () => {
    let sum = 0
    for (let index = 0; index < 20; index += 1) {
      const { value } = await client.call(`function_${index}`, { where: { x: 1 } }, { callId: 'c1' })
      sum += Number(value)
    }
    return sum
  },
  140,
)
server.close()
server.closeAllConnections()
process.stdout.write(JSON.stringify(tookMs))
