import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '../..')

/**
 * A project of a new user who installed the package: its built code under node_modules, its dependencies beside it and its command
 * in `.bin`. The sources are not there, and nothing is fetched.
 */
export function installProject({ hasTypes = false }: { readonly hasTypes?: boolean } = {}): string {
  const project = mkdtempSync(join(tmpdir(), 'collet-installed-'))
  const modules = join(project, 'node_modules')
  const installed = join(modules, 'collet')
  mkdirSync(join(modules, '.bin'), { recursive: true })
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  for (const part of ['package.json', 'bin'])
    cpSync(join(ROOT, part), join(installed, part), { recursive: true })
  const build = [
    join(ROOT, 'scripts/build.mjs'),
    join(installed, 'dist'),
    ...(hasTypes ? [] : ['--code-only']),
  ]
  execFileSync(process.execPath, build, { stdio: 'pipe' })
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  symlinkSync('../collet/bin/collet.js', join(modules, '.bin/collet'))
  return project
}
