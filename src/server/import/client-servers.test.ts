import { describe, expect, it } from 'vitest'
import { readServerList } from './client-files.ts'
import { describeServer, isOwnMcpAddress, type PlaceholderValues, readServer } from './client-servers.ts'
import { clientFiles, clientFolders, MCP_CLIENTS } from './clients.ts'

const placeholder = (name: string): string => `\${${name}}`

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
  it('is read as a program with its variables, or as an address with its headers', () => {
    expect(options({ command: 'npx', args: ['-y', 'a', 3], env: { A: 'b', N: 1, NO: null } })).toEqual({
      type: 'mcp',
      command: 'npx',
      args: ['-y', 'a', '3'],
      env: { A: 'b', N: '1' },
      cwd: '/project',
    })
    const headers = { Authorization: `Bearer ${placeholder('env:TOKEN')}`, Accept: 'x' }
    expect(options({ type: 'http', url: `https://${placeholder('HOST')}/mcp`, headers })).toEqual({
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

  it('has its placeholders replaced, and names those without a value', () => {
    const filled = options({
      command: `${placeholder('workspaceFolder')}/run`,
      args: [
        placeholder('userHome'),
        placeholder('NOT_OURS'),
        placeholder('env:UNSET:-default'),
        placeholder('input:key'),
      ],
      envFile: '.env',
      cwd: 'sub',
    })
    expect(filled).toEqual({
      type: 'mcp',
      command: '/project/run',
      args: ['/home/me', placeholder('NOT_OURS'), 'default', 'typed'],
      env: { A: '1', B: 'two' },
      cwd: '/project/sub',
    })
    expect(
      options({ command: 'x', env: { A: placeholder('env:UNSET'), B: placeholder('input:other') } }),
    ).toBe(
      `${placeholder('env:UNSET')}, ${placeholder('input:other')} have no value here; set them, or import again with --env UNSET=VALUE --env other=VALUE`,
    )
    expect(options({ command: 'x', envFile: 'gone.env' })).toContain('the file /project/gone.env')
  })

  it('runs in the folder of its project, or else in the current folder', () => {
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
  ])('is skipped: %j', (entry, why) => {
    expect(describeEntry(entry)).toEqual({ kind: 'skipped', why: expect.stringContaining(why) })
  })

  it('is not mistaken for Collet if its script is named src/cli/main.ts', () => {
    expect(describeEntry({ command: 'node', args: ['/x/src/cli/main.ts', 'mcp'] })).toMatchObject({
      isProgram: true,
    })
  })
})

/** Members for a program and an address that only some clients use. */
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
    { uri: 'https://g.example', headers: { A: `x ${placeholder(' TOKEN ')}` } },
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

describe('an entry with members that only some clients use', () => {
  it.each(SHAPES)('%j', (entry, expected) => expect(options(entry)).toMatchObject(expected))

  it('prefers its own variables to those of its env file', () => {
    expect(options({ command: 'x', envFile: '.env', env: { B: 'own', C: '3' } })).toMatchObject({
      env: { A: '1', B: 'own', C: '3' },
    })
  })

  it('lists the variables it would get and the credentials in clear text', () => {
    const plan = describeEntry({
      command: 'x',
      args: ['$SHELL', placeholder('A'), placeholder('workspaceFolder')],
      env: { API_KEY: 'k-canary', TOKEN: placeholder('B'), LEVEL: 'debug', PASSWORD: '$CDE' },
    })
    expect(plan).toEqual({
      ...{
        target: `x $SHELL ${placeholder('A')} ${placeholder('workspaceFolder')}`,
        isProgram: true,
        inputs: [],
      },
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

  it('lists them for an address by its headers alone', () => {
    expect(
      describeEntry({
        ...{
          url: `https://${placeholder('HOST')}/mcp`,
          env: { OTHER: placeholder('E') },
          envFile: '.env',
          cwd: '/x',
        },
        headers: { Authorization: 'Bearer k-canary', 'X-Key': placeholder('input:key') },
      }),
    ).toEqual({
      ...{
        target: `https://${placeholder('HOST')}/mcp`,
        isProgram: false,
        variables: ['HOST'],
        inputs: ['key'],
      },
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

  it('is found in the layout of each client', () => {
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

  it('is in the file of its client on each platform', () => {
    const files = (platform: NodeJS.Platform, variables = {}) => {
      const folders = clientFolders('/project', { HOME: '/home/me', ...variables }, platform)
      return Object.values(MCP_CLIENTS).flatMap((client) =>
        clientFiles(client, folders).map(({ path }) => path),
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
