// `npm run build`, or `node scripts/build.mjs FOLDER [--code-only | --no-console]`: declarations by the compiler, one file a module; code by the bundler, in few files. Node takes some 0.4 ms to find, read
// and link a module, so a start from two hundred of them would wait longer for files than for work.
import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, posix, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { RolldownMagicString, rolldown } from 'rolldown'
import { BUNDLED } from './bundled.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const sources = join(root, 'src')
const target = resolve(process.argv[2] ?? join(root, 'dist'))

/** What is imported or started by its path: in `dist/` where it is in `src/`, as are the declarations beside it. */
const ENTRIES = [
  'index',
  'client/index',
  'protocols/opentool/index',
  'testing/index',
  'server/handler',
  'cli/main',
  'server/import/head-worker',
  'sources/openapi/reading-worker',
  'sources/pack/child',
  'store/postgres/lease-worker',
  'kernel/store/sqlite/checkpoint-worker',
]

/** What `collet serve` and `collet mcp` load on SQLite, one after the other: together they are few files instead of many. */
const START = [
  'testing/index',
  'cli/main',
  'cli/commands/serve',
  'server/start-server',
  'server/start-stdio',
  'store/encryption',
  'store/key-ring',
  'store/sqlite/sqlite-store',
  'protocols/otc/routes',
  'protocols/openwop/routes',
  'protocols/mcp/routes',
  'protocols/opentool/routes',
  'protocols/opentool/codec-convert-tools',
  'protocols/opentool/codec-document-read',
]

/** `rule 9`, `OTC-60`, `OTC/T-12`, `MCP-8`, `OWP §6.6`, `C4`. */
const PLACE =
  '(?:[Rr]ules? \\d+[a-z]?|(?:OTC|OTS|MCP|OWP|OXP)(?:/[A-Z]?)?(?:-?\\d+| §[\\d.]+)|openwop §[\\d.]+|[TC]-?\\d+)'
const PLACES = `${PLACE}(?:(?:, | and | to |…)(?:${PLACE}|\\d+))*`
const IN_BRACKETS = new RegExp(`\\s*\\(${PLACES}\\)`, 'g')
const IN_FRONT = new RegExp(`(/\\*\\*\\s*(?:\\* )?)${PLACES}(?:: |\\. )(.)`, 'g')

/** Tests that run the code of the package need neither declarations nor pages. */
const isCodeOnly = process.argv.includes('--code-only')
const hasConsole = !isCodeOnly && !process.argv.includes('--no-console')

rmSync(target, { recursive: true, force: true })
if (!isCodeOnly) {
  declare()
  speakPlainly()
}
await bundle()
writeLicences()
if (hasConsole) await buildConsole()
run(
  '--conditions=collet-source',
  '--disable-warning=ExperimentalWarning',
  'scripts/config-schema.ts',
  join(target, 'config.schema.json'),
)
// npm keeps the mode of a packed file, and some file systems lose it in a checkout.
chmodSync(join(root, 'bin', 'collet.js'), 0o755)

function declare() {
  const require = createRequire(import.meta.url)
  const manifest = require.resolve('typescript/package.json')
  const compiler = join(dirname(manifest), require(manifest).bin.tsc)
  run(compiler, '-p', 'tsconfig.build.json', '--outDir', target)
}

function run(...args) {
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

/** Comments cite what they obey, for those who work on the sources; an editor shows declarations to people who want to know what a member does. */
function speakPlainly() {
  for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.d.ts')) continue
    const file = join(target, name)
    const text = readFileSync(file, 'utf8')
    const plain = text.replace(/\/\*\*[\s\S]*?\*\//g, (comment) =>
      comment
        .replace(IN_BRACKETS, '')
        .replace(IN_FRONT, (_, start, letter) => `${start}${letter.toUpperCase()}`),
    )
    if (plain !== text) writeFileSync(file, plain.replace(/^[ \t]*\/\*\* \*\/\n/gm, ''))
  }
}

async function bundle() {
  const build = await rolldown({
    cwd: root,
    // The client has to load in a browser; what is Node's is imported by name, as everywhere.
    platform: 'neutral',
    input: Object.fromEntries(ENTRIES.map((name) => [name, fileOf(name)])),
    resolve: { conditionNames: ['collet-source', 'import', 'node', 'default'] },
    // Packages stay packages: users' tools share them with us (zod), and advisories about them reach whoever has them. All but one.
    external: (id) => /^[^./#]/.test(id) && !id.startsWith(root) && !isBundled(id),
    plugins: [ownAddresses()],
    // Asked for by how parts are cut; nothing of ours imports an entry, so none is extended.
    preserveEntrySignatures: 'allow-extension',
    // A module that one command loads late and another at once is where it is for the first of them.
    checks: { ineffectiveDynamicImport: false, bundlerTimings: false },
    onLog: (level, log, say) => say(level === 'warn' ? 'error' : level, log),
  })
  await build.write({
    dir: target,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'parts/[name]-[hash].js',
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ name: groups(), debugName: 'start' }],
    },
  })
  await build.close()
}

function isBundled(id) {
  return BUNDLED.some((name) => id === name || id.startsWith(`${name}/`))
}

/** Their authors ask for one thing: that their notice goes with their code. */
function writeLicences() {
  const notices = BUNDLED.map((name) => {
    const folder = join(root, 'node_modules', name)
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry))
    if (file === undefined) throw new Error(`${name} has no licence in a file; write it out here.`)
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
  })
  writeFileSync(join(target, 'LICENSES.txt'), notices.join(`\n${'-'.repeat(72)}\n\n`))
}

/** The console's packages are for building it only; whoever builds without them gets a server without the page. */
async function buildConsole() {
  const require = createRequire(import.meta.url)
  try {
    require.resolve('react')
  } catch {
    console.log('The console is left out: its packages are not installed. "npm ci" installs them.')
    return
  }
  // A test that builds says otherwise, and React would bring its warnings along.
  process.env.NODE_ENV = 'production'
  const { build } = await import('vite')
  const configFile = join(root, 'console/vite.config.ts')
  await build({ configFile, build: { outDir: join(target, 'console') }, logLevel: 'warn' })
}

function fileOf(name) {
  return join(sources, `${name}.ts`)
}

/**
 * Which part a module of a start goes to: those that the same entries reach are together. A module that the client, a thread or a file of
 * the user's needs too is apart from what only the server needs: a browser has no `node:` modules, and the process of a pack no
 * database. What no start loads is left to the bundler.
 */
function groups() {
  let reaching
  return (id, context) => {
    reaching ??= [
      ['start', START],
      ...ENTRIES.filter((name) => !START.includes(name)).map((name) => [name, [name]]),
    ].map(([name, from]) => [name, reachableFrom(from.map(fileOf), context)])
    if (ENTRIES.some((name) => fileOf(name) === id)) return null
    const names = reaching.filter(([, modules]) => modules.has(id)).map(([name]) => name)
    return names[0] === 'start'
      ? names.map((name) => name.split('/').at(name.endsWith('/index') ? -2 : -1)).join('-')
      : null
  }
}

function reachableFrom(entries, context) {
  const found = new Set(entries)
  for (const id of found) for (const next of context.getModuleInfo(id)?.importedIds ?? []) found.add(next)
  return found
}

/** `import.meta.url` means the place that a module has in `src/`, wherever the bundler puts its code. */
function ownAddresses() {
  const mark = '__address_of_module__'
  const marked = new RegExp(`${mark}\\("([^"]+)"\\)`, 'g')
  return {
    name: 'own-addresses',
    transform(code, id) {
      if (!id.startsWith(sources + sep) || !code.includes('import.meta.url')) return null
      const path = relative(sources, id).replaceAll(sep, '/').replace(/\.ts$/, '.js')
      return replaced(code, /import\.meta\.url/g, () => `${mark}("${path}")`)
    },
    renderChunk(code, { fileName }) {
      if (!code.includes(mark)) return null
      const address = (path) => JSON.stringify(posix.relative(posix.dirname(fileName), path))
      return replaced(code, marked, (_, path) => `new URL(${address(path)}, import.meta.url).href`)
    },
  }
}

/** With a map, so that positions stay those of the sources. */
function replaced(code, pattern, replacement) {
  const text = new RolldownMagicString(code)
  for (const found of code.matchAll(pattern))
    text.overwrite(found.index, found.index + found[0].length, replacement(...found))
  return { code: text.toString(), map: String(text.generateMap({ hires: true })) }
}
