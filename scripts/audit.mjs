// `npm run audit`: known advisories about the packages that the published package depends on. If the registry
// has no advisories, the check is skipped.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { stdout, error } = spawnSync('npm', ['audit', '--audit=true', '--json'], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 64 * 1024 * 1024,
  timeout: 120_000,
  shell: process.platform === 'win32',
})

const report = read(stdout)
if (report?.vulnerabilities === undefined || report.metadata === undefined) {
  const why = error?.message ?? report?.message ?? report?.error?.summary ?? 'it gave no report'
  process.stdout.write(`audit: skipped, this registry has no advisories (${String(why).split('\n', 1)[0]})\n`)
  process.exit(0)
}

const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
const isPublished = (path) => packages[path]?.dev !== true
const found = Object.values(report.vulnerabilities).filter(({ nodes }) => nodes.some(isPublished))
for (const { name, severity, range, via } of found) {
  const titles = via.map((each) => (typeof each === 'string' ? each : `${each.title} ${each.url}`))
  process.stdout.write(`audit: ${severity}: ${name} ${range}: ${titles.join('; ')}\n`)
}
const { prod } = report.metadata.dependencies
process.stdout.write(`audit: ${found.length} advisories for ${prod} production packages\n`)
process.exit(found.length === 0 ? 0 : 1)

function read(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
