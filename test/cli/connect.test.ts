import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { CLIENT_NAMES } from '#server/import/clients'
import { chunks, FakeIo } from './fake-io.ts'

let folder: string
const path = (...names: string[]) => join(folder, ...names)

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-connect-'))
  writeFileSync(path('collet.config.json'), JSON.stringify({ toolsets: { crm: { include: ['Crm.*'] } } }))
})
afterEach(() => rmSync(folder, { recursive: true }))

async function run(argv: readonly string[], changes: ConstructorParameters<typeof FakeIo>[1] = {}) {
  const environment = readEnvironment({ HOME: path('home'), XDG_CONFIG_HOME: path('home', '.config') })
  const io = new FakeIo(REAL_SERVICES, {
    ...{ workingFolder: folder, environment, command: 'npx collet' },
    ...changes,
  })
  const code = await io.run('connect', ...argv)
  return { code, stdout: io.stdout, stderr: io.stderr }
}

const snippet = async (...argv: string[]) => JSON.parse((await run(argv)).stdout)
const URL = 'http://127.0.0.1:4100/mcp'

describe('collet connect', () => {
  it('prints the entry for each client: the address, or a program that serves this folder', async () => {
    expect(await snippet('claude-code')).toEqual({ mcpServers: { collet: { type: 'http', url: URL } } })
    expect(await snippet('cursor')).toEqual({ mcpServers: { collet: { url: URL } } })
    expect(await snippet('vscode')).toEqual({ servers: { collet: { type: 'http', url: URL } } })
    expect(await snippet('windsurf')).toEqual({ mcpServers: { collet: { serverUrl: URL } } })
    expect(await snippet('claude')).toEqual({
      mcpServers: {
        collet: {
          command: '/bin/node',
          args: ['/lib/collet.js', 'mcp', '--config', path('collet.config.json')],
        },
      },
    })
    expect(await snippet('vscode', '--stdio', '--toolset', 'crm')).toEqual({
      servers: {
        'collet-crm': {
          type: 'stdio',
          command: 'npx',
          args: ['collet', 'mcp', '--config', 'collet.config.json', '--toolset', 'crm'],
        },
      },
    })
    const inCheckout = JSON.parse((await run(['vscode', '--stdio'], { command: './collet' })).stdout)
    expect(inCheckout.servers.collet).toMatchObject({
      command: '/bin/node',
      args: ['/lib/collet.js', 'mcp'].concat('--config', 'collet.config.json'),
    })
    expect(await snippet('cursor', '--toolset', 'crm')).toMatchObject({
      mcpServers: { 'collet-crm': { url: `${URL}/crm` } },
    })
    expect((await run(['inspector'])).stdout).toContain(`--cli ${URL} --transport http`)
    expect((await run(['claude'])).stderr).toContain('claude_desktop_config.json')
  })

  it('names the variable of the key if the server requires one, and never a key', async () => {
    const auth = { apiKeys: [{ id: 'ann', key: 'k-canary-0123456789abcdef' }] }
    writeFileSync(path('collet.config.json'), JSON.stringify({ auth, server: { port: 4200 } }))
    const cursor = await run(['cursor'])
    expect(JSON.parse(cursor.stdout).mcpServers.collet).toEqual({
      url: 'http://127.0.0.1:4200/mcp',
      headers: { Authorization: 'Bearer $'.concat('{env:COLLET_API_KEY}') },
    })
    expect(cursor.stderr).toContain('Set COLLET_API_KEY where Cursor starts')
    const claude = await run(['claude'])
    expect(JSON.parse(claude.stdout).mcpServers.collet.env).toEqual({ COLLET_API_KEY: '<your key>' })
    expect([cursor, claude].map(({ stdout, stderr }) => stdout + stderr).join()).not.toContain('canary')
    expect(await snippet('windsurf', '--url', 'https://tools.example.com')).toMatchObject({
      mcpServers: { collet: { serverUrl: 'https://tools.example.com/mcp', headers: {} } },
    })
  })

  it('writes one entry, keeps the rest and a copy, and changes nothing the second time', async () => {
    const file = path('.vscode', 'mcp.json')
    const before = '{\n  // mine\n  "servers": {\n    "a": { "command": "x" }, // first\n  },\n}\n'
    mkdirSync(dirname(file))
    writeFileSync(file, before)
    chmodSync(file, 0o640)
    const written = await run(['vscode', '--write', '--yes'])
    expect([written.code, written.stderr]).toEqual([0, expect.stringContaining('original: ')])
    const entry = `,\n    "collet": {\n      "type": "http",\n      "url": "${URL}"\n    }`
    expect(readFileSync(file, 'utf8')).toBe(before.replace('"x" }', `"x" }${entry}`))
    expect(statSync(file).mode & 0o777).toBe(0o640)
    const [backup = ''] = readdirSync(dirname(file)).filter((name) => name.endsWith('.backup'))
    expect(readFileSync(join(dirname(file), backup), 'utf8')).toBe(before)
    expect((await run(['vscode', '--write', '--yes'])).stderr).toContain('already has this entry')
    expect(readdirSync(dirname(file))).toHaveLength(2)
  })

  it('asks first, creates the file, and follows a link to it', async () => {
    const answer = (text: string) => ({ stdin: Object.assign(chunks(text), { isTTY: true }) })
    expect((await run(['cursor', '--write'], answer('n\n'))).code).toBe(2)
    expect((await run(['cursor', '--write'])).stderr).toContain('Use --yes')
    const entered = await run(['cursor', '--write'], answer('\n'))
    expect([entered.code, entered.stderr]).toEqual([0, expect.stringContaining('? [Y/n]')])
    expect(JSON.parse(readFileSync(path('.cursor', 'mcp.json'), 'utf8'))).toEqual(await snippet('cursor'))
    writeFileSync(path('real.json'), '{}')
    symlinkSync(path('real.json'), path('link.json'))
    expect((await run(['windsurf', '--write', '--yes', '--file', 'link.json'])).code).toBe(0)
    expect(readFileSync(path('real.json'), 'utf8')).toContain('serverUrl')
  })

  const CHECKOUT = [
    ...['/src/node', '--conditions=collet-source', '--disable-warning=ExperimentalWarning'],
    '/src/collet-checkout/src/cli/main.ts',
  ]
  const PROGRAMS = {
    checkout: { command: './collet', program: CHECKOUT },
    package: { command: 'npx collet', program: ['/bin/node', '/p/node_modules/.bin/collet'] },
    'global package': { command: 'collet', program: ['/bin/node', '/lib/collet/bin/collet.js'] },
  }
  const WRITTEN = CLIENT_NAMES.flatMap((client) =>
    Object.entries(PROGRAMS).flatMap(([kind, program]) =>
      [['--stdio'], []].map(
        (words) => [client, kind, words.join() || 'its usual way', words, program] as const,
      ),
    ),
  )
  it.each(WRITTEN)(
    '%s, from a %s, %s: recognises its own entry',
    async (client, _kind, _way, words, program) => {
      const { code, stdout, stderr } = await run([client, '--write', '--json', '--yes', ...words], program)
      expect([code, stderr]).toEqual([0, ''])
      const { file, bypasses, name } = JSON.parse(stdout)
      expect([bypasses, name]).toEqual([[], 'collet'])
      const io = new FakeIo(REAL_SERVICES, { workingFolder: folder })
      expect(await io.run('import', '--from', file, '--yes')).not.toBe(1)
      expect(io.stderr).toContain('Collet itself')
      expect(io.stderr).not.toContain('is added')
    },
  )

  it('does not report its own entry for a remote server as a bypass', async () => {
    const { stdout } = await run([
      'cursor',
      '--write',
      '--yes',
      '--json',
      '--url',
      'https://tools.example.com',
    ])
    expect(JSON.parse(stdout)).toMatchObject({ changed: true, bypasses: [] })
  })

  it('does not change a file that it cannot parse, and explains what to do instead', async () => {
    writeFileSync(path('.mcp.json'), '{ "mcpServers": [')
    const broken = await run(['claude-code', '--write', '--yes'])
    expect([broken.code, JSON.parse(broken.stdout)]).toEqual([2, await snippet('claude-code')])
    expect(readFileSync(path('.mcp.json'), 'utf8')).toBe('{ "mcpServers": [')
    expect((await run(['clade'])).stderr).toContain('Did you mean "claude"?')
    expect((await run(['cursor', '--toolset', 'cmr'])).stderr).toContain('Did you mean "crm"?')
    expect((await run(['claude', '--url', 'https://x.example'])).stderr).toContain('Settings, Connectors')
    for (const host of [
      '127.0.0.1:5300',
      'localhost',
      '10.1.2.3',
      '192.168.0.9',
      '[::1]:4100',
      '[fd00::1]',
      'nas.local',
      'nas',
    ]) {
      const { code, stderr } = await run(['claude', '--url', `http://${host}`])
      expect([host, code, stderr]).toEqual([
        host,
        2,
        expect.stringContaining("connect from Anthropic's cloud, which cannot reach"),
      ])
      expect(stderr).toContain('Leave --url out')
      expect(stderr).not.toContain('Add http')
    }
    rmSync(path('collet.config.json'))
    expect((await run(['claude'])).stderr).toContain('collet import')
    expect((await run(['cursor'])).code).toBe(0)
  })
})
