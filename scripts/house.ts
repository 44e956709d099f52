import { pathToFileURL } from 'node:url'
import { readSourceFiles, resolveImport, type SourceFile } from '../test/source-files.ts'

/** `npm run house`: how the source is cut, and what breaks the rules of CONTRIBUTING.md. Fails when a rule is broken. */

const MOST_FILES = 20
const MOST_LINES = 500
const FEW_LINES = 60

/** Modules that are small and have one importer, each with the reason why it is not a part of that importer. */
const SMALL_FOR_A_REASON: Readonly<Record<string, string>> = {
  'src/sources/openapi/index.ts': 'the entry point of a source type, which the table of sources opens',
  ...Object.fromEntries(
    ['otc', 'opentool', 'mcp'].map((name) => [
      `src/protocols/${name}/protocol.ts`,
      'the entry point of a protocol, which the list of protocols names',
    ]),
  ),
  'src/server/resource-metadata.ts': 'RFC 9728 is a concept of its own',
}

/** What the package's users import; their names are for others to use. */
const ENTRY_POINTS = new Set([
  'src/index.ts',
  'src/client/index.ts',
  'src/protocols/opentool/index.ts',
  'src/testing/index.ts',
])

/** Names that nobody imports, each with the reason why it is exported all the same. */
const EXPORTED_FOR_A_REASON: Readonly<Record<string, string>> = {
  'src/core/runtime.ts TokenFacts': 'the declaration of the config schema names it',
}

export interface Module {
  readonly path: string
  readonly lines: number
  readonly importers: readonly string[]
  /** Names it exports and no other file imports, tests included. */
  readonly needless: readonly string[]
}

export function readHouse(): readonly Module[] {
  const files = readSourceFiles('{src,console/src}/**/*.{ts,tsx}').filter(
    ({ path }) => !path.endsWith('.test.ts'),
  )
  const importers = new Map<string, Set<string>>(files.map(({ path }) => [path, new Set()]))
  for (const { path, imports } of files)
    for (const specifier of imports) {
      const target = resolveImport(path, specifier)
      if (target !== undefined) importers.get(target)?.add(path)
    }
  const imported = readImportedNames()
  return files.map((file) => ({
    path: file.path,
    lines: file.text.split('\n').length - 1,
    importers: [...(importers.get(file.path) ?? [])],
    needless: isForOthers(file.path) ? [] : needlessIn(file, imported.get(file.path) ?? new Set()),
  }))
}

/** The frame and the parts of the console are a kit for its places, with every state that its design names. */
function isForOthers(path: string): boolean {
  return ENTRY_POINTS.has(path) || /^console\/src\/(?:api|app|parts)\//.test(path)
}

const EXPORT = /^export (?:async )?(?:abstract )?(?:function\*?|const|class|interface|type|let) (\w+)/gm
const STATIC_IMPORT = /(?:^|\n)\s*(?:import|export)\s([^'"`;]*?)\sfrom\s*['"]([^'"]+)['"]/g
const DYNAMIC_IMPORT = /import\(\s*['"]([^'"]+)['"]\s*\)/g

function needlessIn({ path, text }: SourceFile, imported: ReadonlySet<string>): readonly string[] {
  if (imported.has('*')) return []
  return [...text.matchAll(EXPORT)]
    .map(([, name = '']) => name)
    .filter((name) => !imported.has(name) && EXPORTED_FOR_A_REASON[`${path} ${name}`] === undefined)
}

/** By module: what any other file names when it imports it. A dynamic import may use every word of its file. */
function readImportedNames(): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>()
  const add = (target: string | undefined, names: readonly string[]): void => {
    if (target === undefined) return
    const known = found.get(target) ?? new Set()
    for (const name of names) known.add(name)
    found.set(target, known)
  }
  for (const { path, text } of readSourceFiles(
    '{src,console/src,test,bench,examples,scripts}/**/*.{ts,tsx,js,mjs}',
  )) {
    for (const [, clause = '', specifier = ''] of text.matchAll(STATIC_IMPORT))
      add(resolveImport(path, specifier), namesIn(clause))
    for (const [, specifier = ''] of text.matchAll(DYNAMIC_IMPORT))
      add(resolveImport(path, specifier), text.match(/\w+/g) ?? [])
  }
  return found
}

/** `{ a, type B, c as d }` is a, B and c; `*` is everything. */
function namesIn(clause: string): readonly string[] {
  if (clause.includes('*')) return ['*']
  const [, listed = ''] = /\{([^}]*)\}/.exec(clause) ?? []
  return listed.split(',').map((part) =>
    part
      .trim()
      .replace(/^type /, '')
      .replace(/ as .*$/, ''),
  )
}

/** What breaks a rule of the house, a sentence each; empty when nothing does. */
export function findFaults(modules: readonly Module[]): readonly string[] {
  const crowded = [...countByFolder(modules)].filter(([, count]) => count > MOST_FILES)
  const long = modules.filter(({ lines }) => lines > MOST_LINES)
  const small = modules.filter(
    ({ path, lines, importers }) =>
      // A component is small by nature.
      !path.startsWith('console/') &&
      lines < FEW_LINES &&
      importers.length === 1 &&
      SMALL_FOR_A_REASON[path] === undefined,
  )
  const unneeded = Object.keys(SMALL_FOR_A_REASON).filter(
    (path) => !modules.some((module) => module.path === path),
  )
  return [
    ...crowded.map(([folder, count]) => `${folder} has ${count} source files; the most is ${MOST_FILES}`),
    ...long.map(({ path, lines }) => `${path} has ${lines} lines; split it where it is two concepts`),
    ...small.map(
      ({ path, lines, importers }) =>
        `${path} has ${lines} lines and one importer: make it a private part of ${importers[0]}`,
    ),
    ...modules.flatMap(({ path, needless }) =>
      needless.map((name) => `${path} exports ${name}, which no other file imports`),
    ),
    ...unneeded.map((path) => `${path} is listed in scripts/house.ts and is not there`),
  ]
}

function countByFolder(modules: readonly Module[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { path } of modules) {
    const folder = path.slice(0, path.lastIndexOf('/'))
    counts.set(folder, (counts.get(folder) ?? 0) + 1)
  }
  return counts
}

function print(modules: readonly Module[]): void {
  const lengths = modules.map(({ lines }) => lines).sort((a, b) => a - b)
  const total = lengths.reduce((sum, lines) => sum + lines, 0)
  const fullest = Math.max(...countByFolder(modules).values())
  const alone = modules.filter(({ importers }) => importers.length === 1).length
  const row = [
    modules.length,
    total,
    Math.round(total / modules.length),
    lengths[Math.floor(lengths.length / 2)],
    lengths.at(-1),
    fullest,
    alone,
  ]
  process.stdout.write(
    [
      '| files | lines | mean | median | longest | most files in a folder | files with one importer |',
      '|---|---|---|---|---|---|---|',
      `| ${row.join(' | ')} |`,
      '',
      '| folder | files | lines | longest |',
      '|---|---|---|---|',
      ...[...countByFolder(modules)].sort().map(([folder, count]) => {
        const inside = modules.filter(({ path }) => path.slice(0, path.lastIndexOf('/')) === folder)
        const longest = inside.reduce((most, one) => (one.lines > most.lines ? one : most))
        const lines = inside.reduce((sum, one) => sum + one.lines, 0)
        return `| ${folder} | ${count} | ${lines} | ${longest.path.slice(folder.length + 1)} ${longest.lines} |`
      }),
      '',
    ].join('\n'),
  )
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const modules = readHouse()
  print(modules)
  const faults = findFaults(modules)
  for (const fault of faults) process.stderr.write(`${fault}\n`)
  if (faults.length > 0) process.exitCode = 1
}
