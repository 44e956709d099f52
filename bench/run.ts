import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, totalmem, type } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import type { ContenderName } from './contenders.ts'
import { databaseVersion, stopDatabase } from './database.ts'
import { formatResults, formatTable, type Setting } from './format-table.ts'
import { measureRound, type Timing, toError } from './measure-round.ts'
import { type Measurements, reportLine } from './report.ts'
import { contendersOf, isRowName, ROWS, type Row, type RowName } from './rows.ts'
import type { Figure } from './statistics.ts'
import { ONCE, SUBJECTS, type SubjectName } from './subjects.ts'

const USAGE = `Usage: npm run bench -- [--quick] [--only ROW]... [--json]
  --quick     shorter measurements: a first look, not a result
  --only ROW  one of: ${Object.keys(ROWS).join(', ')}
  --json      print the report as JSON
The whole table, not quick, is also written to bench/RESULTS.md.`

const ROUNDS = 3
const FULL: Timing = { warmUpMs: 5_000, sliceMs: 1_000, slices: 6 }
const QUICK: Timing = { warmUpMs: 1_000, sliceMs: 500, slices: 4 }
/** Above this, the load generator and not the server may be the limit of a fast contender. */
const GENERATOR_LIMIT = 0.95
const RESULTS = join(import.meta.dirname, 'RESULTS.md')
/** Packages whose versions are printed with the results. */
const PEERS = ['fastify', 'fastmcp', '@modelcontextprotocol/server', '@modelcontextprotocol/client', 'pg']

interface Options {
  readonly timing: Timing
  readonly rows: readonly RowName[]
  readonly json: boolean
  /** Whether the results are written to RESULTS.md. */
  readonly isWhole: boolean
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const unknown = values.only.find((name) => !isRowName(name))
  if (values.help || unknown !== undefined) {
    console.error(unknown === undefined ? USAGE : `There is no row "${unknown}".\n${USAGE}`)
    process.exit(values.help ? 0 : 2)
  }
  const rows = Object.keys(ROWS).filter(isRowName)
  return {
    timing: values.quick ? QUICK : FULL,
    rows: values.only.length === 0 ? rows : values.only.filter(isRowName),
    json: values.json,
    isWhole: !values.quick && values.only.length === 0,
  }
}

async function measureAll(options: Options): Promise<Measurements> {
  const rows: readonly Row[] = options.rows.map((name) => ROWS[name])
  const names = [...new Set(rows.flatMap(contendersOf))]
  const wanted = new Set(rows.flatMap((row) => (row.kind === 'figure' ? [row.subject] : [])))
  const rounds: Measurements['rounds'][number][] = []
  const subjects = new Map<SubjectName, Readonly<Record<string, Figure>>[] | Error>()
  for (let round = 1; round <= ROUNDS; round += 1) {
    const say = (step: string) => progress(`round ${round} of ${ROUNDS}: ${step}`)
    const failed = (name: ContenderName) => rounds.some((before) => before.get(name) instanceof Error)
    const left = names.filter((name) => !failed(name))
    rounds.push(await measureRound(left, options.timing, say))
    for (const subject of wanted) {
      const before = subjects.get(subject) ?? []
      // A subject that fails becomes a row with its error, so that the rest of a long run is not lost.
      if (before instanceof Error || (round > 1 && ONCE.has(subject))) continue
      say(subject)
      const measured = await SUBJECTS[subject](options.timing).catch(toError)
      subjects.set(subject, measured instanceof Error ? measured : [...before, measured])
    }
  }
  progress('')
  return { rounds, subjects }
}

/** One status line that is overwritten, only on a terminal. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

function findBusiest(measured: Measurements): number {
  return Math.max(
    0,
    ...measured.rounds
      .flatMap((round) => [...round.values()])
      .flatMap((load) => (load instanceof Error ? [] : load.generatorBusy)),
  )
}

function settingOf({ warmUpMs, sliceMs, slices }: Timing): Setting {
  const postgres = databaseVersion()
  return {
    date: new Date().toISOString().slice(0, 10),
    processor: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGigabytes: Math.round(totalmem() / 1e9),
    system: `${type()} ${release()}`,
    versions: {
      Node: process.versions.node,
      SQLite: process.versions.sqlite ?? 'unknown',
      ...(postgres === undefined ? {} : { PostgreSQL: postgres }),
      ...Object.fromEntries(PEERS.map((name) => [name, versionOf(name)])),
    },
    how: `${ROUNDS} rounds of ${slices} slices of ${sliceMs} ms, after ${warmUpMs} ms of warm-up; load average before it ${loadBefore.toFixed(1)}; ${minutesSince(startedMs)} minutes in all`,
  }
}

function minutesSince(ms: number): string {
  return ((performance.now() - ms) / 60_000).toFixed(0)
}

const MANIFEST = z.object({ version: z.string() })

function versionOf(name: string): string {
  const file = join(import.meta.dirname, '..', 'node_modules', name, 'package.json')
  return MANIFEST.parse(JSON.parse(readFileSync(file, 'utf8'))).version
}

const startedMs = performance.now()
const options = readOptions()
/** The load of other programs before the run. It affects the figures. */
const [loadBefore = 0] = loadavg()
const measured = await measureAll(options).finally(stopDatabase)
const lines = options.rows.map((name) => reportLine(name, ROWS[name], measured))
const setting = settingOf(options.timing)
const generatorBusy = findBusiest(measured)

if (options.json) {
  console.log(JSON.stringify({ setting, generatorBusy, lines }, null, 2))
} else {
  console.log(`${setting.processor}, ${setting.cores} cores, Node ${setting.versions.Node}`)
  console.log(setting.how)
  console.log(`\n${formatTable(lines)}\n`)
  console.log(`Load generator busy at most ${Math.round(generatorBusy * 100)} % of the time.`)
  if (generatorBusy > GENERATOR_LIMIT) {
    console.log('It was close to its own limit: the fastest contender may be faster than shown.')
  }
}
if (options.isWhole) writeFileSync(RESULTS, formatResults(lines, setting))
process.exitCode = lines.some((line) => line.must === false) ? 1 : 0
