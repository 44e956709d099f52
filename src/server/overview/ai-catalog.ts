import { ALL_REVISIONS, MCP_PATH } from '#protocols/mcp/wire'
import type { ServerHost } from '#server/host'
import { jsonReply, OPEN_ROUTE } from '#server/http/exchange'
import type { ServerPart } from '#server/part'
import { VERSION } from '#server/version'

/**
 * The AI catalog of this server and the card of its MCP endpoint (SEP-2127), from which clients learn where to connect (MCP-210,
 * MCP-211). `start-server.ts` lists this part.
 * Invariant: both are the same for every caller, and neither names a tool, toolset, source, tenant or issuer.
 */

const CATALOG_PATH = '/.well-known/ai-catalog.json'
const CARD_PATH = `${MCP_PATH}/server-card`
const CARD_TYPE = 'application/mcp-server-card+json'
const CATALOG_TYPE = 'application/ai-catalog+json'
const CARD_SCHEMA = 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json'
const DESCRIPTION = 'Tools, prompts, resources and skills over the Model Context Protocol.'

/** Pages of other origins may read them, because everyone may. */
const HEADERS = {
  'cache-control': 'public, max-age=300',
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET',
  'access-control-allow-headers': 'Content-Type',
}

export function openAiCatalog({ settings, address }: ServerHost): ServerPart {
  const { enabled, name } = settings.current.mcp
  if (!enabled) return {}
  const serve = (path: string, type: string, document: () => object) => ({
    ...OPEN_ROUTE,
    method: 'GET' as const,
    path,
    handle: () => jsonReply(200, document(), { ...HEADERS, 'content-type': type }),
  })
  return {
    routes: [
      serve(CATALOG_PATH, CATALOG_TYPE, () => catalogOf(address.publicUrl(), name)),
      serve(CARD_PATH, CARD_TYPE, () => cardOf(address.publicUrl(), name)),
    ],
  }
}

function catalogOf(publicUrl: string, name: string): object {
  const { hostname } = new URL(publicUrl)
  return {
    specVersion: '1.0',
    entries: [
      {
        identifier: `urn:air:${plain(hostname)}:${plain(name)}`,
        displayName: name,
        type: CARD_TYPE,
        url: `${publicUrl}${CARD_PATH}`,
      },
    ],
  }
}

function cardOf(publicUrl: string, name: string): object {
  const { hostname } = new URL(publicUrl)
  const isNumeric = /^[\d.]+$/.test(hostname) || hostname.startsWith('[')
  const namespace = isNumeric ? hostname : hostname.split('.').toReversed().join('.')
  return {
    $schema: CARD_SCHEMA,
    name: `${plain(namespace)}/${plain(name)}`,
    version: VERSION,
    description: DESCRIPTION,
    title: name.slice(0, 100),
    remotes: [
      {
        type: 'streamable-http',
        url: `${publicUrl}${MCP_PATH}`,
        supportedProtocolVersions: ALL_REVISIONS,
      },
    ],
  }
}

/** Names in both documents have letters, digits, dots and hyphens. */
function plain(text: string): string {
  return (
    text
      .replaceAll(/[^A-Za-z0-9.-]+/g, '-')
      .replaceAll(/^-+|-+$/g, '')
      .slice(0, 90) || 'collet'
  )
}
