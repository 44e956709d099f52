import type { Settings } from '#config/settings'
import { type Html, html, pageReply } from '#protocols/html-page'
import { PROTOCOLS } from '#protocols/list'
import { refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { MCP_CLIENTS, type McpClient } from '#server/import/clients'

interface StartPageOptions {
  /** What is served. */
  readonly settings: Pick<Settings, keyof typeof PROTOCOLS>
  /** Never taken from a request. */
  publicUrl(): string
  /** Whether callers need a key: then the snippets say where it goes. */
  isKeyed(): boolean
}

/**
 * What somebody sees who opens the address in a browser: where each protocol is, and what to paste into which client.
 * It is open to all, so it names no tool and nobody.
 */
export function createStartPage(options: StartPageOptions): ServerRoute {
  return {
    method: 'GET',
    path: '/',
    access: 'open',
    body: 'never',
    refuse: refuseWithMessage,
    handle: () => pageReply(200, { title: 'Collet', content: contentOf(options) }),
  }
}

const NAMES = {
  mcp: 'MCP',
  otc: 'OTC',
  opentool: 'OpenTool',
  openwop: 'openwop',
} as const satisfies Readonly<Record<keyof typeof PROTOCOLS, string>>

function contentOf({ settings, publicUrl, isKeyed }: StartPageOptions): Html {
  const url = publicUrl()
  const served = (['mcp', 'otc', 'opentool', 'openwop'] as const).filter((name) => isServed(settings[name]))
  const addresses = served.map(
    (name) => html`<dt>${NAMES[name]}</dt><dd><code>${url}${PROTOCOLS[name].root}</code></dd>`,
  )
  const snippets = settings.mcp.enabled ? snippetsFor(`${url}${PROTOCOLS.mcp.root}`, isKeyed()) : []
  return html`<p>This server holds tools for agents. Its addresses:</p>
<dl>${addresses}</dl>
${snippets}`
}

/** One that cannot be turned off always is. */
function isServed(settings: object): boolean {
  return !('enabled' in settings) || settings.enabled === true
}

function snippetsFor(url: string, isKeyed: boolean): readonly Html[] {
  return Object.entries<McpClient>(MCP_CLIENTS).map(([name, client]) => {
    const command = `npx collet connect ${name} --write`
    const { atAddress, variable, member, title } = client
    if (atAddress === undefined)
      return html`<h2>${title}</h2><p>It starts programs itself. In the folder of the config:</p><pre>${command}</pre>`
    const key = variable?.('COLLET_API_KEY') ?? '<your key>'
    const entry = atAddress(url, isKeyed ? { headers: { Authorization: `Bearer ${key}` } } : {})
    const text = JSON.stringify({ [member]: { collet: entry } }, undefined, 2)
    const file = client.projectFile ?? 'its file of MCP servers'
    return html`<h2>${title}</h2><p>In ${file}, or with <code>${command}</code>:</p><pre>${text}</pre>`
  })
}
