import { pathToFileURL } from 'node:url'
import { readSourceFiles, resolveImport, runtimeImports, type SourceFile } from '../test/source-files.ts'

/**
 * `npm run structure` prints the size of the source by folder, the size of the kernel, and broken rules of CONTRIBUTING.md. It fails
 * if a rule is broken.
 */

const MAX_FILES = 20
const MAX_LINES = 500
/** A smaller module with a single importer belongs in that importer. */
const MIN_LINES = 60
/** Everything the kernel loads at run time. */
const MAX_KERNEL_LINES = 15_000

/** The embedded gateway on SQLite, without the rest of the product. */
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
}

export interface Module {
  readonly path: string
  readonly lines: number
  readonly importers: readonly string[]
  readonly hasOpening: boolean
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
  return files.map(({ path, text }) => ({
    path,
    lines: text.split('\n').length - 1,
    importers: [...(importers.get(path) ?? [])],
    hasOpening: OPENING.test(text) || OPENING.test(text.replace(IMPORTS, '')),
  }))
}

/** A block comment of several lines at the beginning of a module, or right after its imports. */
const OPENING = /^\s*\/\*[^/]*\n[\s\S]*?\*\//
const IMPORTS =
  /^(?:\s*(?:import|export)\s[^'"`;]*?from\s*'[^']+'(?: with \{[^}]*\})?|\s*import\s*'[^']+'|\s*\/\/[^\n]*\n|\s+)*/

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
    ...long.map(({ path, lines }) => `${path} has ${lines} lines; split it into two concepts`),
    ...small.map(
      ({ path, lines, importers }) =>
        `${path} has ${lines} lines and one importer: make it a private part of ${importers[0]}`,
    ),
    ...modules.filter(lacksOpening).map(({ path }) => `${path} has no opening comment about what it owns`),
    ...unneeded.map((path) => `${path} is listed in scripts/structure.ts but does not exist`),
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

function lacksOpening({ path, lines, hasOpening }: Module): boolean {
  return !hasOpening && (path.startsWith('console/') || lines > MIN_LINES)
}

/** Words that comments avoid: an indefinite person instead of the actor, verbs of speech for data flow, metaphors. */
const ODD_WORDS =
  /\b(?:nobody|somebody|whoever|everybody|anybody|(?:is|are|was|were) told|of before|such as never|anew|house|rooms|doors?|guests?|shelf|shelves|breath|manners)\b|\/\*\*? The same\b|^\s*\* The same\b/i
/** Names that the field does not use: MAX_ and MIN_ are its words for limits. */
const ODD_NAMES =
  /\b(?:MOST|LONGEST|LARGEST|LEAST|FEWEST|DEEPEST)_[A-Z]|[Hh]indrance|\bheed[A-Z]|[wW]ayOn|[lL]astWords|\bmanners\b|[bB]reathe|Meant\b|whyNot|[iI]dleNames|\btell[A-Z]|\b(?:const|let|function) (?:told|heard)\b/
const COMMENT = /\/\*[\s\S]*?\*\/|(?<![:'"`])\/\/[^\n]*/g

/** Lines of comments with odd words, and lines with odd names, as `path: text`. */
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

/** Every file whose comments and names are checked; this one lists the words. */
export function readAllFiles(): readonly SourceFile[] {
  const files = readSourceFiles('{src,console/src,scripts,bench,examples,test}/**/*.{ts,tsx,mjs,js}')
  return files.filter(({ path }) => path !== 'scripts/structure.ts' && path !== 'test/structure.test.ts')
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
  const odd = findOddWords(readAllFiles())
  process.stdout.write(`Odd words in comments and names: ${odd.length}\n`)
  const faults = [
    ...findFaults(modules),
    ...odd,
    ...(kernel.lines > MAX_KERNEL_LINES ? [`the kernel has ${kernel.lines} lines`] : []),
  ]
  for (const fault of faults) process.stderr.write(`${fault}\n`)
  if (faults.length > 0) process.exitCode = 1
}
