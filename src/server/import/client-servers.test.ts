import { describe, expect, it } from 'vitest'
import { readServerList } from './client-files.ts'
import { describeServer, isOwnMcpAddress, type PlaceholderValues, readServer } from './client-servers.ts'
import { clientFiles, clientPlace, MCP_CLIENTS } from './clients.ts'

/** A placeholder. */
const hole = (name: string): string => `\${${name}}`

const VALUES: PlaceholderValues = {
  home: '/home/me',
  variable: (name) => ({ TOKEN: 't-canary', HOST: 'h.example' })[name],
  input: (id) => (id === 'key' ? 'typed' : undefined),
  readFile: (file) => (file === '/project/.env' ? 'A=1\nB="two"\n' : undefined),
}

const read = (entry: object, file = '/project/.vscode/mcp.json') =>
  readServer({ file, entry: { ...entry } }, '/project', VALUES)
const describeEntry = (entry: object) => describeServer({ entry: { ...entry } }, isOwnMcpAddress(4100))
const options = (entry: object, file?: string) => {
  const reading = read(entry, file)
  return reading.kind === 'usable' ? reading.options : reading.why
}

describe('an entry of a client', () => {
  it('is a program with its variables, or an address with its headers', () => {
    expect(options({ command: 'npx', args: ['-y', 'a', 3], env: { A: 'b', N: 1, NO: null } })).toEqual({
      type: 'mcp',
      command: 'npx',
      args: ['-y', 'a', '3'],
      env: { A: 'b', N: '1' },
      cwd: '/project',
    })
    const headers = { Authorization: `Bearer ${hole('env:TOKEN')}`, Accept: 'x' }
    expect(options({ type: 'http', url: `https://${hole('HOST')}/mcp`, headers })).toEqual({
      type: 'mcp',
      url: 'https://h.example/mcp',
      headers: { Authorization: 'Bearer t-canary' },
    })
    expect(options({ serverUrl: 'https://w.example/mcp' })).toEqual({
      type: 'mcp',
      url: 'https://w.example/mcp',
    })
    expect(describeEntry({ type: 'stdio' })).toMatchObject({
      kind: 'unusable',
      why: 'it has neither a command nor a url',
    })
  })

  it('has its placeholders filled in, and says which have no value', () => {
    const filled = options({
      command: `${hole('workspaceFolder')}/run`,
      args: [hole('userHome'), hole('NOT_OURS'), hole('env:UNSET:-default'), hole('input:key')],
      envFile: '.env',
      cwd: 'sub',
    })
    expect(filled).toEqual({
      type: 'mcp',
      command: '/project/run',
      args: ['/home/me', hole('NOT_OURS'), 'default', 'typed'],
      env: { A: '1', B: 'two' },
      cwd: '/project/sub',
    })
    expect(options({ command: 'x', env: { A: hole('env:UNSET'), B: hole('input:other') } })).toBe(
      `${hole('env:UNSET')}, ${hole('input:other')} have no value here; set them, or import again with --env UNSET=VALUE --env other=VALUE`,
    )
    expect(options({ command: 'x', envFile: 'gone.env' })).toContain('the file /project/gone.env')
  })

  it('is about its own project, else about where the user is', () => {
    expect(options({ command: 'x' }, '/project/.mcp.json')).toMatchObject({ cwd: '/project' })
    expect(options({ command: 'x' }, '/home/me/.cursor/mcp.json')).toMatchObject({ cwd: '/project' })
  })

  it.each<readonly [object, string]>([
    [{ command: 'x', disabled: true }, 'turned off'],
    [{ command: 'x', enabled: false }, 'turned off'],
    [{ command: 'npx', args: ['-y', 'collet@latest', 'mcp'] }, 'Collet itself'],
    [{ command: 'C:\\bin\\collet.cmd', args: ['mcp'] }, 'Collet itself'],
    [{ command: 'node', args: ['/x/collet.js', 'mcp', '--config', 'a'] }, 'Collet itself'],
    [{ command: './collet', args: ['mcp'] }, 'Collet itself'],
    ...['url', 'serverUrl', 'httpUrl', 'uri'].map(
      (member) => [{ [member]: 'http://127.0.0.1:4100/mcp' }, 'Collet itself'] as const,
    ),
    [{ url: 'http://localhost:4100/mcp/crm' }, 'Collet itself'],
    [{ command: 'x', url: 'http://[::1]:4100/mcp' }, 'Collet itself'],
    [{ command: ['npx', 'collet', 'mcp'] }, 'Collet itself'],
    [{ command: ['npx', 'mcp-remote', 'http://127.0.0.1:4100/mcp'] }, 'Collet itself'],
    [{ command: { path: 'collet', args: ['mcp'] } }, 'Collet itself'],
    [{ cmd: 'collet', args: ['mcp'] }, 'Collet itself'],
    [{ command: 'npx', args: ['mcp-remote', 'http://127.0.0.1:4100/mcp'] }, 'Collet itself'],
  ])('is left out: %j', (entry, why) => {
    expect(describeEntry(entry)).toEqual({ kind: 'skipped', why: expect.stringContaining(why) })
  })

  it('is not taken for Collet because its script is called src/cli/main.ts', () => {
    expect(describeEntry({ command: 'node', args: ['/x/src/cli/main.ts', 'mcp'] })).toMatchObject({
      isProgram: true,
    })
  })
})

/** How each client writes a program and an address, beside the usual members. */
const SHAPES = [
  [
    { type: 'local', command: ['a', 'b'], environment: { X: '1' } },
    { command: 'a', args: ['b'], env: { X: '1' } },
  ],
  [
    { type: 'stdio', cmd: 'a', args: ['b'], envs: { X: '1' } },
    { command: 'a', args: ['b'], env: { X: '1' } },
  ],
  [{ command: { path: 'a', args: ['b'], env: { X: '1' } } }, { command: 'a', args: ['b'], env: { X: '1' } }],
  [
    { command: 'a', env_vars: ['TOKEN', { name: 'HOST' }] },
    { command: 'a', env: { TOKEN: 't-canary', HOST: 'h.example' } },
  ],
  [
    { cmd: 'a', env_keys: ['TOKEN'] },
    { command: 'a', env: { TOKEN: 't-canary' } },
  ],
  [
    { command: 'a', workingDirectory: '/w' },
    { command: 'a', cwd: '/w' },
  ],
  [
    { command: 'a', env: { T: '$TOKEN', U: 'pa$word' } },
    { command: 'a', env: { T: 't-canary', U: 'pa$word' } },
  ],
  [
    { command: 'sh', args: ['-c', 'echo $TOKEN'] },
    { command: 'sh', args: ['-c', 'echo $TOKEN'] },
  ],
  [{ httpUrl: 'https://g.example' }, { url: 'https://g.example' }],
  [
    { uri: 'https://g.example', headers: { A: `x ${hole(' TOKEN ')}` } },
    { url: 'https://g.example', headers: { A: 'x t-canary' } },
  ],
  [
    { type: 'remote', url: 'https://o.example', headers: { A: '{env:TOKEN}' } },
    { headers: { A: 't-canary' } },
  ],
  [
    { url: 'https://c.example', bearer_token_env_var: 'TOKEN' },
    { headers: { Authorization: 'Bearer t-canary' } },
  ],
  [
    { url: 'https://c.example', http_headers: { A: '1' }, env_http_headers: { B: 'TOKEN' } },
    { headers: { A: '1', B: 't-canary' } },
  ],
] as const

describe('an entry in the words of its client', () => {
  it.each(SHAPES)('%j', (entry, expected) => expect(options(entry)).toMatchObject(expected))

  it('has its own variables before those of its file', () => {
    expect(options({ command: 'x', envFile: '.env', env: { B: 'own', C: '3' } })).toMatchObject({
      env: { A: '1', B: 'own', C: '3' },
    })
  })

  it('says which variables it would get, and which credentials stand in clear text', () => {
    const plan = describeEntry({
      command: 'x',
      args: ['$SHELL', hole('A'), hole('workspaceFolder')],
      env: { API_KEY: 'k-canary', TOKEN: hole('B'), LEVEL: 'debug', PASSWORD: '$CDE' },
    })
    expect(plan).toEqual({
      ...{ target: `x $SHELL ${hole('A')} ${hole('workspaceFolder')}`, isProgram: true, inputs: [] },
      ...{
        variables: ['A', 'B', 'CDE'],
        sets: [
          { name: 'API_KEY' },
          { name: 'TOKEN' },
          { name: 'LEVEL', value: 'debug' },
          { name: 'PASSWORD' },
        ],
        clear: ['API_KEY'],
      },
      ...{ envFile: undefined, cwd: undefined },
    })
    expect(JSON.stringify(plan)).not.toContain('canary')
    expect(options({ command: 'x', env: { A: '{file:~/secret}' } })).toContain(
      '{file:~/secret} has no value here',
    )
  })

  it('says the same of an address by its headers, whatever else the entry holds', () => {
    expect(
      describeEntry({
        ...{ url: `https://${hole('HOST')}/mcp`, env: { OTHER: hole('E') }, envFile: '.env', cwd: '/x' },
        headers: { Authorization: 'Bearer k-canary', 'X-Key': hole('input:key') },
      }),
    ).toEqual({
      ...{ target: `https://${hole('HOST')}/mcp`, isProgram: false, variables: ['HOST'], inputs: ['key'] },
      ...{
        sets: [{ name: 'Authorization' }, { name: 'X-Key' }],
        clear: ['Authorization'],
        envFile: undefined,
        cwd: undefined,
      },
    })
  })
})

describe('a list of servers', () => {
  const names = (text: string) => readServerList(text, 'f', '/project')?.servers.map(({ name }) => name)

  it('is found wherever clients keep it', () => {
    expect(names('{"mcpServers":{"a":{}}}')).toEqual(['a'])
    expect(names('{ /* VS Code */ "servers": {"b": {},}, }')).toEqual(['b'])
    expect(names('{"mcp":{"servers":{"c":{}}}}')).toEqual(['c'])
    const code = { mcpServers: { d: {} }, projects: { '/project': { mcpServers: { e: {} } }, '/other': {} } }
    expect(names(JSON.stringify(code))).toEqual(['e', 'd'])
    expect(names('{"mcpServers":{}}')).toEqual([])
    expect([names('{"openapi":"3.1.0"}'), names('[]'), names('no')]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  it('is at the place of its client on each platform', () => {
    const files = (platform: NodeJS.Platform, variables = {}) => {
      const place = clientPlace('/project', { HOME: '/home/me', ...variables }, platform)
      return Object.values(MCP_CLIENTS).flatMap((client) =>
        clientFiles(client, place).map(({ path }) => path),
      )
    }
    expect(files('darwin')).toContain(
      '/home/me/Library/Application Support/Claude/claude_desktop_config.json',
    )
    expect(files('linux')).toContain('/home/me/.config/Code/User/mcp.json')
    expect(files('linux', { XDG_CONFIG_HOME: '/x' })).toContain('/x/Claude/claude_desktop_config.json')
    expect(files('win32', { APPDATA: '/roaming' })).toContain('/roaming/Claude/claude_desktop_config.json')
    expect(files('linux')).toContain('/project/.cursor/mcp.json')
  })
})
