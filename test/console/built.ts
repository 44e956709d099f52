import { execFileSync } from 'node:child_process'
import { existsSync, globSync, statSync } from 'node:fs'
import { join } from 'node:path'
import chromium from '@sparticuz/chromium'

const ROOT = join(import.meta.dirname, '../..')
/** The last file that a build writes. */
const LAST = join(ROOT, 'dist/config.schema.json')
const SOURCES = ['src/**/*.{ts,json}', 'console/{src,public}/**/*.*', 'console/*.*', 'scripts/build.mjs']

/**
 * Prepares the console tests in one process, before they run in several: unpacks the browser, which cannot start while another
 * process still writes it, and builds the package if it is missing or older than its sources.
 */
export async function setup(): Promise<void> {
  await chromium.executablePath()
  buildIfStale()
}

function buildIfStale(): void {
  const newest = Math.max(
    ...globSync(SOURCES, { cwd: ROOT }).map((file) => statSync(join(ROOT, file)).mtimeMs),
  )
  if (existsSync(LAST) && existsSync(join(ROOT, 'dist/console')) && statSync(LAST).mtimeMs > newest) return
  execFileSync(process.execPath, ['scripts/build.mjs'], {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
}
