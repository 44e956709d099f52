import { rmSync } from 'node:fs'
import { afterAll, expect, it } from 'vitest'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { sqliteSettings } from '../test-settings.ts'

const NOTE = {
  id: 'Note.Write@1.0.0',
  description: 'Notes something.',
  input: {},
  output: { type: 'string' },
  policy: { safetyTier: 'write' },
  run: () => 'noted',
}
const settings = sqliteSettings({ tools: requireTools([NOTE]) })
const servers: RunningServer[] = []

async function start(): Promise<RunningServer> {
  const server = await startServer(settings, { graceMs: 100 })
  servers.push(server)
  return server
}

afterAll(async () => {
  for (const server of servers) await server.close()
  rmSync(settings.dataFolder, { recursive: true })
})

it('warns at the start while another live server writes to the SQLite file', async () => {
  const about = ({ warnings }: RunningServer) => warnings.filter((text) => text.includes('this SQLite file'))
  const first = await start()
  expect(about(first)).toEqual([])
  const called = await fetch(`${first.url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request: { tool_id: 'Note.Write', call_id: 'n', input: {} } }),
  })
  expect([called.status, await called.text()]).toEqual([200, expect.stringContaining('noted')])
  const second = await start()
  expect(about(second)).toEqual([expect.stringContaining('No call runs twice')])
  for (const server of servers.splice(0)) await server.close()
  expect(about(await start())).toEqual([])
})
