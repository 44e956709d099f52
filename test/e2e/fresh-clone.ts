import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '../..')
const COMMAND_LIMIT_MS = 120_000

/** This repository after `git clone` and `npm ci`: committed files and packages, without a build. */
export interface FreshClone {
  readonly folder: string
  /** The machine's own Node is first on its PATH, whatever its version. */
  readonly env: NodeJS.ProcessEnv
  /** Runs a shell block in the folder, as printed in a document. */
  run(block: string): ShellResult
  remove(): void
}

export interface ShellResult {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export function makeFreshClone(): FreshClone {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'collet-clone-')))
  execFileSync('git', ['clone', '--quiet', '--no-hardlinks', '--depth', '1', `file://${ROOT}`, folder])
  // Instead of `npm ci`, which would need the network.
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const env = userEnvironment()
  return {
    folder,
    env,
    run: (block) =>
      spawnSync('sh', ['-ec', block], { cwd: folder, env, encoding: 'utf8', timeout: COMMAND_LIMIT_MS }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** The environment without what the test run adds: the Node and the variables that npm sets for scripts, and flags for Node. */
function userEnvironment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_|VITEST|COLLET_)/i.test(name))
  const path = (process.env.PATH ?? '').split(delimiter).filter((part) => !part.includes('node_modules'))
  const hasNode = path.some((part) => existsSync(join(part, 'node')))
  const parts = hasNode ? path : [...path, join(ROOT, 'node_modules/.bin')]
  return { ...Object.fromEntries(own), PATH: parts.join(delimiter), NO_COLOR: '1' }
}
