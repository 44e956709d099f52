import type { ClientConfig } from '#admin-api/server'
import type { Settings } from '#config/settings'
import { basePath } from '#config/to-settings'
import { factsHtml, type Html, html, PAGE_HEADERS, pageReply } from '#protocols/html-page'
import { isForPerson } from '#protocols/http-exchange'
import { PROTOCOLS } from '#protocols/list'
import type { ServerHost } from '#server/host'
import { jsonReply, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { clientSnippets } from '#server/import/client-snippets'
import type { ServerPart } from '#server/part'
import { isOwnMachine } from '#server/safety'
import { servedProtocols } from './server-routes.ts'

interface StartPageOptions {
  /** What is served. */
  readonly settings: Pick<Settings, keyof typeof PROTOCOLS>
  /** Never taken from a request. */
  publicUrl(): string
  /** Whether callers need a key: then the snippets say where it goes. */
  isKeyed(): boolean
  /** Whether clients that start programs are on the machine of the server. */
  readonly isOwnMachine: boolean
  /** Whether there is a console to lead people to. */
  hasConsole(): boolean
}

/**
 * The address itself. A person who opens it is led to the console, or where there is none reads where each protocol is and what
 * to paste into which client; a program gets the addresses of the protocols. It is open to all, so it names no tool and nobody.
 */
export function openStartPage({ settings, address, authenticator }: ServerHost): ServerPart {
  return {
    routes: [
      createStartPage({
        settings: settings.current,
        publicUrl: address.publicUrl,
        hasConsole: () => address.hasConsole(),
        isKeyed: () => authenticator.isConfigured,
        isOwnMachine: isOwnMachine(settings.current.server),
      }),
    ],
  }
}

function createStartPage(options: StartPageOptions): ServerRoute {
  return {
    method: 'GET',
    path: '/',
    access: 'open',
    body: 'never',
    refuse: refuseWithMessage,
    handle: (request) => {
      if (!isForPerson(request)) return jsonReply(200, addressesOf(options), VARYING)
      if (!options.hasConsole())
        return pageReply(200, { title: 'Collet', content: contentOf(options) }, VARYING)
      const location = `${basePath(options.publicUrl())}/console`
      return { status: 303, headers: { ...PAGE_HEADERS, ...VARYING, location }, body: undefined }
    },
  }
}

const VARYING = { vary: 'accept' }

function addressesOf({ settings, publicUrl, hasConsole }: StartPageOptions): object {
  const url = publicUrl()
  return {
    name: 'collet',
    protocols: Object.fromEntries(servedProtocols(settings).map(({ name, root }) => [name, `${url}${root}`])),
    ...(hasConsole() ? { console: `${url}/console` } : {}),
  }
}

function contentOf({ settings, publicUrl, isKeyed, isOwnMachine }: StartPageOptions): Html {
  const url = publicUrl()
  const addresses = factsHtml(
    servedProtocols(settings).map(({ title, root }) => [title, html`<code>${url}${root}</code>`]),
  )
  const target = { url: `${url}${PROTOCOLS.mcp.root}`, name: 'collet', isKeyed: isKeyed(), isOwnMachine }
  const snippets = settings.mcp.enabled ? clientSnippets(target).map(renderSnippet) : []
  return html`<p>This server holds tools for agents. Its addresses:</p>
${addresses}
${snippets}`
}

function renderSnippet({ title, place, text, command }: ClientConfig): Html {
  const other = command === null || command === text ? html`` : html`, or with <code>${command}</code>`
  return html`<h2>${title}</h2><p>In ${place}${other}:</p><pre>${text}</pre>`
}
