import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** Compiles files with the TypeScript of the project, as strictly as it can; returns what the compiler prints. */
const require = createRequire(import.meta.url)
const manifest = require.resolve('typescript/package.json')
const COMPILER = join(dirname(manifest), require(manifest).bin.tsc)

const OPTIONS = [
  ...['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess'],
  ...['--noUnusedLocals', 'false', '--target', 'es2024', '--module', 'nodenext', '--types', ''],
]

export function compile(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'collet-types-'))
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [COMPILER, '--ignoreConfig', ...OPTIONS, ...Object.keys(files)],
      { cwd: folder, encoding: 'utf8' },
    )
    return status === 0 ? '' : `${stdout.slice(0, 4_000)}${stderr}`
  } finally {
    rmSync(folder, { recursive: true })
  }
}
