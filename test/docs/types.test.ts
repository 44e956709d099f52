import { spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import * as calculator from '../../examples/demo/tools/calculator.ts'
import { FakeIo } from '../cli/fake-io.ts'
import { testSettings } from '../test-settings.ts'
import { readBlocks } from './markdown-blocks.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const require = createRequire(import.meta.url)
const CHECK_LIMIT_MS = 120_000
const manifest = require.resolve('typescript/package.json')
const COMPILER = join(dirname(manifest), require(manifest).bin.tsc)
const LANGUAGES: ReadonlySet<string> = new Set(['ts', 'typescript'])

/** Ledgers quote third-party documents, and decision notes show rejected code. */
const FOLDERS = ['docs', 'docs/protocols', 'docs/recipes', 'docs/sources']
const DOCUMENTS = [
  'README.md',
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${folder}/${name}`),
  ),
]

/** The file that a block is compiled as: a config, or keys of a config, are wrapped in `defineConfig`. */
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

/** A project from `collet init`, with the package and its declarations, which are built once for all tests here. */
async function makeProject(folder: string): Promise<void> {
  expect(await new FakeIo({}, { workingFolder: folder }).run('init')).toBe(0)
  const modules = join(folder, 'node_modules')
  const installed = join(modules, 'collet')
  mkdirSync(installed, { recursive: true })
  cpSync(join(ROOT, 'package.json'), join(installed, 'package.json'))
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (!name.startsWith('.')) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  const build = [join(ROOT, 'scripts/build.mjs'), join(installed, 'dist'), '--declarations-only']
  expect(spawnSync(process.execPath, build, { encoding: 'utf8' })).toMatchObject({ stdout: '', status: 0 })
  for (const { file, text } of BLOCKS) writeFileSync(join(folder, file), fileOf(text))
  await writeTools(folder)
}

/** The file that `docs/client.md` imports, from a server with the tool that it calls. */
async function writeTools(folder: string): Promise<void> {
  const settings = testSettings({ tools: requireTools(Object.values(calculator)) })
  const server = await startServer(settings, { graceMs: 0 })
  try {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder })
    expect(await io.run('types', server.url, '-o', 'tools.d.ts')).toBe(0)
  } finally {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true })
  }
}

function compile(...options: readonly string[]): string {
  return spawnSync(process.execPath, [COMPILER, ...options], { cwd: folder, encoding: 'utf8' }).stdout
}

let folder = ''
let output: readonly string[] = []

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'collet-doc-types-')))
  await makeProject(folder)
  output = compile('-p', folder).split('\n')
}, CHECK_LIMIT_MS)

afterAll(() => rmSync(folder, { recursive: true }))

describe('the TypeScript of the documentation, in a project from collet init', () => {
  it('is found, and the files of the project itself have no type errors', () => {
    expect(BLOCKS.length).toBeGreaterThan(25)
    const files = BLOCKS.map(({ file }) => file)
    expect(
      output.filter(
        (line) => line !== '' && !/^\s/.test(line) && !files.some((file) => line.startsWith(file)),
      ),
    ).toEqual([])
  })

  it.each(BLOCKS.map(({ document, line, file }) => [`${document}:${line}`, file] as const))(
    '%s passes the type check',
    (_place, file) => {
      expect(output.filter((line) => line.startsWith(file))).toEqual([])
    },
  )
})

/** A project that checks all declarations and has no types of Node, for example one for a browser. */
it(
  'declarations of the package pass without types of Node',
  () => {
    const entries = ['collet', 'collet/client', 'collet/protocols/opentool']
    const files = entries.map((entry) => {
      const file = join(folder, 'tools', `${entry.replaceAll('/', '-')}.ts`)
      writeFileSync(file, `export * from '${entry}'\n`)
      return file
    })
    const options = ['--ignoreConfig', '--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024']
    expect(compile(...options, '--types', '', ...files)).toBe('')
  },
  CHECK_LIMIT_MS,
)
