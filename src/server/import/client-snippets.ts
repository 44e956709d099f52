import type { JsonObject } from '#core/json'
import { MCP_CLIENTS, type McpClient } from './clients.ts'

/** The variable that holds a client's key: no key is ever printed or written. */
export const KEY_VARIABLE = 'COLLET_API_KEY'

/** What a client is connected to. */
interface SnippetTarget {
  /** Of MCP, with the path of a toolset. */
  readonly url: string
  /** What the server is called there. */
  readonly name: string
  readonly isKeyed: boolean
  /** Whether clients that start programs can start this server: it is on their machine. */
  readonly isOwnMachine: boolean
}

/** What to paste where, for one client or library. */
export interface ClientSnippet {
  readonly name: string
  readonly title: string
  readonly kind: 'json' | 'terminal' | 'code'
  /** Where it goes, in words: a file, or the terminal. */
  readonly place: string
  readonly text: string
  /** What does it without pasting; `null` where nothing does. */
  readonly command: string | null
  /** What one has to do after. */
  readonly after: string
}

/** Every way to connect that we know, clients first. */
export function clientSnippets(target: SnippetTarget): readonly ClientSnippet[] {
  const clients = Object.entries<McpClient>(MCP_CLIENTS).map(([name, client]) =>
    client.atAddress === undefined
      ? programSnippet(name, client, target)
      : fileSnippet(name, client, client.atAddress, target),
  )
  return [...clients, inspector(target), aiSdk(target), langChain(target)]
}

/** What the Inspector's command line takes. */
export function inspectorCommand({ url, isKeyed }: Pick<SnippetTarget, 'url' | 'isKeyed'>): string {
  const header = isKeyed ? ` --header "Authorization: Bearer $${KEY_VARIABLE}"` : ''
  return `npx @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list${header}`
}

function fileSnippet(
  name: string,
  client: McpClient,
  atAddress: NonNullable<McpClient['atAddress']>,
  { url, name: called, isKeyed }: SnippetTarget,
): ClientSnippet {
  const { title, member, variable, projectFile, after } = client
  const key = variable?.(KEY_VARIABLE) ?? '<your key>'
  const headers: JsonObject = isKeyed ? { headers: { Authorization: `Bearer ${key}` } } : {}
  return {
    ...{ name, title, kind: 'json' },
    place: projectFile ?? 'its file of MCP servers',
    text: JSON.stringify({ [member]: { [called]: atAddress(url, headers) } }, undefined, 2),
    command: `npx collet connect ${name} --write`,
    after,
  }
}

/** A program that starts its servers itself can start one that is on its machine; any other is added by its address. */
function programSnippet(
  name: string,
  { title, after }: McpClient,
  { url, isOwnMachine }: SnippetTarget,
): ClientSnippet {
  const command = `npx collet connect ${name} --write`
  return isOwnMachine
    ? {
        ...{ name, title, kind: 'terminal', command, after },
        place: 'the folder of the config',
        text: command,
      }
    : {
        ...{ name, title, kind: 'terminal', command: null },
        place: 'Settings, Connectors, Add custom connector',
        text: url,
        after: `${title} asks who you are when it connects.`,
      }
}

function inspector(target: SnippetTarget): ClientSnippet {
  return {
    ...{ name: 'inspector', title: 'Inspector', kind: 'terminal', place: 'a terminal' },
    text: inspectorCommand(target),
    command: 'npx collet connect inspector',
    after: 'It prints the tools. Without --cli it opens a page.',
  }
}

function aiSdk({ url, isKeyed }: SnippetTarget): ClientSnippet {
  const headers = isKeyed ? `, headers: ${KEY_HEADERS}` : ''
  return {
    ...{ name: 'ai-sdk', title: 'AI SDK', kind: 'code', place: 'your agent', command: null },
    text: `${isKeyed ? KEY_IMPORT : ''}import { createMCPClient } from '@ai-sdk/mcp'

const client = await createMCPClient({ transport: { type: 'http', url: '${url}'${headers} } })
const tools = await client.tools()
// generateText({ model, tools, prompt })`,
    after: 'npm install ai @ai-sdk/mcp',
  }
}

function langChain({ url, name, isKeyed }: SnippetTarget): ClientSnippet {
  const headers = isKeyed ? `, headers: ${KEY_HEADERS}` : ''
  return {
    ...{ name: 'langchain', title: 'LangChain', kind: 'code', place: 'your agent', command: null },
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
