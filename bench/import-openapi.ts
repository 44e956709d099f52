import { SYSTEM_CLOCK } from '#core/ports/clock'
import { SILENT_LOGGER } from '#core/ports/logger'
import { createOpenapiSource } from '#sources/openapi/index'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'

/** Imports one document in a process of its own, and prints what that took. */
const [folder = '', file = ''] = process.argv.slice(2)
const refuse: typeof fetch = () => Promise.reject(new Error('the document needs no network'))
const services = { fetch: refuse, clock: SYSTEM_CLOCK, log: SILENT_LOGGER, folder }
const source = createOpenapiSource('github', OPENAPI_OPTIONS.parse({ type: 'openapi', file }), services)

const beforeBytes = process.memoryUsage().rss
const startedMs = performance.now()
const { tools } = await source.discover(AbortSignal.timeout(60_000))
const tookMs = performance.now() - startedMs
// Kibibytes, and the most there ever was: garbage on the way counts.
const extraBytes = process.resourceUsage().maxRSS * 1_024 - beforeBytes
console.log(JSON.stringify({ tools: tools.length, tookMs, extraBytes }))
