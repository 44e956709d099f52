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
