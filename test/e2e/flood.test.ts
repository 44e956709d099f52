import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet } from './server-process.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const CALLS = 5_000
const AT_ONCE = 500
const LIMIT_MS = 90_000
const MIB = 1_048_576
const BODY_BYTES = 20_000
/** Memory for request bodies; one caller may use a third of it. */
const BODIES_BYTES = 24 * MIB
/** Half of the growth of a server that accepts everything; measured: 220 MiB instead of 770. */
const MAX_GROWTH_BYTES = 400 * MIB

const TEXT = 'x'.repeat(BODY_BYTES)

let folder: string
let server: ServerProcess

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-flood-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import { tool } from ${JSON.stringify(join(ROOT, 'src/index.ts'))}
     const slow = tool({
       id: 'Slow.Write@1.0.0',
       description: 'Takes its time.',
       input: { type: 'object', properties: { text: { type: 'string', description: 'A text.' } } },
       output: {},
       run: () => new Promise((resolve) => setTimeout(() => resolve('done'), 400)),
     })
     export default {
       tools: [slow],
       server: { port: 0 },
       limits: { total: { concurrent: ${AT_ONCE}, bodyBytes: ${BODIES_BYTES} } },
     }`,
  )
  server = await startCollet(['serve'], { cwd: folder })
}, LIMIT_MS)

afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true })
})

function callBytes(id: string): string {
  const { host } = new URL(server.url)
  const body = JSON.stringify({ request: { call_id: id, tool_id: 'Slow.Write', input: { text: TEXT } } })
  return `POST /tools/call HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

interface Answer {
  readonly status: string
  readonly head: string
  readonly body: string
}

async function openSocket(): Promise<Socket> {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  return socket
}

/** One call on a new connection; an incomplete answer is an error. */
async function callOn(socket: Socket, id: string): Promise<Answer> {
  socket.write(callBytes(id))
  let text = ''
  for await (const chunk of socket) {
    text += String(chunk)
    const [head = '', body] = text.split('\r\n\r\n')
    const length = /content-length: (\d+)/i.exec(head)?.[1]
    if (body !== undefined && length !== undefined && body.length >= Number(length)) {
      return { status: head.slice(9, 12), head: head.toLowerCase(), body }
    }
  }
  throw new Error(`the server closed a connection in the middle of: ${text}`)
}

function residentBytes(): number {
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1_024
}

describe('a flood', () => {
  it(
    `of ${CALLS} simultaneous calls gets complete answers, results or clear refusals, in bounded memory`,
    async () => {
      const before = residentBytes()
      let peak = before
      const watch = setInterval(() => {
        peak = Math.max(peak, residentBytes())
      }, 100)
      const sockets: Socket[] = []
      // In batches, because the listener's queue is shorter than the flood.
      while (sockets.length < CALLS) {
        sockets.push(...(await Promise.all(Array.from({ length: 100 }, openSocket))))
      }
      const answers = await Promise.all(sockets.map((socket, index) => callOn(socket, `flood-${index}`)))
      const health = await fetch(`${server.url}/health`)
      clearInterval(watch)
      for (const socket of sockets) socket.destroy()

      const ran = answers.filter(({ status }) => status === '200')
      const refused = answers.filter(({ status }) => status !== '200')
      expect(ran.length).toBeGreaterThan(AT_ONCE / 2)
      for (const { body } of ran) expect(JSON.parse(body)).toMatchObject({ result: { success: true } })
      expect(refused.length).toBeGreaterThan(0)
      for (const { status, head, body } of refused) {
        const code = /collet-error-code: (\w+)/.exec(head)?.[1]
        // One caller may hold less than all callers together.
        expect([status, code]).toEqual(['400', expect.stringMatching(/^(?:overloaded|rate_limited)$/)])
        expect(head).toMatch(/retry-after: \d+/)
        expect(head).toContain('x-should-retry: true')
        expect(JSON.parse(body).message).toContain('Nothing was run')
      }
      expect(health.status).toBe(200)
      expect(peak - before).toBeLessThan(MAX_GROWTH_BYTES)

      // Afterwards the server works normally: a refused call runs with the same id, and a call that ran is replayed.
      const [refusedAt, ranAt] = [refused[0], ran[0]].map((one) =>
        one === undefined ? -1 : answers.indexOf(one),
      )
      for (const index of [refusedAt, ranAt]) {
        const socket = await openSocket()
        expect((await callOn(socket, `flood-${index}`)).status).toBe('200')
        socket.destroy()
      }
      const metrics = await (await fetch(`${server.url}/metrics`)).text()
      expect(metrics).toMatch(
        /collet_limit_refusals_total\{limit="(total_concurrency|body_bytes|principal_bodies)"\} \d+/,
      )
    },
    LIMIT_MS,
  )
})
