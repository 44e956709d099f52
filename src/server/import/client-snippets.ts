import type { ClientConfig } from '#admin-api/server'
import type { JsonObject } from '#kernel/base/json'
import { commandOnPages } from '#server/own-command'
import { renderEntry } from './client-files.ts'
import { addressEntry, KEY_VARIABLE, MCP_CLIENTS, type McpClient } from './clients.ts'

/**
 * Texts that connect an MCP client or a library to a server: what to paste, where, and the command that writes it. The
 * page at `/`, the console and `collet connect` show them. Invariant: no snippet contains a key.
 */

interface SnippetTarget {
  /** The MCP address, with the path of a toolset. */
  readonly url: string
  /** The server's name in the client. */
  readonly name: string
  readonly isKeyed: boolean
  /** The server runs on the client's machine, so the client can start it. */
  readonly isOwnMachine: boolean
}

/** Snippets for all clients, then for libraries. */
export function clientSnippets(target: SnippetTarget): readonly ClientConfig[] {
  const clients = Object.entries<McpClient>(MCP_CLIENTS).flatMap(([name, client]) => {
    const entry = addressEntry(client, target)
    return entry === undefined
      ? programSnippet(name, client, target)
      : [fileSnippet(name, client, entry, target)]
  })
  return [...clients, inspector(target), aiSdk(target), langChain(target)]
}

export function inspectorCommand({ url, isKeyed }: Pick<SnippetTarget, 'url' | 'isKeyed'>): string {
  const header = isKeyed ? ` --header "Authorization: Bearer $${KEY_VARIABLE}"` : ''
  return `npx @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list${header}`
}

function fileSnippet(
  name: string,
  client: McpClient,
  entry: JsonObject,
  { name: serverName }: SnippetTarget,
): ClientConfig {
  const { title, member, format, projectFiles, writesTo, after } = client
  const [projectFile = ''] = projectFiles
  return {
    ...{ name, title, kind: format },
    place: writesTo === 'project' ? projectFile : (USER_FILES[name] ?? 'its file of MCP servers'),
    text: renderEntry(format, [member, serverName], entry),
    command: `${commandOnPages()} connect ${name} --write`,
    link: LINKS[name]?.(serverName, entry) ?? null,
    after,
  }
}

/** Files of the user as people write their paths; those of desktop programs differ by platform. */
const USER_FILES: Readonly<Record<string, string>> = {
  windsurf: '~/.codeium/windsurf/mcp_config.json',
  codex: '~/.codex/config.toml',
  gemini: '~/.gemini/settings.json',
  copilot: '~/.copilot/mcp-config.json',
  zed: 'settings.json of Zed',
  cline: 'cline_mcp_settings.json (Cline, MCP Servers, Configure)',
  opencode: '~/.config/opencode/opencode.json',
  goose: 'config.yaml of Goose',
}

/** Addresses that open a client and let its user add the server. */
const LINKS: Readonly<Record<string, (name: string, entry: JsonObject) => string>> = {
  vscode: (name, entry) => `vscode:mcp/install?${encodeURIComponent(JSON.stringify({ name, ...entry }))}`,
  cursor: (name, entry) => {
    const config = Buffer.from(JSON.stringify(entry)).toString('base64')
    return `cursor://anysphere.cursor-deeplink/mcp/install?name=${encodeURIComponent(name)}&config=${encodeURIComponent(config)}`
  },
}

/** For a client that only starts programs: a command if the server is on its machine, else the part of its settings where addresses are added. */
function programSnippet(
  name: string,
  { title, after, connectors }: McpClient,
  { url, isOwnMachine }: SnippetTarget,
): readonly ClientConfig[] {
  const command = `${commandOnPages()} connect ${name} --write`
  const shared = { name, title, kind: 'terminal', link: null } as const
  if (isOwnMachine) return [{ ...shared, command, after, place: 'the folder of the config', text: command }]
  if (connectors === undefined) return []
  return [{ ...shared, command: null, after: connectors.note, place: connectors.menu, text: url }]
}

function inspector(target: SnippetTarget): ClientConfig {
  return {
    ...{ name: 'inspector', title: 'Inspector', kind: 'terminal', place: 'a terminal' },
    text: inspectorCommand(target),
    command: `${commandOnPages()} connect inspector`,
    link: null,
    after: 'It prints the tools. Without --cli it opens a page.',
  }
}

const IN_CODE = { kind: 'code', place: 'your agent', command: null, link: null } as const

function aiSdk({ url, isKeyed }: SnippetTarget): ClientConfig {
  const headers = isKeyed ? `, headers: ${KEY_HEADERS}` : ''
  return {
    ...IN_CODE,
    name: 'ai-sdk',
    title: 'AI SDK',
    text: `${isKeyed ? KEY_IMPORT : ''}import { createMCPClient } from '@ai-sdk/mcp'

const client = await createMCPClient({ transport: { type: 'http', url: '${url}'${headers} } })
const tools = await client.tools()
// generateText({ model, tools, prompt })`,
    after: 'npm install ai @ai-sdk/mcp',
  }
}

function langChain({ url, name, isKeyed }: SnippetTarget): ClientConfig {
  const headers = isKeyed ? `, headers: ${KEY_HEADERS}` : ''
  return {
    ...IN_CODE,
    name: 'langchain',
    title: 'LangChain',
    text: `${isKeyed ? KEY_IMPORT : ''}import { MultiServerMCPClient } from '@langchain/mcp-adapters'

const client = new MultiServerMCPClient({
  mcpServers: { ${JSON.stringify(name).replace(/^"(\w+)"$/, '$1')}: { transport: 'http', url: '${url}'${headers} } },
})
const tools = await client.getTools()
// createAgent({ model, tools })`,
    after: 'npm install @langchain/mcp-adapters @langchain/core',
  }
}

const KEY_IMPORT = "import { env } from 'node:process'\n"
const KEY_HEADERS = `{ Authorization: \`Bearer \${env.${KEY_VARIABLE}}\` }`
