// Writes npm-shrinkwrap.json with the locked production packages, so that users install the versions that were
// tested. It is written before packing and removed afterwards, so that package-lock.json stays the only lock file in
// the repository.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const file = join(root, 'npm-shrinkwrap.json')

if (process.argv.includes('--remove')) rmSync(file, { force: true })
else writeFileSync(file, `${JSON.stringify(shrinkwrap(), undefined, 2)}\n`)

function shrinkwrap() {
  const { packages, ...lock } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const { devDependencies: _devDependencies, ...own } = packages['']
  const needed = Object.entries(packages)
    .filter(([path, { dev, devOptional }]) => path !== '' && dev !== true && devOptional !== true)
    .map(([path, { resolved: _resolved, ...entry }]) => [path, entry])
  return { ...lock, packages: { '': own, ...Object.fromEntries(needed) } }
}
