import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, createServer, request, type Server } from 'node:http'
import { createServer as createPort } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { createDatabase } from '../store/databases.ts'

const SOURCES = fileURLToPath(new URL('../../src/index.ts', import.meta.url))
const KEY = randomBytes(32).toString('base64url')
const LIMIT_MS = 180_000
/** Health check interval of the proxy in the documentation. */
const HEALTH_INTERVAL_MS = 500

/** Each run of a tool writes a line. `Slow.Write` runs until the file `finish` exists. */
const configWith = (server: string) => `import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { defineConfig, tool } from ${JSON.stringify(SOURCES)}
const input = { type: 'object', properties: { key: { type: 'string', description: 'Which.' } }, required: ['key'] }
const write = (id, run) => tool({ id, description: 'For the test.', input, output: { type: 'string' }, policy: { safetyTier: 'write' }, run })
const effect = (key) => { appendFileSync('effects', key + '\\n'); return 'wrote ' + key }
export default defineConfig({
  auth: { apiKeys: [{ id: 'alice', key: ${JSON.stringify(KEY)} }] },
  server: { ${server} },
  tools: [
    write('Quick.Write@1.0.0', ({ key }) => effect(key)),
    write('Slow.Write@1.0.0', async ({ key }) => { effect(key); while (!existsSync('finish')) await setTimeout(20); return 'slow' }),
  ],
})
`

let folder: string
const processes: ServerProcess[] = []
const proxies: RoundRobin[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-restart-'))
})

afterEach(async () => {
  for (const proxy of proxies.splice(0)) proxy.close()
  await Promise.all(processes.splice(0).map((server) => server.stop('SIGKILL')))
  rmSync(folder, { recursive: true, force: true })
})

async function start(argv: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ServerProcess> {
  const server = await startCollet(['serve', ...argv], { cwd: folder, env })
  processes.push(server)
  return server
}

interface Answer {
  readonly status: number
  readonly body: string
}

async function call(url: string, tool: string, key: string): Promise<Answer> {
  const response = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${KEY}` },
    body: JSON.stringify({ request: { call_id: key, tool_id: tool, input: { key } } }),
  })
  return { status: response.status, body: await response.text() }
}

async function healthOf(url: string): Promise<Answer> {
  try {
    const response = await fetch(`${url}/health`)
    return { status: response.status, body: await response.text() }
  } catch {
    return { status: 0, body: '' }
  }
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = performance.now() + LIMIT_MS
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error('the condition was never met')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

function effects(): readonly string[] {
  const file = join(folder, 'effects')
  return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : []
}

async function freePort(): Promise<number> {
  const probe = createPort().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Forwards each request once, to the healthy servers in turn; it polls their health. */
class RoundRobin {
  readonly #healthy = new Set<number>()
  readonly #agent = new Agent({ keepAlive: true })
  readonly #timer: NodeJS.Timeout
  readonly #server: Server
  readonly port: number
  #turn = 0

  constructor(port: number, upstreams: readonly number[]) {
    this.port = port
    const look = () => {
      for (const upstream of upstreams)
        void healthOf(`http://127.0.0.1:${upstream}`).then(({ status }) =>
          status === 200 ? this.#healthy.add(upstream) : this.#healthy.delete(upstream),
        )
    }
    look()
    this.#timer = setInterval(look, HEALTH_INTERVAL_MS)
    this.#server = createServer((incoming, outgoing) => {
      const healthy = upstreams.filter((upstream) => this.#healthy.has(upstream))
      this.#turn += 1
      const chosen = healthy[this.#turn % healthy.length]
      if (chosen === undefined) {
        outgoing.writeHead(502).end()
        return
      }
      const { method, url: path } = incoming
      const headers = { ...incoming.headers, host: `127.0.0.1:${chosen}`, via: '1.1 test' }
      const options = { agent: this.#agent, host: '127.0.0.1', port: chosen, method, path, headers }
      const sent = request(options, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(outgoing)
      })
      sent.on('error', () => outgoing.writeHead(502).end('the connection broke'))
      incoming.pipe(sent)
    }).listen(port, '127.0.0.1')
  }

  knows(port: number): boolean {
    return this.#healthy.has(port)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#server.closeAllConnections()
    this.#server.close()
    this.#agent.destroy()
  }
}

it(
  'three replicas restarted one after another refuse no call, and run each call once',
  async () => {
    writeFileSync(join(folder, 'collet.config.ts'), configWith(''))
    const store = await createDatabase('rolling')
    const env = { COLLET_KEY: randomBytes(32).toString('base64') }
    const ports = await Promise.all([1, 2, 3].map(freePort))
    const replica = (port: number) => start(['--store', store, '--port', String(port)], env)
    const servers: ServerProcess[] = []
    for (const port of ports) servers.push(await replica(port))
    const proxy = new RoundRobin(await freePort(), ports)
    proxies.push(proxy)
    await until(() => ports.every((port) => proxy.knows(port)))

    const refused: Answer[] = []
    const sent: string[] = []
    let isLoading = true
    const load = async (caller: number): Promise<void> => {
      for (let index = 0; isLoading; index += 1) {
        const key = `call-${caller}-${index}`
        sent.push(key)
        const answer = await call(`http://127.0.0.1:${proxy.port}`, 'Quick.Write', key).catch((error) => ({
          status: 0,
          body: String(error),
        }))
        if (!answer.body.includes(`wrote ${key}`)) refused.push(answer)
      }
    }
    onTestFinished(() => {
      isLoading = false
    })
    const callers = [1, 2, 3, 4, 5, 6].map(load)
    for (const [index, port] of ports.entries()) {
      const before = sent.length
      await until(() => sent.length > before + 20)
      expect(await servers[index]?.stop('SIGTERM')).toBe(0)
      await until(() => !proxy.knows(port))
      await replica(port)
      await until(() => proxy.knows(port))
    }
    isLoading = false
    await Promise.all(callers)
    expect(refused).toEqual([])
    expect(effects().toSorted()).toEqual(sent.toSorted())
  },
  LIMIT_MS,
)

it(
  'SIGTERM turns /health to 503 at once, and calls are accepted until server.drainMs is over',
  async () => {
    writeFileSync(join(folder, 'collet.config.ts'), configWith('drainMs: 4_000'))
    const server = await start(['--port', '0'])
    const slow = call(server.url, 'Slow.Write', 'slow')
    await until(() => effects().includes('slow'))
    const stopped = server.stop('SIGTERM')
    await until(async () => (await healthOf(server.url)).status === 503)
    expect((await healthOf(server.url)).body).toContain('stopping')
    const taken = await call(server.url, 'Quick.Write', 'during')
    expect([taken.status, taken.body]).toEqual([200, expect.stringContaining('wrote during')])
    let last = taken
    let tries = 0
    await until(async () => {
      tries += 1
      last = await call(server.url, 'Quick.Write', `later-${tries}`)
      return last.status !== 200
    })
    // The protocol knows no 503 for a call (OTC/C-14 keeps 400).
    expect([last.status, last.body]).toEqual([400, expect.stringContaining('Nothing was run')])
    writeFileSync(join(folder, 'finish'), '')
    expect((await slow).body).toContain('slow')
    expect(await stopped).toBe(0)
    expect(effects()).not.toContain(`later-${tries}`)
  },
  LIMIT_MS,
)

it(
  'Ctrl-C stops a server without draining',
  async () => {
    writeFileSync(join(folder, 'collet.config.ts'), configWith('drainMs: 60_000'))
    const server = await start(['--port', '0'])
    expect(await server.stop('SIGINT')).toBe(0)
  },
  LIMIT_MS,
)
