import { spawnSync } from 'node:child_process'
import { chmodSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

rmSync(join(root, 'dist'), { recursive: true, force: true })

const require = createRequire(import.meta.url)
const manifest = require.resolve('typescript/package.json')
const compiler = join(dirname(manifest), require(manifest).bin.tsc)
const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
})
if (status !== 0) process.exit(status ?? 1)

// npm keeps the mode of a packed file, and some file systems lose it in a checkout.
chmodSync(join(root, 'bin', 'collet.js'), 0o755)
