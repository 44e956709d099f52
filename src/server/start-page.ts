import type { Settings } from '#config/settings'
import { basePath } from '#config/to-settings'
import { factsHtml, type Html, html, PAGE_HEADERS, pageReply } from '#protocols/html-page'
import { PROTOCOLS } from '#protocols/list'
import { jsonReply, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { MCP_CLIENTS, type McpClient } from '#server/import/clients'

interface StartPageOptions {
  /** What is served. */
  readonly settings: Pick<Settings, keyof typeof PROTOCOLS>
  /** Never taken from a request. */
  publicUrl(): string
  /** Whether callers need a key: then the snippets say where it goes. */
  isKeyed(): boolean
  /** Whether there is a console to lead people to. */
  hasConsole(): boolean
}

/**
 * The address itself. A person who opens it is led to the console, or where there is none reads where each protocol is and what
 * to paste into which client; a program gets the addresses of the protocols. It is open to all, so it names no tool and nobody.
 */
export function createStartPage(options: StartPageOptions): ServerRoute {
  return {
    method: 'GET',
    path: '/',
    access: 'open',
    body: 'never',
    refuse: refuseWithMessage,
    handle: ({ headers }) => {
      if (!isPerson(headers.accept)) return jsonReply(200, addressesOf(options), VARYING)
      if (!options.hasConsole())
        return pageReply(200, { title: 'Collet', content: contentOf(options) }, VARYING)
      const location = `${basePath(options.publicUrl())}/console`
      return { status: 303, headers: { ...PAGE_HEADERS, ...VARYING, location }, body: undefined }
    },
  }
}

const VARYING = { vary: 'accept' }

/** Browsers ask for pages by name; programs take anything, or name what they read. */
function isPerson(accept = ''): boolean {
  return accept.split(',').some((part) => part.split(';', 1)[0]?.trim().toLowerCase() === 'text/html')
}

function addressesOf({ settings, publicUrl, hasConsole }: StartPageOptions): object {
  const url = publicUrl()
  return {
    name: 'collet',
    protocols: Object.fromEntries(servedIn(settings).map((name) => [name, `${url}${PROTOCOLS[name].root}`])),
    ...(hasConsole() ? { console: `${url}/console` } : {}),
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
  const addresses = factsHtml(
    servedIn(settings).map((name) => [NAMES[name], html`<code>${url}${PROTOCOLS[name].root}</code>`]),
  )
  const snippets = settings.mcp.enabled ? snippetsFor(`${url}${PROTOCOLS.mcp.root}`, isKeyed()) : []
  return html`<p>This server holds tools for agents. Its addresses:</p>
${addresses}
${snippets}`
}

const SHOWN = ['mcp', 'otc', 'opentool', 'openwop'] as const

function servedIn(settings: StartPageOptions['settings']): readonly (keyof typeof PROTOCOLS)[] {
  return SHOWN.filter((name) => isServed(settings[name]))
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
