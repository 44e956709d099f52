import { availableParallelism, cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { formatTable } from './format-table.ts'
import { type CatalogMeasurement, measureCatalog } from './measure-catalog.ts'
import { type FollowersMeasurement, measureFollowers } from './measure-followers.ts'
import { type HopMeasurement, measureHop } from './measure-hop.ts'
import { type ImportMeasurement, measureImport } from './measure-import.ts'
import { measurePrincipals, type PrincipalsMeasurement } from './measure-principals.ts'
import { measureRound, type Timing } from './measure-round.ts'
import { type Measurements, reportLine } from './report.ts'
import { contendersOf, isRowName, ROWS, type RowName } from './rows.ts'

const USAGE = `Usage: npm run bench -- [--quick] [--only ROW]... [--json]
  --quick     shorter measurements: a first look, not a result
  --only ROW  one of: ${Object.keys(ROWS).join(', ')}
  --json      print the report as JSON`

const ROUNDS = 3
const FULL: Timing = { warmUpMs: 3_000, sliceMs: 1_000, slices: 6 }
const QUICK: Timing = { warmUpMs: 1_000, sliceMs: 500, slices: 4 }
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

async function measureAll(options: Options): Promise<Measurements> {
  const rows = options.rows.map((name) => ROWS[name])
  const names = [...new Set(rows.flatMap(contendersOf))]
  const rounds: Measurements['rounds'][number][] = []
  const catalogs: CatalogMeasurement[] = []
  const principals: PrincipalsMeasurement[] = []
  const followers: FollowersMeasurement[] = []
  const imports: ImportMeasurement[] = []
  const hops: HopMeasurement[] = []
  for (let round = 1; round <= ROUNDS; round += 1) {
    const say = (step: string) => progress(`round ${round} of ${ROUNDS}: ${step}`)
    rounds.push(await measureRound(names, options.timing, say))
    if (rows.some((row) => row.kind === 'catalog')) {
      say('catalog')
      catalogs.push(await measureCatalog(options.timing.sliceMs * 2))
    }
    if (rows.some((row) => row.kind === 'principals' || row.kind === 'principalsMemory')) {
      say('principals')
      principals.push(await measurePrincipals(options.timing.sliceMs * 2))
    }
    if (rows.some((row) => row.kind === 'followers')) {
      say('followers')
      followers.push(await measureFollowers())
    }
    for (const row of rows) {
      if (row.kind !== 'import') continue
      say(`import of ${row.document}`)
      imports.push(await measureImport(row.document))
    }
    if (rows.some((row) => row.kind === 'hop')) {
      say('hop')
      hops.push(await measureHop())
    }
  }
  progress('')
  return { rounds, catalogs, principals, followers, imports, hops }
}

/** One line that is written over, and only where somebody watches. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

function findBusiest(measured: Measurements): number {
  return Math.max(
    0,
    ...measured.rounds.flatMap((round) => [...round.values()].map((load) => load.generatorBusy)),
  )
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
  const { warmUpMs, sliceMs, slices } = options.timing
  console.log(`Node ${machine.node}, ${machine.processor}, ${machine.cores} cores`)
  console.log(`${ROUNDS} rounds of ${slices} slices of ${sliceMs} ms, after ${warmUpMs} ms of warm-up`)
  console.log(`\n${formatTable(lines)}\n`)
  console.log(`Load generator busy at most ${Math.round(generatorBusy * 100)} % of the time.`)
  if (generatorBusy > GENERATOR_LIMIT) {
    console.log('It was close to its own limit: the fastest contender may be faster than shown.')
  }
}
process.exitCode = lines.some((line) => line.passed === false) ? 1 : 0
