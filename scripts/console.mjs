// Builds the console into dist/console if it is missing or older than its sources; `npm start` and `./collet serve`
// run it first. A server works without the console, so a failed build is reported and ends with exit code 0.
import { readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const target = join(root, 'dist/console')
/** The console imports pure modules of the server from these folders. */
const SOURCES = [
  'console/src',
  'console/public',
  'console/index.html',
  'console/vite.config.ts',
  'src/kernel',
  'src/sources/kit',
  'src/stages/credentials',
  'package-lock.json',
]

const builtMs = modifiedMs(join(target, 'index.html'))
if (!SOURCES.every((path) => isUnchanged(join(root, path)))) await build()

function isUnchanged(path) {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return true
  if (!stats.isDirectory()) return stats.mtimeMs < builtMs
  return readdirSync(path).every((name) => isUnchanged(join(path, name)))
}

function modifiedMs(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

async function build() {
  const vite = await import('vite').catch(() => undefined)
  if (vite === undefined) return say('The console is not built: its packages are not installed. Run npm ci.')
  const startedMs = performance.now()
  // Built in a separate folder until it is complete: two concurrent starts must not serve an incomplete console.
  const made = `${target}-${process.pid}`
  try {
    process.env.NODE_ENV = 'production'
    await vite.build({
      ...{ configFile: join(root, 'console/vite.config.ts'), logLevel: 'silent' },
      build: { outDir: made },
    })
    rmSync(target, { recursive: true, force: true })
    renameSync(made, target)
    say(`Console built in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s.`)
  } catch (error) {
    rmSync(made, { recursive: true, force: true })
    say(
      `The console could not be built: ${error.message}\nServing without it. "npm run build:console" shows more.`,
    )
  }
}

function say(text) {
  process.stderr.write(`${text}\n`)
}
