import { homedir } from 'node:os'
import { join } from 'node:path'

/** Where to look: a folder of a project, and the machine. */
interface ClientPlace {
  readonly folder: string
  readonly platform: NodeJS.Platform
  readonly home: string
  /** Where programs of this user keep their settings. */
  readonly settings: string
}

/** A program that talks to MCP servers, and the files in which it lists them. */
interface McpClient {
  /** As people call it. */
  readonly title: string
  /** The member of its file that holds the servers. */
  readonly member: 'mcpServers' | 'servers'
  /** Files of a project, which wins, and then of the user; the first of all is the one to write to. */
  files(place: ClientPlace): readonly string[]
  /** How its files name a variable of the environment; absent where they cannot. */
  readonly variable?: (name: string) => string
  /** Whether its files can name an address; else it only starts programs. */
  readonly takesUrl: boolean
  /** What one has to do after its file has changed. */
  readonly after: string
}

const named = (name: string): string => `\${env:${name}}`

export const MCP_CLIENTS = {
  claude: {
    title: 'Claude Desktop',
    member: 'mcpServers',
    files: ({ settings }) => [join(settings, 'Claude', 'claude_desktop_config.json')],
    takesUrl: false,
    after: 'Quit Claude Desktop and start it again.',
  },
  'claude-code': {
    title: 'Claude Code',
    member: 'mcpServers',
    files: ({ folder, home }) => [join(folder, '.mcp.json'), join(home, '.claude.json')],
    variable: (name) => `\${${name}}`,
    takesUrl: true,
    after: 'Start claude in this folder; /mcp shows its servers.',
  },
  cursor: {
    title: 'Cursor',
    member: 'mcpServers',
    files: ({ folder, home }) => [join(folder, '.cursor', 'mcp.json'), join(home, '.cursor', 'mcp.json')],
    variable: named,
    takesUrl: true,
    after: 'Open this folder in Cursor and turn the server on under Settings, MCP.',
  },
  vscode: {
    title: 'VS Code',
    member: 'servers',
    files: ({ folder, settings }) => [
      join(folder, '.vscode', 'mcp.json'),
      join(settings, 'Code', 'User', 'mcp.json'),
      join(settings, 'Code', 'User', 'settings.json'),
    ],
    variable: named,
    takesUrl: true,
    after: 'Open this folder in VS Code and run "MCP: List Servers".',
  },
  windsurf: {
    title: 'Windsurf',
    member: 'mcpServers',
    files: ({ home }) => [join(home, '.codeium', 'windsurf', 'mcp_config.json')],
    variable: named,
    takesUrl: true,
    after: 'Press Refresh under Settings, Cascade, MCP servers.',
  },
} as const satisfies Readonly<Record<string, McpClient>>

/** A client by its name; `undefined` for any other word. */
export function mcpClient(name: string): McpClient | undefined {
  return Object.entries<McpClient>(MCP_CLIENTS).find(([known]) => known === name)?.[1]
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
