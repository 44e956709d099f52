import { execFileSync } from 'node:child_process'
import { existsSync, globSync, statSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')
/** The last file that a build writes. */
const LAST = join(ROOT, 'dist/config.schema.json')
const SOURCES = ['src/**/*.{ts,json}', 'console/{src,public}/**/*.*', 'console/*.*', 'scripts/build.mjs']

/** Builds the package once before the console tests, if it is missing or older than its sources. */
export function setup(): void {
  const newest = Math.max(
    ...globSync(SOURCES, { cwd: ROOT }).map((file) => statSync(join(ROOT, file)).mtimeMs),
  )
  if (existsSync(LAST) && existsSync(join(ROOT, 'dist/console')) && statSync(LAST).mtimeMs > newest) return
  execFileSync(process.execPath, ['scripts/build.mjs'], {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
}
