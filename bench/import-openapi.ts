import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PinDesk } from '#core/pins/pin-desk'
import { SYSTEM_CLOCK } from '#core/ports/clock'
import { SILENT_LOGGER } from '#core/ports/logger'
import { projectTools } from '#core/sources/project-tools'
import { createOpenapiSource } from '#sources/openapi/index'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'
import { SqliteStore } from '#store/sqlite/sqlite-store'

/** Imports one document in a process of its own, from its text to tools that are pinned and can be listed, and prints what that took. */
const [folder = '', file = ''] = process.argv.slice(2)
const refuse: typeof fetch = () => Promise.reject(new Error('the document needs no network'))
const services = { fetch: refuse, clock: SYSTEM_CLOCK, log: SILENT_LOGGER, folder }
const source = createOpenapiSource('github', OPENAPI_OPTIONS.parse({ type: 'openapi', file }), services)
const data = mkdtempSync(join(tmpdir(), 'collet-import-'))
const store = new SqliteStore({ path: join(data, 'collet.db'), masterKey: Buffer.alloc(32, 1) })
await store.probe()
const pins = new PinDesk({ store, clock: SYSTEM_CLOCK, log: SILENT_LOGGER })

const beforeBytes = process.memoryUsage().rss
const startedMs = performance.now()
await pins.observe(source, await source.discover(AbortSignal.timeout(60_000)))
const { tools } = await projectTools(source, await pins.accepted('github'), { defaultTimeoutMs: 60_000 })
const tookMs = performance.now() - startedMs
// Kibibytes, and the most there ever was: garbage on the way counts.
const extraBytes = process.resourceUsage().maxRSS * 1_024 - beforeBytes
console.log(JSON.stringify({ tools: tools.length, tookMs, extraBytes }))
await store.close()
rmSync(data, { recursive: true })
