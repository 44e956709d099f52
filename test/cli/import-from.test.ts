import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { openStore } from '#store/stores'
import { EVERYTHING } from '../sources/everything-server.ts'
import { chunks, FakeIo } from './fake-io.ts'

const SERVER = new URL('small-mcp-server.mjs', import.meta.url).pathname

/** A placeholder. */
const hole = (name: string): string => `\${${name}}`

let folder: string
const path = (...names: string[]) => join(folder, ...names)

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-from-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const server = (name: string, ...tools: string[]) => ({
  command: process.execPath,
  args: [SERVER, name, ...tools],
})

function write(file: string, content: object | string): void {
  mkdirSync(dirname(path(file)), { recursive: true })
  writeFileSync(path(file), typeof content === 'string' ? content : JSON.stringify(content))
}

async function run(argv: readonly string[], changes: ConstructorParameters<typeof FakeIo>[1] = {}) {
  const environment = readEnvironment({ HOME: path('home'), HTTPS_PROXY: 'http://proxy:1', OTHER: 'no' })
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment, ...changes })
  const code = await io.run('import', ...argv)
  return { code, stdout: io.stdout, stderr: io.stderr }
}

async function stored() {
  const dataFolder = path('.collet')
  const url = `sqlite:${path('.collet', 'collet.db')}`
  const store = await openStore(url, { dataFolder, masterKey: undefined, mode: 'operator' })
  const list = await store.sources.list()
  await store.close()
  return list
}

describe('a file that looks like a list of servers', () => {
  it('starts nothing before its user has seen the programs', async () => {
    const started = path('started')
    const script = `require('node:fs').writeFileSync(${JSON.stringify(started)}, '')`
    write('some.json', {
      openapi: '3.1.0',
      servers: { odd: { command: process.execPath, args: ['-e', script] } },
    })
    const { code, stderr } = await run(['some.json'])
    expect(code).toBe(2)
    expect(stderr).toContain(`odd: ${process.execPath} -e "require`)
    expect(stderr).toContain('Nothing was started.')
    expect(existsSync(started)).toBe(false)
  })
})

describe('collet import --from', () => {
  it('creates config and database, and imports every server that a client lists', async () => {
    write('home/.cursor/mcp.json', {
      mcpServers: {
        one: { ...server('weather-server', 'read_sky'), env: { KEY: 's-canary' } },
        off: { command: 'x', disabled: true },
        me: { command: 'npx', args: ['collet', 'mcp'] },
      },
    })
    write('.cursor/mcp.json', { mcpServers: { two: server('Weather Server', 'write_sky') } })
    const added = await run(['--from', 'cursor', '--project', '--yes'])
    expect([added.code, added.stdout]).toEqual([0, ''])
    expect(added.stderr).toContain('Created collet.config.json and .collet/collet.db.')
    expect(added.stderr).toContain('off is left out: it is turned off in the client')
    expect(added.stderr).toContain('me is left out: it is Collet itself')
    expect(added.stderr).toContain(
      '1 of 2 tools are marked read-only. All tools are treated as writes unless',
    )
    expect(added.stderr).not.toContain('canary')
    expect(JSON.parse(readFileSync(path('collet.config.json'), 'utf8'))).toEqual({
      $schema: './node_modules/collet/dist/config.schema.json',
    })
    expect(readFileSync(path('.collet', 'collet.db')).includes('canary')).toBe(false)
    const sources = await stored()
    expect(sources.map(({ key, options }) => [key, options.env])).toEqual([
      ['One', { KEY: 's-canary' }],
      ['Two', undefined],
    ])
    const again = await run(['--from', 'cursor', '--project', '--yes', '--json'])
    expect(JSON.parse(again.stdout)).toMatchObject({ added: [], known: [{ key: 'One' }, { key: 'Two' }] })
    expect(await stored()).toEqual(sources)
  })

  it('prints the next step: serve, or connect if a server of this store runs', async () => {
    write('home/.cursor/mcp.json', { mcpServers: { one: server('One', 'read_sky') } })
    const first = await run(['--from', 'cursor', '--yes'])
    expect(first.stderr).toContain(
      'Next: "collet serve", then "collet connect cursor --write" for your MCP client.',
    )
    const serving = new FakeIo(REAL_SERVICES, { workingFolder: folder })
    const ended = serving.run('serve', '--port', '0')
    try {
      await expect.poll(() => serving.stdout, { timeout: 10_000 }).toContain('Collet serves')
      const url = /serves .* on (\S+)/.exec(serving.stdout)?.[1]
      write('home/.cursor/mcp.json', { mcpServers: { two: server('Two', 'read_sea') } })
      const second = await run(['--from', 'cursor', '--yes'])
      expect(second.stderr).toContain(
        `The server on ${url} serves it now. Next: "collet connect cursor --write"`,
      )
      expect(second.stderr).not.toContain('collet serve"')
      await expect.poll(() => serving.stderr, { timeout: 10_000 }).toContain('✓ Two: 1 tool\n')
      const third = await run(['--yes', '--', process.execPath, SERVER, 'Three', 'x'])
      expect(third.stderr).toContain(`Three is added. The server on ${url} serves it now; "collet connect`)
    } finally {
      serving.stop()
      expect(await ended).toBe(0)
    }
    const later = await run(['--yes', '--', process.execPath, SERVER, 'Four', 'x'])
    expect(later.stderr).toContain('Four is added. "collet serve" serves it;')
  })

  it('passes only the proxy variables to programs, and prints their output', async () => {
    write('list.json', { servers: { a: server('A', 'x') } })
    const { stderr } = await run(['list.json', '--yes'])
    expect(stderr).toContain('a | proxy http://proxy:1 other undefined')
    expect(stderr).toMatch(/✓ a: 1 tool in \d+\.\d s/)
    const named = await run(['--yes', '--env', 'OTHER', '--', process.execPath, SERVER, 'B', 'x'])
    expect(named.stderr).toContain('proxy http://proxy:1 other no')
    expect((await stored()).map(({ key }) => key)).toEqual(['A', 'B'])
  })

  it('a renewed credential updates only the credential of its source; another account remains a separate source', async () => {
    const entry = (token: string) => ({ ...server('Mail', 'read_a', 'send_b'), env: { TOKEN: token } })
    const tokens = async () => (await stored()).map(({ key, options }) => [key, options.env])
    write('list.json', { mcpServers: { mail: entry('t-1') } })
    await run(['--from', 'list.json', '--yes', '--trust', 'annotations'])
    write('list.json', { mcpServers: { mail: entry('t-2') } })
    const stdin = Object.assign(chunks('y\n', 'n\n'), { isTTY: true })
    const asked = await run(['--from', 'list.json'], { stdin })
    expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining('Update env.TOKEN of Mail?')])
    const renewed = await run(['--from', 'list.json', '--yes', '--json'])
    expect(JSON.parse(renewed.stdout)).toMatchObject({
      added: [],
      updated: [{ name: 'mail', key: 'Mail', changed: ['env.TOKEN'] }],
    })
    expect(await stored()).toMatchObject([
      { key: 'Mail', options: { env: { TOKEN: 't-2' }, trust: 'annotations' } },
    ])
    // The file has both: the second is an account of its own.
    write('list.json', { mcpServers: { mail: entry('t-2'), home: entry('h-1') } })
    await run(['--from', 'list.json', '--yes'])
    expect(await tokens()).toEqual([
      ['Home', { TOKEN: 'h-1' }],
      ['Mail', { TOKEN: 't-2' }],
    ])
    write('list.json', { mcpServers: { mail: entry('t-3'), home: entry('h-1') } })
    const one = await run(['--from', 'list.json', '--yes'])
    expect(one.stderr).toContain('Mail is updated: env.TOKEN has a new value.')
    expect(one.stderr).not.toMatch(/t-[23]/)
    expect((await tokens())[1]).toEqual(['Mail', { TOKEN: 't-3' }])
    write('list.json', { mcpServers: { mail: entry('t-4'), home: entry('h-4') } })
    const both = await run(['--from', 'list.json', '--yes'])
    expect([both.code, both.stderr]).toEqual([
      3,
      expect.stringContaining('mail was not added: it is Home or Mail'),
    ])

    const alone = (...argv: string[]) =>
      run([...argv, '--yes', '--', process.execPath, SERVER, 'Mail', 'read_a', 'send_b'])
    const unclear = await alone('--env', 'TOKEN=t-5')
    expect([unclear.code, unclear.stderr]).toEqual([2, expect.stringContaining('Name the one to update')])
    const added = await alone('--env', 'TOKEN=t-5', '--key', 'Mail')
    expect([added.code, added.stderr]).toEqual([0, expect.stringContaining('Mail is updated: env.TOKEN')])
    expect((await alone('--env', 'TOKEN=w-1', '--key', 'Work')).stderr).toContain('Work is added')
    expect((await alone('--env', 'TOKEN=w-1')).stderr).toContain('imported already, as "Work"')
    // Another variable is another way to start it.
    await alone('--env', 'OTHER=x')
    expect(await tokens()).toEqual([
      ['Home', { TOKEN: 'h-1' }],
      ['Mail', { TOKEN: 't-5' }],
      ['Mail2', { OTHER: 'x' }],
      ['Work', { TOKEN: 'w-1' }],
    ])
  })

  it('adds no source that has no tools left with --read-only', async () => {
    write('list.json', { servers: { a: server('A', 'read_x'), b: server('B', 'write_x') } })
    const { stderr } = await run(['list.json', '--yes', '--read-only'])
    expect(stderr).toContain('b was not added: none of its tools is marked read-only.')
    expect((await stored()).map(({ key }) => key)).toEqual(['A'])
  })

  it('continues if one fails, and prints advice for each at the end', async () => {
    write('list.json', {
      mcpServers: {
        needs: { command: 'x', env: { T: hole('env:UNSET') } },
        gone: { command: path('nothing') },
        silent: server('silent'),
        lost: { ...server('Lost'), cwd: 'nowhere' },
        old: { type: 'sse', url: 'http://127.0.0.1:9/sse' },
        good: server('Good', 'x'),
        twice: server('Good', 'x'),
      },
    })
    // Long enough for the other programs to start on a busy machine.
    const { code, stderr } = await run(['--from', 'list.json', '--yes', '--timeout', '5'])
    expect(code).toBe(3)
    expect(stderr).toContain(`needs was not added: ${hole('env:UNSET')} has no value here`)
    expect(stderr).toContain(`gone was not added: There is no program ${path('nothing')}. Install it`)
    expect(stderr).toMatch(/old was not added: .*HTTP\+SSE transport of 2024/)
    expect(stderr).toContain(`lost was not added: its folder ${path('nowhere')} does not exist.`)
    expect(stderr).toMatch(/silent was not added: .*within 5 s .*last output: proxy .*--timeout SECONDS/)
    expect(stderr).toContain('Good is added, 1 tool.')
    expect(stderr).toContain('run "collet import --from list.json" again')
    expect(await stored()).toMatchObject([{ key: 'Good', options: { connectTimeoutMs: 5000 } }])
  })

  it('explains what to do about a rejected credential, and ignores advice in the text of a server', async () => {
    const shut = createServer((_request, response) => response.writeHead(401).end())
    await new Promise<void>((resolve) => shut.listen(0, '127.0.0.1', resolve))
    const { port } = shut.address() as AddressInfo
    const script = "console.error('ENOENT connectTimeoutMs HTTP 401'); process.exit(1)"
    write('list.json', {
      mcpServers: {
        shut: { type: 'http', url: `http://127.0.0.1:${port}/mcp`, headers: { Authorization: 'Bearer old' } },
        liar: { command: process.execPath, args: ['-e', script] },
      },
    })
    const { stderr } = await run(['--from', 'list.json', '--yes']).finally(() => shut.close())
    expect(stderr).toMatch(/shut was not added: .*Write a token that may list tools into its headers\./)
    const warning = stderr.split('\n').find((line) => line.includes('liar was not added')) ?? ''
    expect(warning).toContain('last output')
    expect(warning).not.toMatch(/Install|--timeout|Write a token/)
  })

  it('asks what to start, for inputs of the client, whether to trust annotations, and whether to add', async () => {
    const entry = { ...server('Files', 'read_a', 'read_b', 'write_c'), env: { T: hole('input:token') } }
    write('.vscode/mcp.json', {
      inputs: [{ id: 'token', type: 'promptString', description: 'Token of Files', password: true }],
      servers: { files: entry },
    })
    const stdin = () => Object.assign(chunks('y\n', 't-canary\r', 'y\n', '\n'), { isTTY: true })
    const { code, stderr } = await run(['--from', 'vscode', '--project'], { stdin: stdin() })
    expect([code, stderr]).toEqual([0, expect.stringContaining('Token of Files, not shown')])
    expect(stderr).toContain('2 of 3 tools are marked read-only. Trust these annotations? [y/N]')
    expect(stderr).toContain('Add Files? [Y/n]')
    expect(stderr).not.toContain('canary')
    expect(await stored()).toMatchObject([
      { key: 'Files', options: { trust: 'annotations', env: { T: 't-canary' } } },
    ])
  })

  it('counts only tools among those that are marked read-only, and shows prompts and templates beside them', async () => {
    write('list.json', { mcpServers: { all: { command: process.execPath, args: [EVERYTHING, 'stdio'] } } })
    const { stderr } = await run(['--from', 'list.json', '--yes'])
    const [, tools] = /all: (\d+) tools, \d+ prompts, \d+ templates/.exec(stderr) ?? []
    expect(tools).toBeDefined()
    expect(stderr).toContain(` of ${tools} tools are marked`)
  })

  it('imports only tools that read, and warns about a name that matches no tool', async () => {
    write('list.json', { mcpServers: { a: server('A', 'read_a', 'write_b') } })
    const narrowed = await run(['--from', 'list.json', '--yes', '--read-only', '--include', 'raed*'])
    expect(narrowed.stderr).toContain('"raed*", which matches no tool of this source. Did you mean "read*"?')
    rmSync(path('.collet'), { recursive: true })
    await run(['--from', 'list.json', '--yes', '--read-only', '--trust', 'annotations'])
    expect(await stored()).toMatchObject([{ options: { include: ['read_a'], trust: 'annotations' } }])
  })

  it('can be changed later directly on the store, without a running server', async () => {
    write('list.json', { mcpServers: { a: server('A', 'read_a', 'write_b') } })
    await run(['list.json', '--yes'])
    const set = async (...argv: string[]) => {
      const io = new FakeIo(REAL_SERVICES, { workingFolder: folder })
      return [await io.run('sources', 'set', ...argv), io.stderr]
    }
    const changes = [
      '--trust',
      'annotations',
      '--include',
      '*_a',
      '--approval',
      'read_a=always',
      '--timeout',
      '9',
      '--call-timeout',
      '300',
      '--call-timeout',
      'read_a=0.5',
    ]
    expect(await set('A', ...changes)).toEqual([
      0,
      expect.stringContaining('Acting as cli:tester, directly on the store'),
    ])
    expect((await stored())[0]?.options).toMatchObject({
      ...{ trust: 'annotations', include: ['*_a'], connectTimeoutMs: 9_000 },
      policy: { timeoutMs: 300_000 },
      tools: { read_a: { approval: 'always', timeoutMs: 500 } },
    })
    for (const wrong of ['soon', '=5', 'read_a=', '0', '-1', '99999999'])
      expect(await set('A', `--call-timeout=${wrong}`)).toEqual([
        2,
        expect.stringContaining('--call-timeout expects seconds up to '),
      ])
    await set('A', '--call-timeout', 'default', '--call-timeout', 'read_a=default')
    expect(JSON.stringify((await stored())[0]?.options)).not.toContain('timeoutMs')
    await set('A', '--include', '*', '--approval', 'read_a=default', '--tier', 'write')
    const [source] = await stored()
    expect([source?.options.include, source?.options.tools]).toEqual([undefined, undefined])
    expect(source?.options).toMatchObject({ policy: { safetyTier: 'write' }, trust: 'annotations' })
    write('collet.config.json', { sources: { A: { type: 'mcp', command: 'x' } } })
    expect(await set('A', '--trust', 'nothing')).toEqual([2, expect.stringContaining('change it there')])
  })

  it('reports an unreachable address and a missing program, and guesses no cause', async () => {
    const gone = createServer()
    await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve))
    const { port } = gone.address() as AddressInfo
    await new Promise((resolve) => gone.close(resolve))
    const away = await run([`http://127.0.0.1:${port}`])
    expect([away.code, away.stderr]).toEqual([
      3,
      expect.stringContaining(`✗ 127.0.0.1:${port} cannot be reached. Is it running`),
    ])
    expect(away.stderr).not.toContain('it is not MCP')
    const missing = await run(['--', 'nosuchprogram', 'x'])
    expect([missing.code, missing.stderr]).toEqual([
      3,
      expect.stringContaining('✗ There is no program nosuchprogram. Install it, or write its full path.'),
    ])
    expect(missing.stderr).not.toMatch(/ENOENT|looks like/)
  })

  it('names the files that it searched, and suggests the client', async () => {
    const nothing = await run(['--from', 'claude', '--yes'])
    expect([nothing.code, nothing.stderr]).toEqual([
      2,
      expect.stringContaining('claude_desktop_config.json does not exist'),
    ])
    expect((await run(['--from', 'cursr', '--yes'])).stderr).toContain('Did you mean "cursor"?')
    expect((await run(['--from', 'cursor', 'x'])).stderr).toContain('leave out the address')
    expect((await run([])).stderr).toContain('--from CLIENT')
    expect(existsSync(path('.collet'))).toBe(false)
  })
})
