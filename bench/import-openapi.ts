import { readFileSync, rmSync } from 'node:fs'
import { z } from 'zod'
import { startServer } from '#server/start-server'
import { longestTurn } from '../test/longest-turn.ts'
import { sqliteSettings } from '../test/test-settings.ts'

/**
 * Adds one OpenAPI document to a server in this process, and prints the time, processor time and memory until its tools are served.
 * `measure-import.ts` starts it. Turns of the event loop are timed in a separate run, because timing them creates tens of megabytes of
 * garbage.
 */
const [folder = '', file = '', watched = 'memory'] = process.argv.slice(2)
const SOURCES = z.object({
  sources: z.array(z.object({ tools: z.number(), read_at: z.string().nullable() })),
})
const settings = sqliteSettings({ folder })
const server = await startServer(settings)
const authorization = `Bearer ${readFileSync(server.startTokenFile, 'utf8').trim()}`

// Loads Node's `fetch` before the measurement, because this script uses it and a server does not.
await listSources()
const beforeBytes = process.memoryUsage().rss
const before = process.cpuUsage()
const startedMs = performance.now()
const stallMs = watched === 'turns' ? await longestTurn(readDocument) : await readDocument().then(() => 0)
const tookMs = performance.now() - startedMs
const { user, system } = process.cpuUsage(before)
// `maxRSS` is in kibibytes and is the peak, so temporary garbage counts.
const extraBytes = process.resourceUsage().maxRSS * 1_024 - beforeBytes
const [source] = await listSources()
const listBytes = (await (await fetch(`${server.url}/tools`)).arrayBuffer()).byteLength
const cpuMs = (user + system) / 1_000
console.log(JSON.stringify({ tools: source?.tools ?? 0, tookMs, cpuMs, stallMs, extraBytes, listBytes }))
await server.close()
rmSync(settings.dataFolder, { recursive: true })

async function readDocument(): Promise<void> {
  const body = JSON.stringify({ key: 'Api', options: { type: 'openapi', file } })
  const headers = { authorization, 'content-type': 'application/json' }
  const added = await fetch(`${server.url}/admin/sources`, { method: 'POST', headers, body })
  if (!added.ok) throw new Error(await added.text())
  await added.body?.cancel()
  while ((await listSources())[0]?.read_at === null) await new Promise((resolve) => setTimeout(resolve, 50))
}

async function listSources() {
  const response = await fetch(`${server.url}/admin/sources`, { headers: { authorization } })
  return SOURCES.parse(await response.json()).sources
}
