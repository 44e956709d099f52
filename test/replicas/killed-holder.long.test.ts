import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { SESSION_HEADER } from '#protocols/call-wire'
import { CALL_WAYS } from '../conformance/call-ways.ts'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { createDatabase } from '../store/databases.ts'

const SOURCES = fileURLToPath(new URL('../../src/index.ts', import.meta.url))
const CONFIG = `import { defineConfig, tool } from ${JSON.stringify(SOURCES)}
const ms = { type: 'number', description: 'How long.' }
export default defineConfig({
  tools: [
    tool({ id: 'List.Add@1.0.0', description: 'Counts.', input: { type: 'object', properties: { ms } }, output: {},
      policy: { safetyTier: 'write' }, session: { open: () => [], close: () => undefined },
      run: async ({ ms = 0 }, { session }) => {
        await new Promise((resolve) => setTimeout(resolve, ms))
        return session.push(ms)
      } }),
  ],
})
`
/** Two leases, and time to notice. */
const LONGEST_MS = 25_000

let folder: string
const servers: ServerProcess[] = []

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-killed-'))
  writeFileSync(join(folder, 'collet.config.ts'), CONFIG)
  const argv = ['serve', '--store', await createDatabase('killed'), '--port', '0']
  const env = { COLLET_KEY: randomBytes(32).toString('base64') }
  for (const _ of [1, 2]) servers.push(await startCollet(argv, { cwd: folder, env }))
}, 60_000)
afterAll(async () => {
  for (const server of servers) await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

it('rule 30: a session whose replica is killed is lost, and its calls are told so and never run again', async () => {
  const [holder, other] = servers
  if (holder === undefined || other === undefined) throw new Error('two were started')
  const opened = await fetch(`${holder.url}/v1/sessions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ toolId: 'openwop:List.Add' }),
  })
  const { sessionId } = z.object({ sessionId: z.string() }).parse(await opened.json())
  const headers = { [SESSION_HEADER]: sessionId }
  const add = (input: object, key?: string) =>
    CALL_WAYS.OTC(other.url, { tool: 'List.Add', input, headers, ...(key === undefined ? {} : { key }) })
  expect(await add({})).toMatchObject({ code: 'ok', value: 1 })
  const cut = add({ ms: 60_000 }, 'cut')
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  const killedMs = performance.now()
  await holder.stop('SIGKILL')
  // Nobody can tell yet: the holder may only be slow, or out of reach.
  expect(['not_ready', 'outcome_unknown']).toContain((await add({})).code)
  expect((await cut).code).toBe('session_lost')
  expect(performance.now() - killedMs).toBeLessThan(LONGEST_MS)
  expect((await add({ ms: 60_000 }, 'cut')).code).toBe('session_lost')
  const later = await add({})
  expect([later.code, later.message]).toEqual([
    'session_not_found',
    expect.stringContaining('the server that held its state is gone'),
  ])
}, 60_000)
