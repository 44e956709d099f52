import { spawn } from 'node:child_process'
import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Builds the package of a checkout if its build is missing or older than its sources. `collet init` uses it, because
 * the project that it makes imports the build. An installed package is never built.
 */

const SOURCES = ['src', 'scripts/build.mjs', 'tsconfig.build.json', 'package.json']

/** Whether this folder contains the sources of the package, not only its build. */
export function isCheckout(root: string): boolean {
  return existsSync(join(root, 'src', 'index.ts'))
}

/** Returns a function that builds the checkout; `undefined` if the build is newer than its sources. */
export function findPackageBuild(root: string): (() => Promise<void>) | undefined {
  // The build writes this file last.
  const builtMs = statSync(join(root, 'dist/config.schema.json'), { throwIfNoEntry: false })?.mtimeMs ?? 0
  const hasTypes = existsSync(join(root, 'dist/index.d.ts'))
  const isCurrent = hasTypes && SOURCES.every((path) => isOlder(join(root, path), builtMs))
  return isCurrent ? undefined : () => build(root)
}

function isOlder(path: string, ms: number): boolean {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return true
  if (!stats.isDirectory()) return stats.mtimeMs < ms
  return readdirSync(path).every((name) => isOlder(join(path, name), ms))
}

/**
 * Replaces `dist` only at the end and keeps an existing console, because a server of this checkout may be serving it.
 */
async function build(root: string): Promise<void> {
  const [target, temporary] = [join(root, 'dist'), join(root, `dist/.build-${process.pid}`)]
  try {
    const hasConsole = existsSync(join(target, 'console'))
    await runBuild(root, [temporary, ...(hasConsole ? ['--no-console'] : [])])
    for (const name of readdirSync(target)) {
      if (name !== 'console' && !name.startsWith('.build-')) rmSync(join(target, name), { recursive: true })
    }
    for (const name of readdirSync(temporary)) renameSync(join(temporary, name), join(target, name))
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

async function runBuild(root: string, args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, ['scripts/build.mjs', ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.on('error', reject)
  child.on('close', resolve)
  if ((await promise) !== 0) throw new Error(printed.trim())
}
