import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type MarkdownBlock, readBlocks } from '../docs/markdown-blocks.ts'
import { matchesSample } from '../docs/matches-sample.ts'
import { type FreshClone, makeFreshClone, type ShellResult } from './fresh-clone.ts'
import { type ServerProcess, startServerProcess } from './server-process.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const LIMIT_MS = 180_000
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')
const BLOCKS = readBlocks('README.md')
const ANY_PORT = ['--', '--port', '0']

let clone: FreshClone
let home: string
let server: ServerProcess

/** The block that begins with this text. */
function blockOf(start: string): MarkdownBlock {
  return BLOCKS.find(({ text }) => text.startsWith(start)) ?? expect.fail(`README has no block "${start}"`)
}

/** Runs lines of the README against the server of this test, which listens on another port. */
function runBlock(lines: string): ShellResult {
  const address = `COLLET_URL=${server.url} HOME=${home} XDG_CONFIG_HOME=${home}`
  return clone.run(`export ${address}\n${lines.replaceAll('http://127.0.0.1:4100', server.url)}`)
}

beforeAll(async () => {
  clone = makeFreshClone()
  home = join(clone.folder, 'home')
  const work = join(clone.folder, 'work')
  for (const folder of [join(home, 'Claude'), join(home, 'Library/Application Support/Claude'), work])
    mkdirSync(folder, { recursive: true })
  const program = join(ROOT, 'node_modules/@modelcontextprotocol/server-filesystem/dist/index.js')
  const config = { mcpServers: { filesystem: { command: process.execPath, args: [program, work] } } }
  for (const folder of ['Claude', 'Library/Application Support/Claude'])
    writeFileSync(join(home, folder, 'claude_desktop_config.json'), JSON.stringify(config))
  server = await startServerProcess('npm', ['start', ...ANY_PORT], { cwd: clone.folder, env: clone.env })
}, LIMIT_MS)

afterAll(async () => {
  await server?.stop()
  clone.remove()
})

describe('README.md in a fresh clone, from top to bottom', () => {
  it('begins with two commands that are scripts of this package', () => {
    const [first] = BLOCKS
    expect(first?.line).toBeLessThan(20)
    expect(first?.text).toMatch(/^npm ci && npm start .*\nnpm test\n$/)
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const named = [...README.matchAll(/npm run ([\w:]+)/g)].map(([, name = '']) => name)
    expect(Object.keys(scripts)).toEqual(
      expect.arrayContaining(['start', 'test', ...named.filter((name) => name !== 'dev')]),
    )
    expect(README.split('\n').length).toBeLessThan(150)
  })

  it('imports the servers of a client, governs one tool, and connects the client', {
    timeout: LIMIT_MS,
  }, () => {
    const [imports = '', , connects = ''] = blockOf('./collet import').text.split('\n')
    const imported = runBlock(imports.replace(/ #.*/, ' --yes'))
    expect([imported.status, imported.stderr]).toEqual([0, expect.stringContaining('14 tools')])
    expect(runBlock(blockOf('./collet sources set').text).status).toBe(0)
    const listed = runBlock('./collet tools --json')
    expect(listed.stdout).toContain('Filesystem.write_file')
    const connected = runBlock(connects.replace(/ #.*/, ' --yes'))
    expect([connected.status, connected.stdout + connected.stderr]).toEqual([
      0,
      expect.stringContaining('claude_desktop_config.json'),
    ])
  })

  it('runs a write once under one call id, and shows it', { timeout: LIMIT_MS }, () => {
    const [first = '', again = '', ...more] = blockOf('./collet call').text.trimEnd().split('\n')
    expect(runBlock(first)).toMatchObject({ status: 0, stdout: 'null\n' })
    expect(runBlock(again)).toMatchObject({ status: 0, stdout: 'null\n' })
    const [calls, verified] = more.map((line) => runBlock(line))
    expect(calls?.stdout.match(/Doorbell\.Ring/g)).toHaveLength(1)
    expect(verified?.status).toBe(0)
  })

  it('answers the HTTP request as shown', () => {
    const index = BLOCKS.findIndex(({ text }) => text.startsWith('curl'))
    const answer: unknown = JSON.parse(runBlock(BLOCKS[index]?.text ?? '').stdout)
    const shown: unknown = JSON.parse(BLOCKS[index + 1]?.text ?? '')
    if (!matchesSample(shown, answer)) expect(answer).toEqual(shown)
  })

  it('creates a project, and builds the package that it imports', { timeout: LIMIT_MS }, () => {
    const [init = ''] = blockOf('./collet init').text.split('\n')
    const made = runBlock(init.replace('../my-tools', 'my-tools'))
    expect(made.status).toBe(0)
    expect(existsSync(join(clone.folder, 'my-tools/collet.config.ts'))).toBe(true)
    for (const name of ['testing/index.js', 'testing/index.d.ts', 'console/index.html'])
      expect(existsSync(join(clone.folder, 'dist', name)), name).toBe(true)
  })
})
