import { stripTypeScriptTypes } from 'node:module'
import { describe, expect, it } from 'vitest'
import { parse as parseYaml } from 'yaml'
import type { JsonObject } from '#kernel/base/json'
import { commandOnPages } from '#server/own-command'
import { parseSettings, readServerList, renderEntry, withEntry, withoutEntry } from './client-files.ts'
import { describeServer, isOwnMcpAddress } from './client-servers.ts'
import { clientSnippets } from './client-snippets.ts'
import { MCP_CLIENTS, type McpClient, programEntry } from './clients.ts'

const BASE = 'http://127.0.0.1:4100/mcp'
const EVERYTHING = { url: BASE, name: 'collet' }
const TOOLSET = { url: `${BASE}/crm`, name: 'collet-crm' }
const hole = (name: string): string => `\${${name}}`
const KEY = 'COLLET_API_KEY'
const bearer = (key: string) => ({ headers: { Authorization: `Bearer ${key}` } })

type Target = typeof EVERYTHING

/** The expected content of each client's file, without a key and with one. */
const FILES: Readonly<Record<string, (target: Target, isKeyed: boolean) => JsonObject>> = {
  'claude-code': ({ url, name }, isKeyed) => ({
    mcpServers: { [name]: { type: 'http', url, ...(isKeyed ? bearer(hole(KEY)) : {}) } },
  }),
  cursor: ({ url, name }, isKeyed) => ({
    mcpServers: { [name]: { url, ...(isKeyed ? bearer(hole(`env:${KEY}`)) : {}) } },
  }),
  vscode: ({ url, name }, isKeyed) => ({
    servers: { [name]: { type: 'http', url, ...(isKeyed ? bearer(hole(`env:${KEY}`)) : {}) } },
  }),
  windsurf: ({ url, name }, isKeyed) => ({
    mcpServers: { [name]: { serverUrl: url, ...(isKeyed ? bearer(hole(`env:${KEY}`)) : {}) } },
  }),
  codex: ({ url, name }, isKeyed) => ({
    mcp_servers: { [name]: { url, ...(isKeyed ? { bearer_token_env_var: KEY } : {}) } },
  }),
  gemini: ({ url, name }, isKeyed) => ({
    mcpServers: { [name]: { httpUrl: url, ...(isKeyed ? bearer(hole(KEY)) : {}) } },
  }),
  copilot: ({ url, name }, isKeyed) => ({
    mcpServers: { [name]: { type: 'http', url, ...(isKeyed ? bearer(hole(KEY)) : {}), tools: ['*'] } },
  }),
  zed: ({ url, name }, isKeyed) => ({
    context_servers: { [name]: { url, ...(isKeyed ? bearer('<your key>') : {}) } },
  }),
  cline: ({ url, name }, isKeyed) => ({
    mcpServers: { [name]: { type: 'streamableHttp', url, ...(isKeyed ? bearer('<your key>') : {}) } },
  }),
  opencode: ({ url, name }, isKeyed) => ({
    mcp: { [name]: { type: 'remote', url, enabled: true, ...(isKeyed ? bearer(`{env:${KEY}}`) : {}) } },
  }),
  goose: ({ url, name }, isKeyed) => ({
    extensions: {
      [name]: {
        ...{
          enabled: true,
          type: 'streamable_http',
          name,
          description: 'Tools of Collet',
          uri: url,
          timeout: 300,
        },
        ...(isKeyed ? { ...bearer(hole(KEY)), env_keys: [KEY] } : {}),
      },
    },
  }),
}
const FILE_CLIENTS = Object.keys(FILES)
const PROGRAM_CLIENTS = ['claude', 'jetbrains']
const CASES = FILE_CLIENTS.flatMap((client) =>
  [EVERYTHING, TOOLSET].flatMap((target) => [false, true].map((isKeyed) => ({ client, ...target, isKeyed }))),
)

function snippet(client: string, target: Target, isKeyed: boolean, isOwnMachine = true) {
  const found = clientSnippets({ ...target, isKeyed, isOwnMachine }).find(({ name }) => name === client)
  if (found === undefined) throw new Error(`no snippet for ${client}`)
  return found
}

describe('a snippet for a client', () => {
  it('exists for every client', () => {
    expect([...PROGRAM_CLIENTS, ...FILE_CLIENTS].sort()).toEqual(Object.keys(MCP_CLIENTS).sort())
  })

  it.each(CASES)('$client, $name, with a key: $isKeyed', ({ client, url, name, isKeyed }) => {
    const { kind, text, command } = snippet(client, { url, name }, isKeyed)
    expect(parseSettings(text, `x.${kind}`)).toEqual(FILES[client]?.({ url, name }, isKeyed))
    expect(command).toBe(`${commandOnPages()} connect ${client} --write`)
  })

  it.each(CASES)(
    '$client, $name, with a key: $isKeyed, is recognised as Collet itself',
    ({ client, url, name, isKeyed }) => {
      const { kind, text } = snippet(client, { url, name }, isKeyed)
      const [server] = readServerList(text, `x.${kind}`, '/project')?.servers ?? []
      expect(server?.name).toBe(name)
      expect(describeServer(server ?? { entry: {} }, isOwnMcpAddress(4100))).toEqual({
        kind: 'skipped',
        why: 'it is Collet itself',
      })
    },
  )

  it.each(
    Object.entries<McpClient>(MCP_CLIENTS).flatMap(([name, client]) =>
      [false, true].map((isKeyed) => ({ name, client, isKeyed })),
    ),
  )('$name starts a program that is known as Collet itself, with a key: $isKeyed', ({ client, isKeyed }) => {
    const program = { command: '/bin/node', args: ['/lib/collet.js', 'mcp', '--config', '/c.json'] }
    const entry = programEntry(client, program, { name: 'collet', isKeyed })
    const text = renderEntry(client.format, [client.member, 'collet'], entry)
    const [server] = readServerList(text, `x.${client.format}`, '/project')?.servers ?? []
    expect(describeServer(server ?? { entry: {} }, () => false)).toMatchObject({ why: 'it is Collet itself' })
    expect(text.includes(KEY)).toBe(isKeyed)
  })

  it.each(PROGRAM_CLIENTS)('%s gets the command if it can start the server', (client) => {
    expect(snippet(client, EVERYTHING, false)).toMatchObject({
      kind: 'terminal',
      text: `${commandOnPages()} connect ${client} --write`,
    })
  })

  it('is an address only if the client accepts remote addresses', () => {
    const far = { url: 'https://tools.example/mcp', name: 'collet' }
    expect(snippet('claude', far, true, false)).toMatchObject({ text: far.url, command: null })
    expect(
      clientSnippets({ ...far, isKeyed: true, isOwnMachine: false }).map(({ name }) => name),
    ).not.toContain('jetbrains')
  })

  it('parses as code, with and without a key and a toolset', () => {
    for (const target of [EVERYTHING, TOOLSET])
      for (const isKeyed of [false, true])
        for (const { name, kind, text } of clientSnippets({ ...target, isKeyed, isOwnMachine: true })) {
          if (kind === 'code') {
            expect(() => stripTypeScriptTypes(text), name).not.toThrow()
            expect(text).toContain(target.url)
            expect(text.includes(KEY)).toBe(isKeyed)
          }
        }
  })

  it('is a link with the same entry for clients that accept links', () => {
    for (const { client, url, name, isKeyed } of CASES) {
      const { link, text } = snippet(client, { url, name }, isKeyed)
      if (link === null) continue
      const address = new URL(link)
      if (client === 'vscode') {
        const { name: called, ...entry } = JSON.parse(decodeURIComponent(address.search.slice(1)))
        expect([address.protocol, called, entry]).toEqual(['vscode:', name, JSON.parse(text).servers[name]])
      } else {
        expect([address.protocol, address.host, address.pathname]).toEqual([
          'cursor:',
          'anysphere.cursor-deeplink',
          '/mcp/install',
        ])
        const config = Buffer.from(address.searchParams.get('config') ?? '', 'base64').toString()
        expect(address.searchParams.get('name')).toBe(name)
        expect(JSON.parse(config)).toEqual(JSON.parse(text).mcpServers[name])
      }
    }
    const linked = clientSnippets({ ...EVERYTHING, isKeyed: false, isOwnMachine: true }).filter(
      ({ link }) => link !== null,
    )
    expect(linked.map(({ name }) => name)).toEqual(['cursor', 'vscode'])
  })
})

const TOML = `# mine
model = "x" # keep

# files
[mcp_servers.files]
command = "a"

[mcp_servers.files.env]
TOKEN = "t"

# last
[tui]
theme = "dark"
`
const YAML = `# mine
GOOSE_MODEL: x # keep
extensions:
  # local
  files:
    type: stdio # its kind
    cmd: a
    enabled: true
  developer:
    type: builtin
`

describe('a settings file', () => {
  it('keeps all comments when an entry is added and removed', () => {
    const entry = { url: BASE }
    const toml = withEntry(TOML, 'c.toml', { path: ['mcp_servers', 'collet'], entry }) ?? ''
    expect(toml).toBe(`${TOML}\n[mcp_servers.collet]\nurl = "${BASE}"\n`)
    expect(withEntry(toml, 'c.toml', { path: ['mcp_servers', 'collet'], entry })).toBe(toml)
    expect(withoutEntry(toml, 'c.toml', ['mcp_servers', 'collet'])?.trimEnd()).toBe(TOML.trimEnd())
    expect(withoutEntry(TOML, 'c.toml', ['mcp_servers', 'files'])).toBe(
      '# mine\nmodel = "x" # keep\n\n# files\n# last\n[tui]\ntheme = "dark"\n',
    )
    const yaml = withEntry(YAML, 'c.yaml', { path: ['extensions', 'collet'], entry }) ?? ''
    expect(yaml).toBe(`${YAML}  collet:\n    url: ${BASE}\n`)
    expect(withoutEntry(yaml, 'c.yaml', ['extensions', 'collet'])).toBe(YAML)
    expect(parseYaml(withoutEntry(YAML, 'c.yaml', ['extensions', 'files']) ?? '')).toEqual({
      GOOSE_MODEL: 'x',
      extensions: { developer: { type: 'builtin' } },
    })
  })

  it.each([
    [
      '{\n  "s": {\n    "a": 1, // one\n    "b": 2 // two\n  }\n}\n',
      'a',
      '{\n  "s": {\n    // one\n    "b": 2 // two\n  }\n}\n',
    ],
    [
      '{\n  "s": {\n    "a": 1, // one\n    "b": 2 // two\n  }\n}\n',
      'b',
      '{\n  "s": {\n    "a": 1 // one\n    // two\n  }\n}\n',
    ],
    ['{"s":{"a":1,"b":2}}', 'b', '{"s":{"a":1}}'],
    ['{"s":{"a":1,"b":2}}', 'a', '{"s":{"b":2}}'],
    ['{"s":{"a":1}}', 'a', '{"s":{}}'],
    [
      '{\n  "s": {\n    "a": 1,\n    "b": { "c": [1, 2] },\n  },\n}',
      'b',
      '{\n  "s": {\n    "a": 1,\n  },\n}',
    ],
    ['{\r\n\t"s": {\r\n\t\t"a": "x,y"\r\n\t}\r\n}', 'a', '{\r\n\t"s": {\r\n\t}\r\n}'],
  ])('of JSON %j loses only the member %s', (before, name, after) => {
    expect(withoutEntry(before, 'x.json', ['s', name])).toBe(after)
  })

  it('is not changed if the edit would change its meaning', () => {
    expect(
      withEntry('mcp_servers = { a = { url = "x" } }', 'c.toml', {
        path: ['mcp_servers', 'b'],
        entry: { url: 'y' },
      }),
    ).toBeUndefined()
    expect(withoutEntry('[mcp_servers]\na = { url = "x" }\n', 'c.toml', ['mcp_servers', 'a'])).toBeUndefined()
    expect(withoutEntry('{"s":{"a":1,"a":2}}', 'c.json', ['s', 'a'])).toBeUndefined()
    expect(withEntry('- a\n', 'c.yaml', { path: ['extensions', 'b'], entry: {} })).toBeUndefined()
    expect(withEntry('a: [', 'c.yaml', { path: ['extensions', 'b'], entry: {} })).toBeUndefined()
  })
})
