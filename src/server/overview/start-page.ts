import type { ClientConfig } from '#admin-api/server'
import { basePath } from '#config/to-settings'
import { defined } from '#kernel/base/json'
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
 * The page at `/`: the addresses of the protocols, and the configuration of clients. The composition root opens it as one part.
 * Invariant: it needs no credential and reveals no tool and no principal.
 */

/**
 * `GET /`. A browser is redirected to the console; without a console it gets the addresses of the protocols and the configuration of
 * each client. A program gets the addresses of the protocols.
 */
export function openStartPage(host: ServerHost): ServerPart {
  const { address } = host
  const route: ServerRoute = {
    ...OPEN_ROUTE,
    method: 'GET',
    path: '/',
    handle: (request) => {
      if (!isForPerson(request)) return jsonReply(200, addressesOf(host), VARY_HEADER)
      if (!address.hasConsole())
        return pageReply(200, { title: 'Collet', content: contentOf(host) }, VARY_HEADER)
      const location = `${basePath(address.publicUrl())}/console`
      return { status: 303, headers: { ...PAGE_HEADERS, ...VARY_HEADER, location }, body: undefined }
    },
  }
  return { routes: [route] }
}

const VARY_HEADER = { vary: 'accept' }

function addressesOf({ settings, address }: ServerHost): object {
  const url = address.publicUrl()
  const served = servedProtocols(settings.current)
  return {
    name: 'collet',
    protocols: Object.fromEntries(served.map(({ name, root }) => [name, `${url}${root}`])),
    ...defined({ console: address.consoleUrl() }),
  }
}

function contentOf({ settings, address, authenticator }: ServerHost): Html {
  const { mcp, server } = settings.current
  const url = address.publicUrl()
  const addresses = factsHtml(
    servedProtocols(settings.current).map(({ title, root }) => [title, html`<code>${url}${root}</code>`]),
  )
  const target = {
    url: `${url}${PROTOCOLS.mcp.root}`,
    name: 'collet',
    isKeyed: authenticator.isConfigured,
    isOwnMachine: isOwnMachine(server),
  }
  const snippets = mcp.enabled ? clientSnippets(target).map(renderSnippet) : []
  return html`<p>This server offers tools to agents. Its addresses:</p>
${addresses}
${snippets}`
}

function renderSnippet({ title, place, text, command }: ClientConfig): Html {
  const other = command === null || command === text ? html`` : html`, or with <code>${command}</code>`
  return html`<h2>${title}</h2><p>In ${place}${other}:</p><pre>${text}</pre>`
}
