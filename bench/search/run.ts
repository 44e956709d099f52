import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { Registry } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { familiesOf } from '#search/families'
import { metaTools } from '#search/for-models'
import { openToolSearch } from '#search/tool-search'
import { readTasks, readTools, taskName } from './read-tools.ts'

/**
 * `npm run bench:search`: how well and how fast the search over tools is, on the tasks of this folder. Prints one table for each
 * wording of the tasks, then latency and memory with 10 000 tools, and the size of the list in search mode.
 */

const CALLER: Principal = { id: 'bench', tenant: 'default', scopes: ['*'] }
const LARGE = 10_000
const BEST = 5

function openSearch(tools: readonly Tool[]) {
  const registry = new Registry(tools)
  const catalogFor = (principal: Principal) => registry.catalogFor(principal)
  return {
    catalog: catalogFor(CALLER),
    search: openToolSearch({ catalogFor, clock: SYSTEM_CLOCK, log: SILENT_LOGGER }),
  }
}

async function score(tools: readonly Tool[], wording: number): Promise<string> {
  const { search } = openSearch(tools)
  const tasks = readTasks()
  let [first, among, gain] = [0, 0, 0]
  for (const { tools: wanted, wordings } of tasks) {
    const { found } = await search.find(CALLER, wordings[wording] ?? '', BEST)
    const rank = found.findIndex(({ tool }) => wanted.includes(taskName(tool)))
    if (rank === 0) first += 1
    if (rank === -1) continue
    among += 1
    gain += 1 / Math.log2(rank + 2)
  }
  const share = (count: number): string => (count / tasks.length).toFixed(3)
  return `wording ${wording + 1}: recall@1 ${share(first)}  recall@5 ${share(among)}  nDCG@5 ${share(gain)}  (${tasks.length} tasks, ${tools.length} tools)`
}

/** Copies the tools into further sources, until there are enough. */
function manyTools(tools: readonly Tool[]): readonly Tool[] {
  const many: Tool[] = [...tools]
  for (let copy = 2; many.length < LARGE; copy += 1)
    for (const tool of tools.slice(0, LARGE - many.length)) {
      const toolkit = `${tool.parts.toolkit}${copy}`
      const local = tool.parts.base.slice(tool.parts.toolkit.length)
      const base = `${toolkit}${local}`
      many.push({
        ...tool,
        id: `${base}@${tool.parts.version}`,
        parts: { ...tool.parts, toolkit, base },
        name: `${tool.name}_${copy}`,
        catalogId: `${tool.catalogId}-${copy}`,
      })
    }
  return many
}

async function measureLarge(tools: readonly Tool[]): Promise<string> {
  const { search, catalog } = openSearch(manyTools(tools))
  catalog.latest()
  const texts = readTasks().flatMap(({ wordings }) => wordings)
  globalThis.gc?.()
  const before = process.memoryUsage()
  const startMs = performance.now()
  await search.find(CALLER, 'warm up')
  const buildMs = performance.now() - startMs
  globalThis.gc?.()
  const after = process.memoryUsage()
  const bytes = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers
  for (const text of texts) await search.find(CALLER, text)
  const tookMs: number[] = []
  for (const text of [...texts, ...texts]) {
    const fromMs = performance.now()
    await search.find(CALLER, text)
    tookMs.push(performance.now() - fromMs)
  }
  tookMs.sort((left, right) => left - right)
  const at = (share: number): string => (tookMs[Math.floor(tookMs.length * share)] ?? 0).toFixed(2)
  return `${LARGE} tools: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, index ${(bytes / 1e6).toFixed(1)} MB, made in ${Math.round(buildMs)} ms`
}

const tools = await readTools()
for (const wording of [0, 1, 2]) console.log(await score(tools, wording))
console.log(await measureLarge(tools))
const list = JSON.stringify(
  metaTools({ count: tools.length, families: familiesOf(openSearch(tools).catalog) }),
)
console.log(`tools/list in search mode: ${Buffer.byteLength(list)} bytes for ${tools.length} tools`)
