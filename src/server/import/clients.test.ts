import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { CLIENT_NAMES, clientFolders, mcpClient, programEntry, writtenFile } from './clients.ts'

const KEY = 'COLLET_API_KEY'
const PROGRAM = { command: '/bin/node', args: ['collet.js', 'mcp'] }

const variable = (open: string) => `${open}${KEY}}`
const plain = (key: string, more: JsonObject = {}) => [
  { ...PROGRAM, ...more },
  { ...PROGRAM, ...more, env: { [KEY]: key } },
]
const BRACED = variable('$' + '{')
const PREFIXED = variable('$' + '{env:')
const GAP = '<your key>'
const OPENCODE = { type: 'local', command: ['/bin/node', 'collet.js', 'mcp'], enabled: true }
const GOOSE = {
  ...{ enabled: true, type: 'stdio', name: 'collet', description: 'Tools of Collet', timeout: 300 },
  ...{ cmd: '/bin/node', args: ['collet.js', 'mcp'] },
}
/** The entry that starts Collet in each client's file, without a key and with one. */
const ENTRIES: Readonly<Record<string, readonly JsonObject[]>> = {
  claude: plain(GAP),
  'claude-code': plain(BRACED),
  cursor: plain(PREFIXED),
  vscode: plain(PREFIXED, { type: 'stdio' }),
  windsurf: plain(PREFIXED),
  codex: [PROGRAM, { ...PROGRAM, env_vars: [KEY] }],
  gemini: plain(BRACED),
  copilot: plain(BRACED, { type: 'local', tools: ['*'] }),
  zed: plain(GAP),
  cline: plain(GAP),
  jetbrains: plain(GAP),
  opencode: [OPENCODE, { ...OPENCODE, environment: { [KEY]: variable('{env:') } }],
  goose: [GOOSE, { ...GOOSE, env_keys: [KEY] }],
}

const CLINE = 'Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json'
/** The file that `connect` writes, on each platform; project files are the same everywhere. */
const FILES: Readonly<Record<string, readonly [linux: string, darwin: string, win32: string]>> = {
  claude: [
    '/home/.config/Claude/claude_desktop_config.json',
    '/home/Library/Application Support/Claude/claude_desktop_config.json',
    '/roaming/Claude/claude_desktop_config.json',
  ],
  'claude-code': everywhere('/project/.mcp.json'),
  cursor: everywhere('/project/.cursor/mcp.json'),
  vscode: everywhere('/project/.vscode/mcp.json'),
  windsurf: everywhere('/home/.codeium/windsurf/mcp_config.json'),
  codex: everywhere('/home/.codex/config.toml'),
  gemini: everywhere('/home/.gemini/settings.json'),
  copilot: everywhere('/home/.copilot/mcp-config.json'),
  zed: ['/home/.config/zed/settings.json', '/home/.config/zed/settings.json', '/roaming/Zed/settings.json'],
  cline: [`/home/.config/${CLINE}`, `/home/Library/Application Support/${CLINE}`, `/roaming/${CLINE}`],
  jetbrains: everywhere('/home/.junie/mcp/mcp.json'),
  opencode: everywhere('/home/.config/opencode/opencode.json'),
  goose: [
    '/home/.config/goose/config.yaml',
    '/home/.config/goose/config.yaml',
    '/roaming/Block/goose/config/config.yaml',
  ],
}

function everywhere(path: string): readonly [string, string, string] {
  return [path, path, path]
}

describe('the clients', () => {
  it('are all in these tables', () => {
    expect(Object.keys(ENTRIES)).toEqual(CLIENT_NAMES)
    expect(Object.keys(FILES)).toEqual(CLIENT_NAMES)
  })

  it.each(Object.entries(ENTRIES))(
    '%s starts Collet with this entry, without a key and with one',
    (name, wanted) => {
      const client = mcpClient(name) ?? expect.fail(name)
      const made = [false, true].map((isKeyed) => programEntry(client, PROGRAM, { name: 'collet', isKeyed }))
      expect(made).toEqual(wanted)
    },
  )

  it.each(Object.entries(FILES))('%s keeps its list of servers in this file', (name, wanted) => {
    const client = mcpClient(name) ?? expect.fail(name)
    const made = (['linux', 'darwin', 'win32'] as const).map((platform) =>
      writtenFile(client, clientFolders('/project', { HOME: '/home', APPDATA: '/roaming' }, platform)),
    )
    expect(made).toEqual(wanted.map((path) => join(path)))
  })
})
