import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '../..')
const require = createRequire(import.meta.url)
const LIMIT_MS = 120_000

const manifest = require.resolve('typescript/package.json')
const COMPILER = join(dirname(manifest), require(manifest).bin.tsc)

function compile(...options: readonly string[]): string {
  try {
    return execFileSync(process.execPath, [COMPILER, ...options], { cwd: ROOT, encoding: 'utf8' })
  } catch (error) {
    if (error instanceof Error && 'stdout' in error) return String(error.stdout)
    throw error
  }
}

/** What a project sees that installed the package, checks all declarations, and has no types of Node: a browser's, for one. */
describe('declarations of the package', () => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-types-'))
    const installed = join(folder, 'node_modules', 'collet')
    mkdirSync(installed, { recursive: true })
    cpSync(join(ROOT, 'package.json'), join(installed, 'package.json'))
    for (const name of ['zod', '@standard-schema'])
      symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name))
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    const out = ['--outDir', join(installed, 'dist')]
    expect(compile('-p', join(ROOT, 'tsconfig.build.json'), ...out)).toBe('')
  }, LIMIT_MS)
  afterAll(() => rmSync(folder, { recursive: true }))

  it.each(['collet', 'collet/client', 'collet/protocols/opentool'])(
    '%s',
    (entry) => {
      const file = join(folder, `${entry.replaceAll('/', '-')}.ts`)
      writeFileSync(file, `export * from '${entry}'\n`)
      const options = [
        '--ignoreConfig',
        '--noEmit',
        '--strict',
        '--module',
        'nodenext',
        '--target',
        'es2024',
        '--types',
        '',
      ]
      expect(compile(...options, file)).toBe('')
    },
    LIMIT_MS,
  )
})
