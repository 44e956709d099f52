import { homedir } from 'node:os'
import { join } from 'node:path'
import type { JsonObject } from '#core/json'

/** Where to look: a folder of a project, and the machine. */
interface ClientPlace {
  readonly folder: string
  readonly platform: NodeJS.Platform
  readonly home: string
  /** Where programs of this user keep their settings. */
  readonly settings: string
}

/** A program that talks to MCP servers, and the files in which it lists them. */
export interface McpClient {
  /** As people call it. */
  readonly title: string
  /** The member of its file that holds the servers. */
  readonly member: 'mcpServers' | 'servers'
  /** Its file in a project, which wins; absent where it knows no projects. */
  readonly projectFile?: string
  /** Its files of the user. */
  userFiles(place: ClientPlace): readonly string[]
  /** How its files name a variable of the environment; absent where they cannot. */
  readonly variable?: (name: string) => string
  /** The entry of a server at an address; absent where it only starts programs. */
  readonly atAddress?: (url: string, headers: JsonObject) => JsonObject
  /** What one has to do after its file has changed. */
  readonly after: string
}

const named = (name: string): string => `\${env:${name}}`

export const MCP_CLIENTS = {
  claude: {
    title: 'Claude Desktop',
    member: 'mcpServers',
    userFiles: ({ settings }) => [join(settings, 'Claude', 'claude_desktop_config.json')],
    after: 'Quit Claude Desktop and start it again.',
  },
  'claude-code': {
    title: 'Claude Code',
    member: 'mcpServers',
    projectFile: '.mcp.json',
    userFiles: ({ home }) => [join(home, '.claude.json')],
    variable: (name) => `\${${name}}`,
    atAddress: (url, headers) => ({ type: 'http', url, ...headers }),
    after: 'Start claude in this folder; /mcp shows its servers.',
  },
  cursor: {
    title: 'Cursor',
    member: 'mcpServers',
    projectFile: join('.cursor', 'mcp.json'),
    userFiles: ({ home }) => [join(home, '.cursor', 'mcp.json')],
    variable: named,
    atAddress: (url, headers) => ({ url, ...headers }),
    after: 'Open this folder in Cursor and turn the server on under Settings, MCP.',
  },
  vscode: {
    title: 'VS Code',
    member: 'servers',
    projectFile: join('.vscode', 'mcp.json'),
    userFiles: ({ settings }) => [
      join(settings, 'Code', 'User', 'mcp.json'),
      join(settings, 'Code', 'User', 'settings.json'),
    ],
    variable: named,
    atAddress: (url, headers) => ({ type: 'http', url, ...headers }),
    after: 'Open this folder in VS Code and run "MCP: List Servers".',
  },
  windsurf: {
    title: 'Windsurf',
    member: 'mcpServers',
    userFiles: ({ home }) => [join(home, '.codeium', 'windsurf', 'mcp_config.json')],
    variable: named,
    atAddress: (url, headers) => ({ serverUrl: url, ...headers }),
    after: 'Press Refresh under Settings, Cascade, MCP servers.',
  },
} as const satisfies Readonly<Record<string, McpClient>>

/** A client by its name; `undefined` for any other word. */
export function mcpClient(name: string): McpClient | undefined {
  return Object.entries<McpClient>(MCP_CLIENTS).find(([known]) => known === name)?.[1]
}

/** The files of a client, absolute: that of the project first, which is also the one to write to. */
export function clientFiles({ projectFile, userFiles }: McpClient, place: ClientPlace): readonly string[] {
  return [...(projectFile === undefined ? [] : [join(place.folder, projectFile)]), ...userFiles(place)]
}

/** Where the clients of this user keep their files; `variables` are those of the environment. */
export function clientPlace(
  folder: string,
  variables: Readonly<Record<string, string | undefined>>,
  platform: NodeJS.Platform = process.platform,
): ClientPlace {
  const home = variables.HOME || variables.USERPROFILE || homedir()
  return { folder, platform, home, settings: settingsFolder(home, variables, platform) }
}

function settingsFolder(
  home: string,
  { APPDATA, XDG_CONFIG_HOME }: Readonly<Record<string, string | undefined>>,
  platform: NodeJS.Platform,
): string {
  if (platform === 'darwin') return join(home, 'Library', 'Application Support')
  if (platform === 'win32') return APPDATA || join(home, 'AppData', 'Roaming')
  return XDG_CONFIG_HOME || join(home, '.config')
}
