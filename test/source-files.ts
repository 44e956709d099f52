import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

export interface SourceFile {
  /** Path from the repository's root. */
  readonly path: string
  readonly text: string
  /** Every module it imports, as written. */
  readonly imports: readonly string[]
}

const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s[^'"`;]*?from\s*['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)|(?:^|\n)import\s*['"]([^'"]+)['"]/g

export function readSourceFiles(pattern: string): readonly SourceFile[] {
  return globSync(pattern, { cwd: ROOT })
    .sort()
    .map((path) => readSourceFile(path))
}

export function readSourceFile(path: string): SourceFile {
  const text = readFileSync(join(ROOT, path), 'utf8')
  return { path, text, imports: importsOf(text) }
}

export function importsOf(text: string): readonly string[] {
  return [...text.matchAll(IMPORT)].map((match) => match[1] ?? match[2] ?? match[3] ?? '')
}

/** The file of ours that an import of `from` names; `undefined` for packages and built-ins. */
export function resolveImport(from: string, specifier: string): string | undefined {
  if (specifier.startsWith('#')) return `src/${specifier.slice(1)}.ts`
  if (specifier.startsWith('.')) return relative('.', normalize(join(dirname(from), specifier)))
  return undefined
}

/** Type-only imports vanish, so they cannot make a cycle at run time. */
export function runtimeImports({ text }: SourceFile): readonly string[] {
  return importsOf(text.replaceAll(/^import type [^;]*?from\s*['"][^'"]+['"]/gm, ''))
}

/** The first import cycle at run time, if there is one. */
export function findCycle(all: readonly SourceFile[]): readonly string[] | undefined {
  const byPath = new Map(all.map((file) => [file.path, file]))
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): readonly string[] | undefined => {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path]
    const file = byPath.get(path)
    if (file === undefined || done.has(path)) return undefined
    for (const specifier of runtimeImports(file)) {
      const target = resolveImport(path, specifier)
      const cycle = target === undefined ? undefined : visit(target, [...trail, path])
      if (cycle !== undefined) return cycle
    }
    done.add(path)
    return undefined
  }
  for (const { path } of all) {
    const cycle = visit(path, [])
    if (cycle !== undefined) return cycle
  }
  return undefined
}
