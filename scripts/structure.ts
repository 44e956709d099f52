import { pathToFileURL } from 'node:url'
import { readSourceFiles, resolveImport, runtimeImports, type SourceFile } from '../test/source-files.ts'

/**
 * `npm run structure`: the size of the source by folder, the size of the kernel, and which rules of CONTRIBUTING.md are broken.
 * Fails when one is.
 */

const MAX_FILES = 20
const MAX_LINES = 500
/** A smaller module with a single importer belongs in that importer. */
const MIN_LINES = 60
/** Everything the kernel loads at run time. */
const MAX_KERNEL_LINES = 15_000

/** The embedded gateway on SQLite, without anything of the product around it. */
export const KERNEL_ENTRIES: readonly string[] = [
  'src/kernel/call/gateway.ts',
  'src/kernel/store/store.ts',
  'src/kernel/store/kernel-modules.ts',
  'src/kernel/store/sqlite/open.ts',
]

/** Small modules with one importer, each with the reason why it is separate. */
const SMALL_FOR_A_REASON: Readonly<Record<string, string>> = {
  'src/sources/openapi/index.ts': 'the entry point of a source type, which the table of sources opens',
  ...Object.fromEntries(
    ['otc', 'opentool', 'mcp'].map((name) => [
      `src/protocols/${name}/protocol.ts`,
      'the entry point of a protocol, which the list of protocols names',
    ]),
  ),
  'src/kernel/store/sqlite/open.ts': 'opens the kernel’s own store, without the modules of the product',
  'src/server/resource-metadata.ts': 'RFC 9728 is a concept of its own',
}

/** Modules that users of the package import. */
const ENTRY_POINTS = new Set([
  'src/index.ts',
  'src/client/index.ts',
  'src/protocols/opentool/index.ts',
  'src/testing/index.ts',
])

/** Names without an importer, each with the reason why it is exported. */
const EXPORTED_FOR_A_REASON: Readonly<Record<string, string>> = {
  'src/kernel/base/hooks.ts TokenFacts': 'the declaration of the config schema names it',
}

export interface Module {
  readonly path: string
  readonly lines: number
  readonly importers: readonly string[]
  /** Names it exports that no other file imports, tests included. */
  readonly needless: readonly string[]
}

export function readModules(): readonly Module[] {
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

/** The frame and the parts of the console are a kit for its pages, with every state that its design names. */
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

/** By module: the names that other files import from it. A dynamic import may use every name of its file. */
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

/** The modules that these load at run time, themselves included. */
export function closureOf(files: readonly SourceFile[], entries: readonly string[]): readonly string[] {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const seen = new Set<string>()
  const visit = (path: string): void => {
    const file = byPath.get(path)
    if (file === undefined || seen.has(path)) return
    seen.add(path)
    for (const specifier of runtimeImports(file)) {
      const target = resolveImport(path, specifier)
      if (target !== undefined) visit(target)
    }
  }
  for (const entry of entries) visit(entry)
  return [...seen]
}

/** Broken rules, one sentence each. */
export function findFaults(modules: readonly Module[]): readonly string[] {
  const crowded = [...countByFolder(modules)].filter(([, count]) => count > MAX_FILES)
  const long = modules.filter(({ lines }) => lines > MAX_LINES)
  const small = modules.filter(
    ({ path, lines, importers }) =>
      // A component is small by nature.
      !path.startsWith('console/') &&
      lines < MIN_LINES &&
      importers.length === 1 &&
      SMALL_FOR_A_REASON[path] === undefined,
  )
  const unneeded = Object.keys(SMALL_FOR_A_REASON).filter(
    (path) => !modules.some((module) => module.path === path),
  )
  return [
    ...crowded.map(([folder, count]) => `${folder} has ${count} source files; the maximum is ${MAX_FILES}`),
    ...long.map(({ path, lines }) => `${path} has ${lines} lines; split it where it is two concepts`),
    ...small.map(
      ({ path, lines, importers }) =>
        `${path} has ${lines} lines and one importer: make it a private part of ${importers[0]}`,
    ),
    ...modules.flatMap(({ path, needless }) =>
      needless.map((name) => `${path} exports ${name}, which no other file imports`),
    ),
    ...unneeded.map((path) => `${path} is listed in scripts/structure.ts and is not there`),
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

/** Words that an engineer would not write in a comment, and prefixes that are not MAX_ or MIN_. */
const ODD_WORDS =
  /\b(?:nobody|somebody|whoever|everybody|anybody|(?:is|are|was|were) told|of before)\b|\/\*\* The same\b/i
const ODD_NAMES = /\b(?:MOST|LONGEST|LARGEST|LEAST|FEWEST|DEEPEST)_[A-Z]/
const COMMENT = /\/\*[\s\S]*?\*\/|(?<!:)\/\/[^\n]*/g

/** Lines of comments with such words, and lines with such names, as `path: text`. */
export function findOddWords(files: readonly SourceFile[]): readonly string[] {
  return files.flatMap(({ path, text }) => {
    const comments = [...text.matchAll(COMMENT)].flatMap(([comment]) => comment.split('\n'))
    const odd = [
      ...comments.filter((line) => ODD_WORDS.test(line)),
      ...text.split('\n').filter((line) => ODD_NAMES.test(line)),
    ]
    return odd.map((line) => `${path}: ${line.trim()}`)
  })
}

function kernelSize(modules: readonly Module[]): { readonly files: number; readonly lines: number } {
  const loaded = new Set(closureOf(readSourceFiles('src/**/*.ts'), KERNEL_ENTRIES))
  const inside = modules.filter(({ path }) => loaded.has(path))
  return { files: inside.length, lines: inside.reduce((sum, { lines }) => sum + lines, 0) }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const modules = readModules()
  print(modules)
  const kernel = kernelSize(modules)
  process.stdout.write(
    `\nKernel: ${kernel.files} files, ${kernel.lines} lines (at most ${MAX_KERNEL_LINES})\n`,
  )
  const faults = [
    ...findFaults(modules),
    ...(kernel.lines > MAX_KERNEL_LINES ? [`the kernel has ${kernel.lines} lines`] : []),
  ]
  for (const fault of faults) process.stderr.write(`${fault}\n`)
  if (faults.length > 0) process.exitCode = 1
}
