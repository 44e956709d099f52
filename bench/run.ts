import { availableParallelism, cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { CONTENDERS, type ContenderName } from './contenders.ts'
import { formatTable } from './format-table.ts'
import type { LoadResult } from './load.ts'
import { type CatalogMeasurement, measureCatalog } from './measure-catalog.ts'
import { measureContender, type Timing } from './measure-contender.ts'
import { type Measurements, reportLine } from './report.ts'
import { contendersOf, isRowName, ROWS, type RowName } from './rows.ts'

const USAGE = `Usage: npm run bench -- [--quick] [--only ROW]... [--json]
  --quick     shorter measurements: a first look, not a result
  --only ROW  one of: ${Object.keys(ROWS).join(', ')}
  --json      print the report as JSON`

const ROUNDS = 3
const CONNECTIONS = 32
const FULL: Timing = { connections: CONNECTIONS, warmUpMs: 3_000, measureMs: 6_000 }
const QUICK: Timing = { connections: CONNECTIONS, warmUpMs: 1_000, measureMs: 2_000 }
/** Above this the generator, not the server, may be what limits a fast contender. */
const GENERATOR_LIMIT = 0.95

interface Options {
  readonly timing: Timing
  readonly rows: readonly RowName[]
  readonly json: boolean
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
  }
}

/** Round by round, every second round backwards, so that a drift of the machine falls on all sides alike. */
async function measureAll(options: Options): Promise<Measurements> {
  const rows = options.rows.map((name) => ROWS[name])
  const names = [...new Set(rows.flatMap(contendersOf))]
  const loads = new Map<ContenderName, LoadResult[]>(names.map((name) => [name, []]))
  const catalogs: CatalogMeasurement[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      progress(`round ${round + 1} of ${ROUNDS}: ${name}`)
      loads.get(name)?.push(await measureContender(CONTENDERS[name], options.timing))
    }
    if (rows.some((row) => row.kind === 'catalog')) {
      progress(`round ${round + 1} of ${ROUNDS}: catalog`)
      catalogs.push(await measureCatalog(options.timing.measureMs / 2))
    }
  }
  progress('')
  return { loads, catalogs }
}

/** One line that is written over, and only where somebody watches. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

function findBusiest(measured: Measurements): number {
  return Math.max(0, ...[...measured.loads.values()].flat().map((load) => load.generatorBusy))
}

const options = readOptions()
const measured = await measureAll(options)
const lines = options.rows.map((name) => reportLine(name, ROWS[name], measured))
const machine = {
  node: process.version,
  processor: cpus()[0]?.model ?? 'unknown',
  cores: availableParallelism(),
}
const generatorBusy = findBusiest(measured)

if (options.json) {
  console.log(
    JSON.stringify({ machine, timing: options.timing, rounds: ROUNDS, generatorBusy, lines }, null, 2),
  )
} else {
  const { connections, warmUpMs, measureMs } = options.timing
  console.log(`Node ${machine.node}, ${machine.processor}, ${machine.cores} cores`)
  console.log(
    `${connections} connections, ${ROUNDS} rounds of ${measureMs} ms after ${warmUpMs} ms of warm-up`,
  )
  console.log(`\n${formatTable(lines)}\n`)
  console.log(`Load generator busy at most ${Math.round(generatorBusy * 100)} % of the time.`)
  if (generatorBusy > GENERATOR_LIMIT) {
    console.log('It was close to its own limit: the fastest contender may be faster than shown.')
  }
}
process.exitCode = lines.some((line) => line.passed === false) ? 1 : 0
