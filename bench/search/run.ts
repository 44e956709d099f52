import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { Registry } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { listCost } from '#protocols/mcp/results/list-cost'
import { DEFAULT_MODEL_BYTES } from '#protocols/mcp/results/read-result'
import { openToolSearch, type PastSearches } from '#search/tool-search'
import { rememberedSearches } from './learned.ts'
import { OTHER_SET, OWN_SET, readSet, type Task, type TaskSet, taskName } from './read-tools.ts'

/**
 * `npm run bench:search`: how well and how fast the search over tools is, on the tasks of this folder. Prints a row for each
 * wording of the tasks, alone and after remembered searches, then latency and memory with 10 000 tools, and the size of the list in
 * search mode.
 */

const CALLER: Principal = { id: 'bench', tenant: 'default', scopes: ['*'] }
const LARGE = 10_000
const SHOWN = 10
const WIDTH = 62
const REMEMBERED = [10, 100]

function openSearch(tools: readonly Tool[], past?: PastSearches) {
  const registry = new Registry(tools)
  const catalogFor = (principal: Principal) => registry.catalogFor(principal)
  return {
    catalog: catalogFor(CALLER),
    search: openToolSearch({ catalogFor, clock: SYSTEM_CLOCK, log: SILENT_LOGGER, past }),
  }
}

interface Score {
  readonly first: number
  readonly five: number
  readonly ten: number
  readonly gain: number
}

async function score({ tools, tasks }: TaskSet, wording: number, past?: PastSearches): Promise<Score> {
  const { search } = openSearch(tools, past)
  let [first, five, ten, gain] = [0, 0, 0, 0]
  for (const { tools: wanted, wordings } of tasks) {
    const { found } = await search.find(CALLER, wordings[wording] ?? '', SHOWN)
    const rank = found.findIndex(({ tool }) => wanted.includes(taskName(tool)))
    if (rank === -1) continue
    ten += 1
    if (rank === 0) first += 1
    if (rank >= 5) continue
    five += 1
    gain += 1 / Math.log2(rank + 2)
  }
  const [all, share] = [tasks.length, (count: number) => count / tasks.length]
  return all === 0
    ? { first, five, ten, gain }
    : { first: share(first), five: share(five), ten: share(ten), gain: share(gain) }
}

function mean(scores: readonly Score[]): Score {
  const of = (member: keyof Score): number =>
    scores.reduce((sum, score) => sum + score[member], 0) / scores.length
  return { first: of('first'), five: of('five'), ten: of('ten'), gain: of('gain') }
}

function print(label: string, { first, five, ten, gain }: Score, cold?: Score): void {
  const columns = [first, five, ten, gain].map((value) => value.toFixed(3).padEnd(11)).join('')
  const more = cold === undefined ? '' : `@5 ${signed(five - cold.five)}, @1 ${signed(first - cold.first)}`
  console.log(`${label.padEnd(WIDTH)}${columns}${more}`)
}

function signed(value: number): string {
  return `${value < 0 ? '' : '+'}${value.toFixed(3)}`
}

const WORDINGS = [0, 1, 2]

/** Scores each wording with the remembered searches of the other two. */
async function measure(label: string, set: TaskSet): Promise<void> {
  const cold: Score[] = []
  for (const wording of WORDINGS) {
    const measured = await score(set, wording)
    cold.push(measured)
    print(`${label}, wording ${wording + 1}`, measured)
  }
  print(`${label}, mean`, mean(cold))
  for (const bySame of [false, true])
    for (const count of REMEMBERED) {
      const scores: Score[] = []
      for (const without of WORDINGS)
        scores.push(
          await score(set, without, rememberedSearches(set.tasks, set.tools, { without, count, bySame })),
        )
      print(
        `${label}, ${count} searches a tool ${bySame ? 'of the caller' : 'of others'}`,
        mean(scores),
        mean(cold),
      )
    }
}

/** Tools without their descriptions, as APIs without texts have them. */
function withoutTexts({ tools, tasks }: TaskSet): TaskSet {
  return { tasks, tools: tools.map(({ title, ...tool }) => ({ ...tool, description: '' })) }
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

async function measureLarge(tools: readonly Tool[], tasks: readonly Task[]): Promise<string> {
  const { search, catalog } = openSearch(manyTools(tools))
  catalog.latest()
  const texts = tasks.flatMap(({ wordings }) => wordings)
  globalThis.gc?.()
  const before = process.memoryUsage()
  const startMs = performance.now()
  await search.find(CALLER, 'warm up')
  const buildMs = performance.now() - startMs
  globalThis.gc?.()
  const after = process.memoryUsage()
  const bytes = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers
  for (const text of texts) await search.find(CALLER, text)
  const [tookMs, usedMs]: [number[], number[]] = [[], []]
  for (const text of [...texts, ...texts]) {
    const [fromMs, from] = [performance.now(), process.cpuUsage()]
    await search.find(CALLER, text)
    tookMs.push(performance.now() - fromMs)
    const { user, system } = process.cpuUsage(from)
    usedMs.push((user + system) / 1_000)
  }
  const at = (times: readonly number[], share: number): string =>
    (times.toSorted((left, right) => left - right)[Math.floor(times.length * share)] ?? 0).toFixed(2)
  return [
    `${LARGE} tools: p50 ${at(tookMs, 0.5)} ms, p99 ${at(tookMs, 0.99)} ms (processor time: p99 ${at(usedMs, 0.99)} ms),`,
    `index ${(bytes / 1e6).toFixed(1)} MB, made in ${Math.round(buildMs)} ms`,
  ].join(' ')
}

const own = await readSet(OWN_SET)
const other = await readSet(OTHER_SET)
console.log(
  `${own.tasks.length} tasks over ${own.tools.length} tools; others: ${other.tasks.length} over ${other.tools.length}`,
)
console.log(`${''.padEnd(WIDTH)}recall@1   recall@5   recall@10  nDCG@5`)
await measure('own set', own)
await measure('own set without descriptions', withoutTexts(own))
print('other set', await score(other, 0))
console.log(await measureLarge(own.tools, own.tasks))
const { list, search } = listCost(openSearch(own.tools).catalog, { modelBytes: DEFAULT_MODEL_BYTES })
for (const [mode, { tools, bytes, tokens }] of Object.entries({ list, search }))
  console.log(`tools/list, ${mode}: ${tools} tools, ${bytes} bytes, about ${tokens} tokens`)
