import { homedir } from 'node:os'
import { join } from 'node:path'
import type { JsonObject } from '#kernel/base/json'

/**
 * The table of MCP clients that `collet connect` writes for and `collet import --from` reads: the files of each, their
 * format, and the form of an entry for Collet. docs/clients.md lists which of these facts were confirmed. Invariant: no entry
 * contains a key, only the name of the variable that contains it.
 */

export const KEY_VARIABLE = 'COLLET_API_KEY'
const KEY_PLACEHOLDER = '<your key>'

interface ClientFolders {
  readonly folder: string
  readonly platform: NodeJS.Platform
  readonly home: string
  /** The folder with the settings of the user's desktop programs. */
  readonly settings: string
  /** `XDG_CONFIG_HOME`, or `~/.config` on every platform. */
  readonly config: string
  readonly variables: Variables
}

type Variables = Readonly<Record<string, string | undefined>>

interface ClientProgram {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

export interface McpClient {
  readonly title: string
  readonly format: 'json' | 'toml' | 'yaml'
  /** The member of the client's file that contains the servers. */
  readonly member: string
  /** Files in a project; they may come with a repository. */
  readonly projectFiles: readonly string[]
  userFiles(folders: ClientFolders): readonly string[]
  readonly writesTo: 'project' | 'user'
  /** Syntax for an environment variable; absent if the client has none, or none was confirmed. */
  readonly variable?: (name: string) => string
  /** The entry for a server at an address; absent if the client only starts programs. */
  readonly atAddress?: (server: ClientAddress) => JsonObject
  /** The entry for a program, if it is not `command`, `args` and `env`. */
  readonly forProgram?: (program: ClientProgram, name: string) => JsonObject
  /** The menu of the client for servers that its vendor's cloud can reach. */
  readonly connectors?: { readonly menu: string; readonly note: string }
  /** The user's next step after the file has changed. */
  readonly after: string
}

interface ClientAddress {
  readonly url: string
  readonly name: string
  /** `{ headers: { Authorization } }` if the server needs a key, else `{}`. */
  readonly headers: JsonObject
  readonly isKeyed: boolean
}

const braced = (name: string): string => `\${${name}}`
const prefixed = (name: string): string => `\${env:${name}}`
const httpEntry = ({ url, headers }: ClientAddress): JsonObject => ({ type: 'http', url, ...headers })

export const MCP_CLIENTS = {
  claude: {
    title: 'Claude Desktop',
    ...{ format: 'json', member: 'mcpServers', projectFiles: [], writesTo: 'user' },
    userFiles: ({ settings }) => [join(settings, 'Claude', 'claude_desktop_config.json')],
    connectors: {
      menu: 'Settings, Connectors, Add custom connector',
      note: "Claude reaches connectors from Anthropic's cloud, so the address must be public.",
    },
    after: 'Quit Claude Desktop and start it again.',
  },
  'claude-code': {
    title: 'Claude Code',
    ...{ format: 'json', member: 'mcpServers', projectFiles: ['.mcp.json'], writesTo: 'project' },
    userFiles: ({ home }) => [join(home, '.claude.json')],
    variable: braced,
    atAddress: httpEntry,
    after: 'Start claude in this folder; /mcp shows its servers.',
  },
  cursor: {
    title: 'Cursor',
    ...{ format: 'json', member: 'mcpServers', writesTo: 'project' },
    projectFiles: [join('.cursor', 'mcp.json')],
    userFiles: ({ home }) => [join(home, '.cursor', 'mcp.json')],
    variable: prefixed,
    atAddress: ({ url, headers }) => ({ url, ...headers }),
    after: 'Open this folder in Cursor and turn the server on under Settings, MCP.',
  },
  vscode: {
    title: 'VS Code',
    ...{ format: 'json', member: 'servers', writesTo: 'project' },
    projectFiles: [join('.vscode', 'mcp.json')],
    userFiles: ({ settings }) =>
      ['mcp.json', 'settings.json'].map((name) => join(settings, 'Code', 'User', name)),
    variable: prefixed,
    atAddress: httpEntry,
    forProgram: (program) => ({ type: 'stdio', ...plainProgram(program) }),
    after: 'Open this folder in VS Code and run "MCP: List Servers".',
  },
  windsurf: {
    title: 'Windsurf',
    ...{ format: 'json', member: 'mcpServers', projectFiles: [], writesTo: 'user' },
    userFiles: ({ home }) => [join(home, '.codeium', 'windsurf', 'mcp_config.json')],
    variable: prefixed,
    atAddress: ({ url, headers }) => ({ serverUrl: url, ...headers }),
    after: 'Press Refresh under Settings, Cascade, MCP servers.',
  },
  codex: {
    title: 'Codex',
    ...{ format: 'toml', member: 'mcp_servers', writesTo: 'user' },
    projectFiles: [join('.codex', 'config.toml')],
    userFiles: ({ home, variables }) => [join(variables.CODEX_HOME || join(home, '.codex'), 'config.toml')],
    variable: braced,
    atAddress: ({ url, isKeyed }) => ({ url, ...(isKeyed ? { bearer_token_env_var: KEY_VARIABLE } : {}) }),
    forProgram: ({ command, args, env }) => ({
      ...{ command, args: [...args] },
      ...(KEY_VARIABLE in env ? { env_vars: [KEY_VARIABLE] } : {}),
    }),
    after: 'Start codex again; /mcp shows its servers.',
  },
  gemini: {
    title: 'Gemini CLI',
    ...{ format: 'json', member: 'mcpServers', writesTo: 'user' },
    projectFiles: [join('.gemini', 'settings.json')],
    userFiles: ({ home }) => [join(home, '.gemini', 'settings.json')],
    variable: braced,
    atAddress: ({ url, headers }) => ({ httpUrl: url, ...headers }),
    after: 'Start gemini again; /mcp shows its servers.',
  },
  copilot: {
    title: 'Copilot CLI',
    ...{ format: 'json', member: 'mcpServers', writesTo: 'user' },
    projectFiles: ['.mcp.json', join('.github', 'mcp.json')],
    userFiles: ({ home, variables }) => [
      join(variables.COPILOT_HOME || join(home, '.copilot'), 'mcp-config.json'),
    ],
    variable: braced,
    atAddress: (server) => ({ ...httpEntry(server), tools: ['*'] }),
    forProgram: (program) => ({ type: 'local', ...plainProgram(program), tools: ['*'] }),
    after: 'Start copilot again; /mcp show lists its servers.',
  },
  zed: {
    title: 'Zed',
    ...{ format: 'json', member: 'context_servers', writesTo: 'user' },
    projectFiles: [join('.zed', 'settings.json')],
    userFiles: ({ platform, settings, config }) => [
      platform === 'win32' ? join(settings, 'Zed', 'settings.json') : join(config, 'zed', 'settings.json'),
    ],
    atAddress: ({ url, headers }) => ({ url, ...headers }),
    after: 'Zed reads its settings at once; Settings, AI, MCP Servers shows the state.',
  },
  cline: {
    title: 'Cline',
    ...{ format: 'json', member: 'mcpServers', projectFiles: [], writesTo: 'user' },
    userFiles: ({ settings }) => [
      join(settings, 'Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json'),
    ],
    atAddress: ({ url, headers }) => ({ type: 'streamableHttp', url, ...headers }),
    after: 'Open MCP Servers in Cline; it reads the file at once.',
  },
  jetbrains: {
    title: 'JetBrains Junie',
    ...{ format: 'json', member: 'mcpServers', writesTo: 'user' },
    projectFiles: [join('.junie', 'mcp', 'mcp.json')],
    userFiles: ({ home }) => [join(home, '.junie', 'mcp', 'mcp.json')],
    after:
      'Open Settings, Tools, Junie, MCP Settings. For AI Assistant, paste the same JSON under Settings, Tools, AI Assistant, MCP.',
  },
  opencode: {
    title: 'OpenCode',
    ...{ format: 'json', member: 'mcp', writesTo: 'user' },
    projectFiles: ['opencode.json', 'opencode.jsonc', join('.opencode', 'opencode.json')],
    userFiles: ({ config }) =>
      ['opencode.json', 'opencode.jsonc'].map((name) => join(config, 'opencode', name)),
    variable: (name) => `{env:${name}}`,
    atAddress: ({ url, headers }) => ({ type: 'remote', url, enabled: true, ...headers }),
    forProgram: ({ command, args, env }) => ({
      ...{ type: 'local', command: [command, ...args], enabled: true },
      ...(Object.keys(env).length === 0 ? {} : { environment: { ...env } }),
    }),
    after: 'Start opencode again; "opencode mcp list" shows its servers.',
  },
  goose: {
    title: 'Goose',
    ...{ format: 'yaml', member: 'extensions', projectFiles: [], writesTo: 'user' },
    userFiles: ({ platform, settings, config }) => [
      platform === 'win32'
        ? join(settings, 'Block', 'goose', 'config', 'config.yaml')
        : join(config, 'goose', 'config.yaml'),
    ],
    variable: braced,
    atAddress: ({ url, name, headers, isKeyed }) =>
      gooseEntry('streamable_http', name, { uri: url, ...headers }, isKeyed),
    forProgram: ({ command, args, env }, name) =>
      gooseEntry('stdio', name, { cmd: command, args: [...args] }, KEY_VARIABLE in env),
    after: 'Start goose again; "goose info -v" shows its extensions.',
  },
} as const satisfies Readonly<Record<string, McpClient>>

export const CLIENT_NAMES: readonly string[] = Object.keys(MCP_CLIENTS)

function gooseEntry(type: string, name: string, upstream: JsonObject, isKeyed: boolean): JsonObject {
  const shared = { enabled: true, type, name, description: 'Tools of Collet', ...upstream }
  return { ...shared, ...(isKeyed ? { env_keys: [KEY_VARIABLE] } : {}), timeout: 300 }
}

function plainProgram({ command, args, env }: ClientProgram): JsonObject {
  return { command, args: [...args], ...(Object.keys(env).length === 0 ? {} : { env: { ...env } }) }
}

export function mcpClient(name: string): McpClient | undefined {
  return Object.entries<McpClient>(MCP_CLIENTS).find(([known]) => known === name)?.[1]
}

/** The entry by which a client reaches Collet at an address; `undefined` if it only starts programs. */
export function addressEntry(
  client: McpClient,
  { url, name, isKeyed }: Omit<ClientAddress, 'headers'>,
): JsonObject | undefined {
  const headers = isKeyed ? { headers: { Authorization: `Bearer ${keyIn(client)}` } } : {}
  return client.atAddress?.({ url, name, headers, isKeyed })
}

export function programEntry(
  client: McpClient,
  { command, args }: Pick<ClientProgram, 'command' | 'args'>,
  { name, isKeyed }: { readonly name: string; readonly isKeyed: boolean },
): JsonObject {
  const program = { command, args, env: isKeyed ? { [KEY_VARIABLE]: keyIn(client) } : {} }
  return client.forProgram?.(program, name) ?? plainProgram(program)
}

function keyIn({ variable }: McpClient): string {
  return variable?.(KEY_VARIABLE) ?? KEY_PLACEHOLDER
}

export interface ClientFile {
  readonly path: string
  readonly scope: 'user' | 'project'
}

/** The files of a client: the user's own first. */
export function clientFiles(client: McpClient, folders: ClientFolders): readonly ClientFile[] {
  const own = client.userFiles(folders).map((path) => ({ path, scope: 'user' as const }))
  const project = client.projectFiles.map((name) => ({
    path: join(folders.folder, name),
    scope: 'project' as const,
  }))
  // In the home folder a project's file may be the user's own.
  return [...own, ...project.filter(({ path }) => own.every((file) => file.path !== path))]
}

/** The file that `connect` writes to. */
export function writtenFile(client: McpClient, folders: ClientFolders): string {
  const files = clientFiles(client, folders)
  return (files.find(({ scope }) => scope === client.writesTo) ?? files[0])?.path ?? ''
}

/** The folders of this user on this platform; `variables` is the environment. */
export function clientFolders(
  folder: string,
  variables: Variables,
  platform: NodeJS.Platform = process.platform,
): ClientFolders {
  const home = variables.HOME || variables.USERPROFILE || homedir()
  const config = variables.XDG_CONFIG_HOME || join(home, '.config')
  const settings: Partial<Record<NodeJS.Platform, string>> = {
    darwin: join(home, 'Library', 'Application Support'),
    win32: variables.APPDATA || join(home, 'AppData', 'Roaming'),
  }
  return { folder, platform, home, settings: settings[platform] ?? config, config, variables }
}
