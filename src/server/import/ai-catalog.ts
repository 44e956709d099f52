import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { shownAddress } from '#sources/kit/source-facts'
import { getDocument, type ProbeContext, type ProbeResult, probeMcp } from './probe.ts'

/**
 * Finds the MCP servers that an AI catalog or a server card (SEP-2127) names (MCP-212). `detect.ts` has a probe for it, and
 * `collet import` adds every server of a catalog.
 * Invariant: all requests go through the guarded fetch of the import, so that a document of another host leads to no local address.
 */

export const CATALOG_PATH = '/.well-known/ai-catalog.json'
const CARD_TYPES: readonly JsonValue[] = ['application/mcp-server-card+json', 'application/mcp-server+json']
const MAX_SERVERS = 20

export interface ListedServer {
  readonly url: string
  readonly name: string | undefined
}

/** True for addresses at which catalogs and cards are published. */
export function isCatalogAddress(url: string): boolean {
  return /(?:^|[/-])catalog\.json$|\/server-card(?:\.json)?$/.test(new URL(url).pathname)
}

/** The servers of a catalog, or that of a card; `undefined` for any other document. Entries that cannot be read are left out. */
export async function listedServers(
  url: string,
  probe: ProbeContext,
): Promise<readonly ListedServer[] | undefined> {
  const document = await getDocument(url, probe)
  if (document === undefined) return undefined
  if (isCard(document)) return serverOf(document)
  const { entries } = document
  if (document.specVersion === undefined || !Array.isArray(entries)) return undefined
  const cards = entries.filter(isJsonObject).filter(({ type, mediaType }) => isCardType(type ?? mediaType))
  const read = async ({ url: address, data }: JsonObject): Promise<readonly ListedServer[]> => {
    if (isJsonObject(data)) return serverOf(data)
    const at = typeof address === 'string' ? URL.parse(address, url)?.href : undefined
    const card = at === undefined ? undefined : await getDocument(at, keyFor(at, url, probe))
    return card === undefined ? [] : serverOf(card)
  }
  const servers = await Promise.all(cards.slice(0, MAX_SERVERS).map((card) => read(card).catch(() => [])))
  return [...new Map(servers.flat().map((server) => [server.url, server])).values()]
}

/** A document with one server is that server; one with several cannot become one source. */
export async function probeCatalog(url: string, probe: ProbeContext): Promise<ProbeResult> {
  const servers = await listedServers(url, probe)
  const [first, ...others] = servers ?? []
  if (first === undefined) return { kind: 'other' }
  if (others.length === 0) return await probeMcp(first.url, keyFor(first.url, url, probe))
  const names = [first, ...others].map((server) => shownAddress(server.url)).join(', ')
  return {
    kind: 'unusable',
    why: `${shownAddress(url)} lists several MCP servers: ${names}. Import one of them, or all with: collet import ${shownAddress(url)}`,
  }
}

/** The operator's key is for the origin of the named address, not for others that the document refers to. */
function keyFor(address: string, named: string, probe: ProbeContext): ProbeContext {
  const isSame = new URL(address).origin === new URL(named).origin
  return isSame ? probe : { ...probe, apiKey: undefined }
}

function isCardType(type: JsonValue | undefined): boolean {
  return type !== undefined && CARD_TYPES.includes(type)
}

function isCard({ $schema, name, remotes }: JsonObject): boolean {
  const isNamed = typeof $schema === 'string' && $schema.endsWith('/server-card.schema.json')
  return (isNamed || typeof name === 'string') && Array.isArray(remotes)
}

/** The first Streamable HTTP address of a card that needs no variable. */
function serverOf({ remotes, title, name }: JsonObject): readonly ListedServer[] {
  const usable = (Array.isArray(remotes) ? remotes : []).filter(isJsonObject).flatMap(({ type, url }) => {
    const isUsable = type === 'streamable-http' && typeof url === 'string' && !url.includes('{')
    return isUsable && /^https?:\/\//.test(url) && URL.canParse(url) ? [url] : []
  })
  const [url] = usable
  const called = title ?? name
  return url === undefined ? [] : [{ url, name: typeof called === 'string' ? called : undefined }]
}
