import type { ClientConfig } from '#admin-api/server'
import type { Settings } from '#config/settings'
import { basePath } from '#config/to-settings'
import { factsHtml, type Html, html, PAGE_HEADERS, pageReply } from '#protocols/html-page'
import { isForPerson } from '#protocols/http-exchange'
import { PROTOCOLS } from '#protocols/list'
import type { ServerHost } from '#server/host'
import { jsonReply, OPEN_ROUTE } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { clientSnippets } from '#server/import/client-snippets'
import type { ServerPart } from '#server/part'
import { isOwnMachine } from '#server/safety'
import { servedProtocols } from './server-routes.ts'

/*
 * The page at `/`: the addresses of the protocols, and the configuration of clients.
 * The composition root opens it as one part.
 * Invariant: it needs no credential and reveals no tool and no principal.
 */

interface StartPageOptions {
  readonly settings: Pick<Settings, keyof typeof PROTOCOLS>
  /** Never taken from a request. */
  publicUrl(): string
  /** True if callers need a key; the snippets then show where it goes. */
  isKeyed(): boolean
  /** True if clients run on the machine of the server, where they can start programs. */
  readonly isOwnMachine: boolean
  hasConsole(): boolean
}

/**
 * `GET /`. A browser is redirected to the console, or without one gets the addresses of the protocols and the configuration
 * of each client; a program gets the addresses of the protocols. It needs no credential, so it names no tool and no principal.
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
    ...OPEN_ROUTE,
    method: 'GET',
    path: '/',
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
