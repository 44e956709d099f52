import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readBlocks } from './markdown-blocks.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const require = createRequire(import.meta.url)
const CHECK_LIMIT_MS = 120_000
const LANGUAGES: ReadonlySet<string> = new Set(['ts', 'typescript'])

/** Ledgers quote documents of others; decision notes show what was rejected. */
const FOLDERS = ['docs', 'docs/protocols', 'docs/recipes', 'docs/sources']
const DOCUMENTS = [
  'README.md',
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${folder}/${name}`),
  ),
]

/** A block as the file it stands for: keys of a config, and configs without types, get those of `defineConfig`. */
function fileOf(text: string): string {
  const config = /^(?:\/\/.*\n)?export default (\{[\s\S]*\})\n$/.exec(text)?.[1]
  const keys = /^\w+: \{\n/.test(text) ? `{ ${text} }` : undefined
  const written = config ?? keys
  if (written === undefined) return text
  return `import { defineConfig } from 'collet'\nexport default defineConfig(${written})\n`
}

const BLOCKS = DOCUMENTS.flatMap((document) =>
  readBlocks(document)
    .filter(({ language }) => LANGUAGES.has(language))
    .map(({ text, line }) => ({
      document,
      line,
      file: `${document.replaceAll(/[/.]/g, '-')}-${line}.ts`,
      text,
    })),
)

/** What the compiler says about a document's code, as a reader with `strict` sees it. */
function checkTypes(folder: string): string {
  const entry = (path: string) => [join(ROOT, 'src', path)]
  const compilerOptions = {
    target: 'es2024',
    lib: ['es2024', 'esnext.disposable'],
    module: 'nodenext',
    customConditions: ['collet-source'],
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules/@types')],
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    noEmit: true,
    paths: {
      collet: entry('index.ts'),
      'collet/client': entry('client/index.ts'),
      'collet/http': entry('server/handler.ts'),
      'collet/testing': entry('testing/index.ts'),
      'collet/protocols/opentool': entry('protocols/opentool/index.ts'),
    },
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  for (const { file, text } of BLOCKS) writeFileSync(join(folder, file), fileOf(text))
  const manifest = require.resolve('typescript/package.json')
  const compiler = join(dirname(manifest), require(manifest).bin.tsc)
  try {
    return execFileSync(process.execPath, [compiler, '-p', folder], { cwd: folder, encoding: 'utf8' })
  } catch (error) {
    if (error instanceof Error && 'stdout' in error) return String(error.stdout)
    throw error
  }
}

describe('the TypeScript of the documentation', () => {
  let folder = ''
  let said: readonly string[] = []
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-doc-types-'))
    said = checkTypes(folder).split('\n')
  }, CHECK_LIMIT_MS)
  afterAll(() => rmSync(folder, { recursive: true }))

  it('is found', () => {
    expect(BLOCKS.length).toBeGreaterThan(25)
    // Whatever is wrong belongs to a block, or the test is.
    const files = BLOCKS.map(({ file }) => file)
    expect(
      said.filter((line) => line !== '' && !/^\s/.test(line) && !files.some((file) => line.startsWith(file))),
    ).toEqual([])
  })

  it.each(BLOCKS.map(({ document, line, file }) => [`${document}:${line}`, file] as const))(
    '%s passes strict mode',
    (_place, file) => {
      expect(said.filter((line) => line.startsWith(file))).toEqual([])
    },
  )
})
