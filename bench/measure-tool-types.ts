import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { nameTools } from '#cli/tools/write-types'
import { connect } from '#client/index'
import { startServer } from '#server/start-server'
import { writeToolTypes } from '#typescript/tool-types'
import { testSettings } from '../test/test-settings.ts'
import { OWN_SET, readSet } from './search/read-tools.ts'

/**
 * `npm run bench:types`: how long the compiler takes for a program that calls 1 000 tools through a typed client, and how much memory.
 * The tools are those of GitHub's OpenAPI document and of public MCP servers. The program fails if a limit is exceeded.
 */

const ROOT = resolve(import.meta.dirname, '..')
const TOOLS = 1_000
const MAX_SECONDS = 3
const MAX_MEGABYTES = 500
const RUNS = 5

const settings = testSettings({ tools: (await readSet(OWN_SET)).tools.slice(0, TOOLS) })
const server = await startServer(settings)
const tools = nameTools(await connect(server.url).list())
await server.close()
const before = performance.now()
const { text, widened } = writeToolTypes(tools)
console.log(
  `${tools.length} tools, ${(text.length / 1e6).toFixed(1)} MB of types, written in ${Math.round(performance.now() - before)} ms, ${widened.length} with wider types`,
)

const folder = mkdtempSync(join(tmpdir(), 'collet-bench-types-'))
try {
  writeFileSync(join(folder, 'tools.d.ts'), text)
  writeFileSync(join(folder, 'calls.ts'), callEach())
  writeFileSync(
    join(folder, 'none.ts'),
    "import { connect } from 'collet/client'\nvoid connect('http://h')\n",
  )
  compile('none.ts')
  const [seconds, megabytes] = best('calls.ts')
  const [alone] = best('none.ts')
  console.log(
    `type check: ${seconds.toFixed(2)} s (must be < ${MAX_SECONDS}), of which ${alone.toFixed(2)} s without the tools`,
  )
  console.log(`memory: ${Math.round(megabytes)} MB (must be < ${MAX_MEGABYTES})`)
  if (seconds >= MAX_SECONDS || megabytes >= MAX_MEGABYTES) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true })
  rmSync(settings.dataFolder, { recursive: true })
}

/** A program that calls every tool. Every second call uses another name of its tool. */
function callEach(): string {
  const lines = tools.map(({ name, others }, index) => {
    const written = index % 2 === 0 ? name : (others[0] ?? name)
    return `export const call${index} = (input: never) => client.call(${JSON.stringify(written)}, input)`
  })
  const head = [
    "import { connect } from 'collet/client'",
    "import type { Tools } from './tools.d.ts'",
    "const client = connect<Tools>('http://127.0.0.1:4100')",
  ]
  return `${[...head, ...lines].join('\n')}\n`
}

/** The shortest time and its memory: other programs only make it slower. */
function best(file: string): readonly [seconds: number, megabytes: number] {
  const runs = Array.from({ length: RUNS }, () => compile(file))
  return runs.reduce((least, run) => (run[0] < least[0] ? run : least))
}

function compile(file: string): readonly [seconds: number, megabytes: number] {
  const { resolve: find } = createRequire(import.meta.url)
  const compiler = join(dirname(find('typescript/package.json')), 'bin/tsc')
  const compilerOptions = {
    ...{
      noEmit: true,
      strict: true,
      exactOptionalPropertyTypes: true,
      target: 'es2024',
      lib: ['es2024', 'dom', 'esnext.disposable'],
    },
    ...{ module: 'nodenext', types: [], allowImportingTsExtensions: true, skipLibCheck: false },
    customConditions: ['collet-source'],
    paths: { 'collet/client': [join(ROOT, 'src/client/index.ts')] },
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [file] }))
  const started = performance.now()
  const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', folder, '--extendedDiagnostics'], {
    encoding: 'utf8',
  })
  const seconds = (performance.now() - started) / 1_000
  const kilobytes = /Memory used:\s*(\d+)K/.exec(stdout)?.[1]
  if (status !== 0 || kilobytes === undefined) throw new Error(stdout.slice(0, 4_000))
  return [seconds, Number(kilobytes) / 1_000]
}
