import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, expect, it } from 'vitest'
import { readBlocks } from './markdown-blocks.ts'

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const LIMIT_MS = 120_000
const folder = mkdtempSync(join(tmpdir(), 'collet-results-docs-'))

afterAll(() => rmSync(folder, { recursive: true }))

it(
  'the program of docs/results.md prints what the page shows',
  async () => {
    const text = readBlocks('docs/results.md').find(({ language }) => language === 'ts')?.text ?? ''
    const source = (path: string): string => `'${pathToFileURL(join(ROOT, path)).href}'`
    const program = text
      .replace("'collet'", source('src/index.ts'))
      .replace("'collet/client'", source('src/client/index.ts'))
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    writeFileSync(join(folder, 'results.ts'), program)
    const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}`, NODE_OPTIONS: '' }
    const { stdout } = await run(process.execPath, ['--conditions=collet-source', 'results.ts'], {
      cwd: folder,
      env,
    })
    const printed = [...text.matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)].map(([, shown]) => shown)
    expect(printed).toHaveLength(3)
    expect(stdout.trimEnd().split('\n')).toEqual(printed)
  },
  LIMIT_MS,
)
