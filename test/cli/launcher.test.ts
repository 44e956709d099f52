import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '../..')
const VERSION = /^collet \d+\.\d+\.\d+ \(Node 24\.\d+\.\d+\)\n$/

/** The Nodes of the machine itself; a Node that only reports an old version replaces those that are missing. */
const NODES = [
  ['Node 20, simulated', ['--import', pretend('20.19.0')]],
  ['Node 22, simulated', ['--import', pretend('22.22.0')]],
] as const

function pretend(version: string): string {
  return `data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'${version}'}})`
}

let folder: string

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'collet-launcher-')))
})

afterEach(() => rmSync(folder, { recursive: true }))

interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

function run(file: string, args: readonly string[], cwd = folder): Ended {
  const env = { ...process.env, PATH: pathOfMachine(), NO_COLOR: '1' }
  return spawnSync(file, [...args], { cwd, env, encoding: 'utf8' })
}

/** Without the folders that npm puts before the machine's own. */
function pathOfMachine(): string {
  const parts = (process.env.PATH ?? '').split(':')
  return parts.filter((part) => !part.includes('node_modules')).join(':')
}

/** A checkout with the sources of this one and no build. */
function checkout({ isInstalled }: { readonly isInstalled: boolean }): string {
  const root = join(folder, 'collet')
  for (const name of ['bin', 'collet', 'package.json', 'scripts'])
    cpSync(join(ROOT, name), join(root, name), { recursive: true })
  for (const name of ['src', ...(isInstalled ? ['node_modules'] : [])])
    symlinkSync(join(ROOT, name), join(root, name))
  return root
}

/** A project with the package in its node_modules; the code of the package prints the version of Node that runs it. */
function project({
  hasNode,
  code = PRINTS_NODE,
}: {
  readonly hasNode: boolean
  readonly code?: string
}): string {
  const modules = join(folder, 'project/node_modules')
  for (const name of ['bin', 'package.json'])
    cpSync(join(ROOT, name), join(modules, 'collet', name), { recursive: true })
  mkdirSync(join(modules, 'collet/dist/cli'), { recursive: true })
  writeFileSync(join(modules, 'collet/dist/cli/main.js'), code)
  if (hasNode) symlinkSync(join(ROOT, 'node_modules/node'), join(modules, 'node'))
  return join(modules, 'collet/bin/collet.js')
}

const PRINTS_NODE = 'console.log(process.argv.slice(2).join(), process.version); process.exitCode = 5'

describe('./collet in a checkout that was never built', () => {
  it('runs with the Node of the checkout, from any folder and through a link', () => {
    const root = checkout({ isInstalled: true })
    const link = join(folder, 'link')
    symlinkSync(join(root, 'collet'), link)
    for (const file of [join(root, 'collet'), link])
      expect(run(file, ['version'])).toMatchObject({
        status: 0,
        stdout: expect.stringMatching(VERSION),
        stderr: '',
      })
  })

  it('names itself in hints as the user types it there', () => {
    const root = checkout({ isInstalled: true })
    expect(run('./collet', ['keys', 'make'], root).stderr).toContain('See: ')
    expect(run(join(ROOT, 'collet'), ['keys', 'make'], ROOT).stderr).toContain('See: ./collet --help')
  })

  it('asks the user to run npm ci if packages are not installed', () => {
    const root = checkout({ isInstalled: false })
    const { status, stderr } = run(join(root, 'collet'), ['version'])
    expect([status, stderr]).toEqual([2, expect.stringMatching(`^[^\\n]*Run npm ci in ${root}[^\\n]*\\n$`)])
  })

  it.each(['start', 'dev', 'collet'])(
    'gives the same advice for "npm run %s", without a stack trace',
    (script) => {
      const root = checkout({ isInstalled: false })
      const { status, stderr } = run('npm', ['run', '--silent', script], root)
      expect([status, stderr]).toEqual([2, expect.stringContaining(`Run npm ci in ${root}`)])
      expect(stderr).not.toMatch(/^ +at /m)
    },
  )
})

describe.each(NODES)('bin/collet.js on %s', (_, flags) => {
  it('runs from the sources of a checkout that was never built', () => {
    const root = checkout({ isInstalled: true })
    const ended = run(process.execPath, [...flags, join(root, 'bin/collet.js'), 'version'])
    expect(ended).toMatchObject({ status: 0, stdout: expect.stringMatching(VERSION), stderr: '' })
  })

  it('runs with the Node 24 that is installed beside the package, and returns its exit code', () => {
    const ended = run(process.execPath, [...flags, project({ hasNode: true }), 'tools', '--json'])
    expect(ended).toMatchObject({
      status: 5,
      stdout: expect.stringMatching(/^tools,--json v24\./),
      stderr: '',
    })
  })

  it('explains in one line how to get Node 24 if there is none', () => {
    const ended = run(process.execPath, [...flags, project({ hasNode: false }), 'tools'])
    expect(ended.status).toBe(2)
    expect(ended.stderr).toMatch(
      new RegExp(
        `^collet needs Node 24; this is Node 2\\d\\.\\d+\\.0\\. Run npm install node@24 in ${join(folder, 'project')}: collet then uses that one\\. Or install Node 24 from https://nodejs\\.org\\.\\n$`,
      ),
    )
  })
})

describe('bin/collet.js', () => {
  it('runs on the Node of the machine, whatever its version', () => {
    const root = checkout({ isInstalled: true })
    const ended = run(join(root, 'bin/collet.js'), ['version'])
    expect(ended).toMatchObject({ status: 0, stdout: expect.stringMatching(VERSION), stderr: '' })
  })

  it('shows no stack trace when the installed package is not complete', () => {
    const bin = project({ hasNode: true, code: "import 'not-there'" })
    const { status, stderr } = run(process.execPath, [bin, 'tools'])
    expect(status).toBe(3)
    expect(stderr).toContain("Cannot find package 'not-there'")
    expect(stderr).toContain('install it again')
    expect(stderr).not.toMatch(/^ +at /m)
  })

  it('passes SIGTERM on to the serving process', () => {
    const bin = project({
      hasNode: true,
      code: "process.on('SIGTERM', () => process.exit(7)); setInterval(() => {}, 1000); process.kill(process.ppid, 'SIGTERM')",
    })
    expect(run(process.execPath, ['--import', pretend('20.19.0'), bin, 'serve']).status).toBe(7)
  })
})

it('is executable in the checkout', () => {
  const [mode] = execFileSync('git', ['ls-files', '--stage', 'collet'], {
    cwd: ROOT,
    encoding: 'utf8',
  }).split(' ')
  expect(mode).toBe('100755')
})
