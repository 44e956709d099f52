import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { makeSelfSigned } from '../egress/self-signed.ts'
import { createDatabase } from '../store/databases.ts'

const SOURCES = fileURLToPath(new URL('../../src/index.ts', import.meta.url))
const configWith = (more = '') => `import { appendFileSync } from 'node:fs'
import { defineConfig, tool } from ${JSON.stringify(SOURCES)}
const none = { type: 'object', properties: {} }
export default defineConfig({
  tools: [
    tool({ id: 'Process.Id@1.0.0', description: 'Says which process it is.', input: none, output: { type: 'number' },
      policy: { safetyTier: 'read' }, run: () => process.pid }),
    tool({ id: 'Process.Work@1.0.0', description: 'Takes a while.', input: none, output: { type: 'string' },
      policy: { safetyTier: 'write' }, run: async () => {
        appendFileSync('begun', '.')
        await new Promise((resolve) => setTimeout(resolve, 1_000))
        return 'done'
      } }),
  ],
  server: { tls: { cert: 'cert.pem', key: 'key.pem' } },
  ${more}
})
`

const ANSWER = z.object({ result: z.object({ success: z.boolean(), value: z.unknown() }) })

let folder: string
let server: ServerProcess
const known = getCACertificates('default')

/** Replaces the certificate, and trusts the new one here. */
function certify(name: string): void {
  const { cert, key } = makeSelfSigned(name, Date.now(), { address: [127, 0, 0, 1] })
  setDefaultCACertificates([...getCACertificates('default'), cert])
  writeFileSync(join(folder, 'cert.pem'), cert)
  writeFileSync(join(folder, 'key.pem'), key)
}

beforeAll(async () => {
  const store = await createDatabase('workers')
  folder = mkdtempSync(join(tmpdir(), 'collet-workers-'))
  writeFileSync(join(folder, 'collet.config.ts'), configWith())
  certify('first.example')
  const env = { COLLET_KEY: randomBytes(32).toString('base64') }
  const argv = ['serve', '--store', store, '--port', '0', '--workers', '2']
  server = await startCollet(argv, { cwd: folder, env })
}, 60_000)
afterAll(async () => {
  await server?.stop('SIGKILL')
  setDefaultCACertificates(known)
  rmSync(folder, { recursive: true, force: true })
})

/** Uses a new connection, so that the next one goes to the next worker. */
async function call(tool: string): Promise<{ success: boolean; value: unknown }> {
  const response = await fetch(`${server.url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    signal: AbortSignal.timeout(10_000),
    body: JSON.stringify({ request: { tool_id: tool, input: {} } }),
  })
  return ANSWER.parse(await response.json()).result
}

/** The processes that answer; sends requests until there are this many. */
async function processes(count: number): Promise<ReadonlySet<number>> {
  const found = new Set<number>()
  const untilMs = performance.now() + 20_000
  while (found.size < count && performance.now() < untilMs) {
    const { value } = await call('Process.Id').catch(() => ({ value: undefined }))
    if (typeof value === 'number') found.add(value)
  }
  return found
}

/** Name in the certificate of a new connection. */
async function shownName(): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(server.url).port) })
  await once(socket, 'secureConnect')
  const name = String(socket.getPeerCertificate().subject.CN)
  socket.destroy()
  return name
}

describe('collet serve --workers 2', () => {
  it('serves with two processes on one port, prints it once, and has one start token for both', async () => {
    expect((await processes(2)).size).toBe(2)
    expect(server.output().match(/serves 2 tools on/g)).toHaveLength(1)
    expect(server.output()).toContain('2 processes share the port')
    const [, file = ''] = /Start token +(\S+)/.exec(server.output()) ?? []
    const authorization = `Bearer ${readFileSync(file, 'utf8').trim()}`
    const statuses = await Promise.all(
      [1, 2, 3, 4].map(async () => {
        const headers = { authorization, connection: 'close' }
        return (await fetch(`${server.url}/admin/calls`, { headers })).status
      }),
    )
    expect(statuses).toEqual([200, 200, 200, 200])
  })

  it('shows the metrics of both, whichever answers', async () => {
    const text = await (await fetch(`${server.url}/metrics`, { headers: { connection: 'close' } })).text()
    for (const worker of [1, 2])
      expect(text).toMatch(new RegExp(`^process_cpu_seconds_total\\{worker="${worker}"\\}`, 'm'))
    expect(text.match(/^# TYPE process_cpu_seconds_total /gm)).toHaveLength(1)
  })

  it('reloads config and certificate in both on SIGHUP', async () => {
    certify('second.example')
    writeFileSync(
      join(folder, 'collet.config.ts'),
      configWith(
        "limits: { byTool: { 'Process.Work': { callsPerMinute: 600, burst: 50 } } }, mcp: { name: 'other' },",
      ),
    )
    process.kill(server.pid, 'SIGHUP')
    const lines = () =>
      server.output().match(/changed limits\.byTool(, server\.tls)?\.|Needs a restart: mcp\.name\./g)
    await expect.poll(lines, { timeout: 20_000 }).toHaveLength(4)
    for (const _ of Array(6).keys()) expect(await shownName()).toBe('second.example')
    expect((await call('Process.Work')).value).toBe('done')
  })

  it('restarts a killed worker, and serves meanwhile', async () => {
    const [victim = 0, other = 0] = await processes(2)
    process.kill(victim, 'SIGKILL')
    const now = await processes(2)
    expect(now.has(victim)).toBe(false)
    expect(now.has(other)).toBe(true)
    expect(server.output()).toMatch(/Worker [12] ended with exit code/)
  })

  it('lets calls finish when it is asked to stop, and deletes its start token', async () => {
    const pids = await processes(2)
    const [, file = ''] = /Start token +(\S+)/.exec(server.output()) ?? []
    rmSync(join(folder, 'begun'))
    const working = [call('Process.Work'), call('Process.Work'), call('Process.Work')]
    const begun = () => existsSync(join(folder, 'begun')) && readFileSync(join(folder, 'begun'), 'utf8')
    await vi.waitUntil(() => begun() === '...', { timeout: 20_000, interval: 5 })
    const stopped = server.stop('SIGTERM')
    for (const { success, value } of await Promise.all(working))
      expect({ success, value }).toEqual({ success: true, value: 'done' })
    expect(await stopped).toBe(0)
    expect(existsSync(file)).toBe(false)
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow(/ESRCH/)
  })
})
