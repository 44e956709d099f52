// `npm run build`, or `node scripts/build.mjs FOLDER [--code-only | --declarations-only | --no-console]`: the compiler writes declarations,
// one file per module; the bundler writes the code in few files. Node takes about 0.4 ms to find, read and link a
// module, so starting from two hundred of them would take longer than the work itself.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, posix, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { RolldownMagicString, rolldown } from 'rolldown'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const sources = join(root, 'src')
const target = resolve(process.argv[2] ?? join(root, 'dist'))

/**
 * Modules that are imported or started by path: in `dist/` they are where they are in `src/`, like their
 * declarations.
 */
const ENTRIES = [
  'index',
  'client/index',
  'agents/ai-sdk',
  'agents/anthropic',
  'agents/langchain',
  'agents/mastra',
  'agents/openai',
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

/** Modules that `collet serve` and `collet mcp` load on SQLite, in order: the build puts them into few files. */
const START = [
  'testing/index',
  'cli/main',
  'cli/commands/serve',
  'server/start-server',
  'server/start-stdio',
  'kernel/store/key-file',
  'kernel/store/key-ring',
  'store/sqlite/sqlite-store',
  'protocols/otc/routes',
  'protocols/openwop/routes',
  'protocols/mcp/http',
  'protocols/mcp/methods',
  'protocols/mcp/revision-2025/http',
  'protocols/opentool/routes',
  'protocols/opentool/codec-convert-tools',
  'protocols/opentool/codec-document-read',
]

/** Citations: `rule 9`, `OTC-60`, `OTC/T-12`, `MCP-8`, `OWP §6.6`, `C4`. */
const PLACE =
  '(?:[Rr]ules? \\d+[a-z]?|(?:OTC|OTS|MCP|OWP|OXP)(?:/[A-Z]?)?(?:-?\\d+| §[\\d.]+)|openwop §[\\d.]+|[TC]-?\\d+)'
const PLACES = `${PLACE}(?:(?:, | and | to |…)(?:${PLACE}|\\d+))*`
const IN_BRACKETS = new RegExp(`\\s*\\(${PLACES}\\)`, 'g')
const IN_FRONT = new RegExp(`(/\\*\\*\\s*(?:\\* )?)${PLACES}(?:: |\\. )(.)`, 'g')

/** Tests that run the built code need neither declarations nor the console. */
const isCodeOnly = process.argv.includes('--code-only')
const hasConsole = !isCodeOnly && !process.argv.includes('--no-console')

const missing = [...ENTRIES, ...START].filter((name) => !existsSync(fileOf(name)))
if (missing.length > 0) throw new Error(`no such modules: ${missing.join(', ')}`)
rmSync(target, { recursive: true, force: true })
if (!isCodeOnly) {
  declare()
  cleanDeclarations()
}
if (process.argv.includes('--declarations-only')) process.exit()
await bundle()
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

/** Prepares declarations for users: only those that an exported one needs, without citations and without types of Node. */
function cleanDeclarations() {
  const needed = neededDeclarations()
  for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.d.ts')) continue
    const file = join(target, name)
    if (needed.has(file)) writeFileSync(file, withoutNodeTypes(withoutCitations(readFileSync(file, 'utf8'))))
    else rmSync(file)
  }
}

/** The declarations of the package's exports, and those that they import. */
function neededDeclarations() {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const entries = Object.values(exports).flatMap(({ types }) => (types === undefined ? [] : types))
  const needed = new Set(entries.map((types) => join(target, types.slice('./dist/'.length))))
  for (const file of needed) {
    for (const [, name] of readFileSync(file, 'utf8').matchAll(
      /\b(?:from|import)\s*\(?\s*['"]([#.][^'"]+)['"]/g,
    )) {
      const path = name.startsWith('#') ? join(target, name.slice(1)) : resolve(dirname(file), name)
      needed.add(`${path.replace(/\.(?:js|ts)$/, '')}.d.ts`)
    }
  }
  return needed
}

/** Citations are for people who work on the sources, and an editor shows declarations to users. */
function withoutCitations(text) {
  return text
    .replace(/\/\*\*[\s\S]*?\*\//g, (comment) =>
      comment
        .replace(IN_BRACKETS, '')
        .replace(IN_FRONT, (_, start, letter) => `${start}${letter.toUpperCase()}`),
    )
    .replace(/^[ \t]*\/\*\* \*\/\n/gm, '')
}

/** Only internal members have types of Node; without them projects that lack `@types/node` can check declarations. */
function withoutNodeTypes(text) {
  return text
    .replace(/^import (?:type )?\{([^}]*)\} from 'node:[^']+';$/gm, (_, names) =>
      names
        .split(',')
        .map((name) => `type ${name.trim().split(' ').at(-1)}<_ = unknown> = unknown;`)
        .join('\n'),
    )
    .replace(/\bBuffer(?:<\w+>)?(?=[\s;,)>|[])/g, 'Uint8Array')
}

async function bundle() {
  const build = await rolldown({
    cwd: root,
    // The client must load in a browser; Node's modules are imported by name everywhere.
    platform: 'neutral',
    input: Object.fromEntries(ENTRIES.map((name) => [name, fileOf(name)])),
    resolve: { conditionNames: ['collet-source', 'import', 'node', 'default'] },
    // Packages stay external: users' tools share them with us (zod), and advisories about them reach their owners.
    external: (id) => /^[^./#]/.test(id) && !id.startsWith(root),
    plugins: [ownAddresses()],
    // Required by the way the output is split; no module of ours imports an entry, so none is extended.
    preserveEntrySignatures: 'allow-extension',
    // Some modules are imported lazily by one command and eagerly by another, which the bundler would warn about.
    checks: { ineffectiveDynamicImport: false, bundlerTimings: false },
    onLog: (level, log, say) => say(level === 'warn' ? 'error' : level, log),
  })
  await build.write({
    dir: target,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'parts/[name]-[hash].js',
    // Comments are for readers of the sources; the declarations keep theirs, and each module's path stays as a marker.
    comments: { jsdoc: false, legal: true, annotation: true },
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ name: groups(), debugName: 'start' }],
    },
  })
  await build.close()
}

/**
 * The packages of the console are only needed to build it; a build without them gives a server without the console.
 */
async function buildConsole() {
  const require = createRequire(import.meta.url)
  try {
    require.resolve('react')
  } catch {
    console.log('The console is left out: its packages are not installed. "npm ci" installs them.')
    return
  }
  // A test that builds sets another value, with which React would include its warnings.
  process.env.NODE_ENV = 'production'
  const { build } = await import('vite')
  const configFile = join(root, 'console/vite.config.ts')
  await build({ configFile, build: { outDir: join(target, 'console') }, logLevel: 'warn' })
}

function fileOf(name) {
  return join(sources, `${name}.ts`)
}

/**
 * Which output file a module belongs to: modules that the same entries reach are together. A module that the client,
 * a thread or a user's file also needs is apart from what only the server needs: a browser has no `node:` modules,
 * and the process of a pack no database. The bundler places what no start loads.
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

/** `import.meta.url` keeps the location that a module has in `src/`, wherever the bundler puts its code. */
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

/** Replaces with a source map, so that positions stay those of the sources. */
function replaced(code, pattern, replacement) {
  const text = new RolldownMagicString(code)
  for (const found of code.matchAll(pattern))
    text.overwrite(found.index, found.index + found[0].length, replacement(...found))
  return { code: text.toString(), map: String(text.generateMap({ hires: true })) }
}
