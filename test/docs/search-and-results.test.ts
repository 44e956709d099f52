import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, expect, it } from 'vitest'
import { readBlocks } from './markdown-blocks.ts'

/** Runs the programs of docs/search.md and docs/results.md, and its embedding model against a server of this test. */

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const LIMIT_MS = 120_000
const folder = mkdtempSync(join(tmpdir(), 'collet-search-docs-'))
symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
writeFileSync(join(folder, 'package.json'), '{"type":"module"}')

afterAll(() => rmSync(folder, { recursive: true }))

function programIn(page: string, name: string): string {
  const text = readBlocks(page).find(({ text: each }) => each.startsWith(`// ${name}\n`))?.text ?? ''
  const source = (path: string): string => `'${pathToFileURL(join(ROOT, path)).href}'`
  writeFileSync(
    join(folder, name),
    text
      .replace("'collet'", source('src/index.ts'))
      .replace("'collet/client'", source('src/client/index.ts'))
      .replace('http://127.0.0.1:11434', 'http://127.0.0.1:PORT'),
  )
  return text
}

async function printedBy(...argv: readonly string[]): Promise<readonly string[]> {
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}`, NODE_OPTIONS: '' }
  const { stdout } = await run(process.execPath, ['--conditions=collet-source', ...argv], {
    cwd: folder,
    env,
  })
  return stdout.trimEnd().split('\n')
}

it.each([
  ['docs/search.md', 'search.ts', 2],
  ['docs/results.md', 'results.ts', 3],
])(
  'the program of %s prints what the page says',
  async (page, name, lines) => {
    const text = programIn(page, name)
    const shown = [...text.matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)].map(([, printed]) => printed)
    expect(shown).toHaveLength(lines)
    expect(await printedBy(name)).toEqual(shown)
  },
  LIMIT_MS,
)

it(
  'the embedding model of docs/search.md is asked for vectors',
  async () => {
    const model = createServer((request, response) => {
      request.resume().on('end', () => response.end(JSON.stringify({ embeddings: [[1, 2]] })))
    })
    await new Promise<void>((done) => model.listen(0, '127.0.0.1', done))
    try {
      const { port } = model.address() as AddressInfo
      programIn('docs/search.md', 'collet.config.ts')
      const file = JSON.stringify(pathToFileURL(join(folder, 'collet.config.ts')).href)
      const fetching = `const { fetch: own } = globalThis; globalThis.fetch = (url, init) => own(url.replace('PORT', '${port}'), init)`
      const script = `${fetching}; const { default: config } = await import(${file}); console.log(JSON.stringify(await config.search.embed(['a'])))`
      expect(await printedBy('--input-type=module', '--eval', script)).toEqual(['[[1,2]]'])
    } finally {
      await new Promise((done) => model.close(done))
    }
  },
  LIMIT_MS,
)
