import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { SESSION_HEADER } from '#protocols/call-wire'
import { CALL_WAYS } from '../conformance/call-ways.ts'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { createDatabase, query } from '../store/databases.ts'

const SOURCES = fileURLToPath(new URL('../../src/index.ts', import.meta.url))
/** The first run of each tool waits for the file `go`; each run writes a line. */
const CONFIG = `import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { defineConfig, tool } from ${JSON.stringify(SOURCES)}
const work = (id, safetyTier, more = {}) => tool({ id, description: 'For the test.', policy: { safetyTier }, ...more,
  input: { type: 'object', properties: { name: { type: 'string', description: 'Which.' } }, required: ['name'] }, output: { type: 'string' },
  run: async ({ name }) => {
    appendFileSync('runs', name + '\\n')
    while (name !== 'quick' && !existsSync('go')) await setTimeout(20)
    return name + ' is done'
  } })
const session = { open: () => [], close: () => undefined }
export default defineConfig({ tools: [work('Kit.Write@1.0.0', 'write'), work('Kit.Read@1.0.0', 'read'), work('List.Add@1.0.0', 'write', { session })] })
`
const LEASE_S = 5

let folder: string
let database: string
const servers: ServerProcess[] = []

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-killed-'))
  writeFileSync(join(folder, 'collet.config.ts'), CONFIG)
  database = await createDatabase('killed')
  const argv = ['serve', '--store', `${database}?lease=${LEASE_S}`, '--port', '0']
  const env = { COLLET_KEY: randomBytes(32).toString('base64') }
  for (const _ of [1, 2]) servers.push(await startCollet(argv, { cwd: folder, env }))
}, 60_000)
afterAll(async () => {
  for (const server of servers) await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

it('calls of a killed replica are decided within two leases: ambiguous if they may have had effects, else run again', async () => {
  const [holder, other] = servers
  if (holder === undefined || other === undefined) throw new Error('two were started')
  const opened = await fetch(`${holder.url}/v1/sessions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ toolId: 'openwop:List.Add' }),
  })
  const { sessionId } = z.object({ sessionId: z.string() }).parse(await opened.json())
  const headers = { [SESSION_HEADER]: sessionId }
  const add = (name: string, more: object = {}) =>
    CALL_WAYS.OTC(other.url, { tool: 'List.Add', input: { name }, headers, ...more })
  expect(await add('quick')).toMatchObject({ code: 'ok', value: 'quick is done' })
  const inSession = add('in session', { key: 'in-session' })
  const ask = (server: ServerProcess, tool: string, name: string) =>
    CALL_WAYS.OTC(server.url, { tool, input: { name }, key: name })
  const cut = [ask(holder, 'Kit.Write', 'write'), ask(holder, 'Kit.Read', 'read')]
  for (const call of cut) call.catch(() => undefined)
  await vi.waitUntil(() => runs().length === 4, { timeout: 30_000 })

  const killedMs = performance.now()
  await holder.stop('SIGKILL')
  writeFileSync(join(folder, 'go'), '')
  // The call did not reach the holder, so it may be repeated; whether the holder has ended is not known yet.
  expect((await add('quick')).code).toBe('not_ready')
  const [write, read, lost] = await Promise.all([
    ask(other, 'Kit.Write', 'write'),
    ask(other, 'Kit.Read', 'read'),
    inSession,
  ])
  expect(performance.now() - killedMs).toBeLessThan(2 * LEASE_S * 1_000)
  expect([write.code, lost.code]).toEqual(['ambiguous', 'session_lost'])
  expect(read).toMatchObject({ code: 'ok', value: 'read is done' })
  expect((await ask(other, 'Kit.Write', 'write')).code).toBe('ambiguous')
  expect((await add('in session', { key: 'in-session' })).code).toBe('session_lost')
  const later = await add('quick')
  expect([later.code, later.message]).toEqual([
    'session_not_found',
    expect.stringContaining('the server that held its state stopped'),
  ])
  // Rule 8 and rule 30: a call that may have had effects ran once, and no call is left as running.
  expect(runs().toSorted()).toEqual(['in session', 'quick', 'read', 'read', 'write'])
  expect(await query(database, "SELECT record FROM calls WHERE state = 'running'")).toEqual([])
  const metrics = await (await fetch(`${other.url}/metrics`)).text()
  expect(metrics).toMatch(/^collet_calls_ambiguous_total 1$/m)
  expect(metrics).toMatch(/^collet_ready 1$/m)
}, 60_000)

function runs(): readonly string[] {
  const file = join(folder, 'runs')
  return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : []
}
