import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { readBlocks } from './markdown-blocks.ts'

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'collet-opentool-docs-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Runs the commands on the sources; readers run them on the package. */
const SOURCES: Readonly<Record<string, string>> = {
  "'collet'": sourceOf('src/index.ts'),
  "'collet/protocols/opentool'": sourceOf('src/protocols/opentool/index.ts'),
}

function sourceOf(path: string): string {
  return `'${pathToFileURL(join(ROOT, path)).href}'`
}

const blocks = readBlocks('docs/protocols/opentool.md')
const samples = blocks.flatMap((block, index) => {
  const output = blocks[index + 1]
  const runs = block.language === 'ts' && block.text.includes("'collet/protocols/opentool'")
  return runs && output?.language === 'text' ? [{ block, output }] : []
})

describe('the examples of docs/protocols/opentool.md on documents', () => {
  it('exist', () => {
    expect(samples.length).toBeGreaterThanOrEqual(4)
  })

  it.each(samples.map(({ block, output }) => [block.line, block, output] as const))(
    'line %i prints the shown output',
    async (line, block, output) => {
      const file = join(folder, `line-${line}.ts`)
      writeFileSync(
        file,
        block.text.replaceAll(/'collet[^']*'/g, (name) => SOURCES[name] ?? name),
      )
      const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
      const { stdout } = await run(process.execPath, [...flags, file], { cwd: folder })
      expect(stdout).toBe(output.text)
    },
  )
})
