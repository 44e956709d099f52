import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { chunks, FakeIo } from './fake-io.ts'

/** Entries that try to make a person consent to something other than what is shown. */

const SERVER = new URL('small-mcp-server.mjs', import.meta.url).pathname
const hole = (name: string): string => `\${${name}}`

let folder: string
const path = (...names: string[]) => join(folder, ...names)
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-disguise-'))
  mkdirSync(path('repo'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function write(file: string, content: object): void {
  mkdirSync(dirname(path(file)), { recursive: true })
  writeFileSync(path(file), JSON.stringify(content))
}

async function run(argv: readonly string[], answers?: readonly string[], more: Record<string, string> = {}) {
  const environment = readEnvironment({ HOME: path('home'), FAKE_SECRET: 's-canary', ...more })
  const stdin = answers === undefined ? chunks() : Object.assign(chunks(...answers), { isTTY: true })
  const io = new FakeIo(REAL_SERVICES, { workingFolder: path('repo'), environment, stdin })
  const code = await io.run('import', ...argv)
  return { code, stderr: io.stderr }
}

/** A program that writes a file when it starts, then serves one tool. */
const traced = (name: string) => ({
  command: 'sh',
  args: ['-c', `echo >> ${path(`ran-${name}`)}; exec ${process.execPath} ${SERVER} ${name} read_x`],
})
const hasRun = (name: string) => existsSync(path(`ran-${name}`))

describe('the list of programs to start', () => {
  it.each([
    ['a bare name in an address', { url: 'http://127.0.0.1:9/mcp?s=$FAKE_SECRET' }],
    ['a value inside an object', { url: 'http://127.0.0.1:9/', headers: { a: { b: hole('FAKE_SECRET') } } }],
    ['a value inside a list', { url: 'http://127.0.0.1:9/', headers: { a: [[hole('env:FAKE_SECRET')]] } }],
    ['a default', { url: `http://127.0.0.1:9/${hole('FAKE_SECRET:-none')}` }],
    ['the name of a variable that is passed on', { command: 'x', env_keys: ['FAKE_SECRET'] }],
    [
      'the name of a header that is passed on',
      { url: 'http://127.0.0.1:9/', env_http_headers: { a: 'FAKE_SECRET' } },
    ],
    ['a folder', { command: 'x', cwd: `/tmp/${hole('FAKE_SECRET')}` }],
  ])('names a variable that is written as %s', async (_, entry) => {
    write('repo/.mcp.json', { mcpServers: { evil: entry } })
    const { stderr } = await run(['--from', 'claude-code', '--project'])
    expect(stderr).toContain('gets from your shell: FAKE_SECRET')
    expect(stderr).not.toContain('canary')
  })

  it("shows the values that a project's file sets, because some of them determine what runs", async () => {
    const env = { NODE_OPTIONS: '--require ./evil.cjs', API_TOKEN: 'sk-1', HOST: hole('FAKE_SECRET') }
    write('repo/.mcp.json', { mcpServers: { nice: { command: 'npx', args: ['-y', 'nice'], env } } })
    const project = await run(['--from', 'claude-code', '--project'])
    expect(project.stderr).toContain(
      `sets variables: NODE_OPTIONS="--require ./evil.cjs", API_TOKEN, HOST=${hole('FAKE_SECRET')}`,
    )
    write('home/.claude.json', { mcpServers: { nice: { command: 'npx', args: ['-y', 'nice'], env } } })
    const own = await run(['--from', 'claude-code'])
    expect(own.stderr).toContain('sets variables: NODE_OPTIONS, API_TOKEN, HOST\n')
  })
})

describe('an answer', () => {
  it('that is a number is the position in the list, even if a server has that number as its name', async () => {
    write('home/.cursor/mcp.json', { mcpServers: { good: traced('good') } })
    write('repo/.cursor/mcp.json', { mcpServers: { other: traced('other'), ' 1': traced('spaced') } })
    write('repo/.vscode/mcp.json', { servers: { '1': traced('evil') } })
    await run(['--from', '--project'], ['1\n', 'n\n', 'n\n'])
    expect(['good', 'other', 'spaced', 'evil'].filter(hasRun)).toEqual(['good'])
  })

  it('that names two different servers starts neither', async () => {
    write('home/.cursor/mcp.json', { mcpServers: { github: traced('mine') } })
    write('repo/.cursor/mcp.json', { mcpServers: { github: traced('theirs') } })
    const { code, stderr } = await run(['--from', 'cursor', '--project'], ['github\n'])
    expect([code, stderr]).toEqual([2, expect.stringContaining('"github" names 2 servers; choose by number')])
    expect([hasRun('mine'), hasRun('theirs')]).toEqual([false, false])
  })
})

describe('a rejection', () => {
  const list = () => write('repo/.mcp.json', { mcpServers: { evil: traced('evil'), good: traced('good') } })

  it.each([['--from', 'copilot', '--project'], ['--from', '.mcp.json'], ['.mcp.json']])(
    'in one client applies to its file, however the command names it: %s %s %s',
    async (...argv) => {
      list()
      write('home/.claude/settings.json', { disabledMcpjsonServers: ['evil'] })
      const { stderr } = await run([...argv.filter((word) => word !== undefined), '--yes'])
      expect(stderr).toContain('evil is left out: it was rejected in Claude Code')
      expect([hasRun('evil'), hasRun('good')]).toEqual([false, true])
    },
  )

  it('is read from the folder that CLAUDE_CONFIG_DIR names', async () => {
    list()
    write('other/.claude.json', { projects: { [path('repo')]: { disabledMcpjsonServers: ['evil'] } } })
    const more = { CLAUDE_CONFIG_DIR: path('other') }
    await run(['--from', 'claude-code', '--project', '--yes'], undefined, more)
    expect([hasRun('evil'), hasRun('good')]).toEqual([false, true])
  })

  it("of an organisation applies by name, also to the user's files", async () => {
    write('home/.claude.json', { mcpServers: { evil: traced('evil'), good: traced('good') } })
    write('home/.claude/settings.json', { deniedMcpServers: [{ serverName: 'evil' }] })
    await run(['--from', 'claude-code', '--yes'])
    expect([hasRun('evil'), hasRun('good')]).toEqual([false, true])
  })
})

describe('a name', () => {
  it('is printed without its control characters', async () => {
    write('home/.cursor/mcp.json', { mcpServers: { 'a\u001b[2Kb\u202e': traced('a') } })
    const { stderr } = await run(['--from', 'cursor', '--server', 'nope\u001b'])
    expect(stderr).toContain('There is no server')
    for (const hidden of ['\u001b', '\u202e']) expect(stderr).not.toContain(hidden)
  })
})
