import type { Gateway } from '#core/calls/gateway'
import { DEFAULT_TENANT, type Principal } from '#core/principal'
import type { Catalog } from '#core/tools/catalog'
import type { HttpRoute } from '#protocols/http-exchange'
import { replyPrepared } from '#protocols/prepared-bytes'
import { PreparedViews } from '#protocols/prepared-views'
import { openGet } from './open-get.ts'
import type { OpenwopSettings } from './options.ts'
import { DISCOVERY_PATH, isSourceKind, PROTOCOL_VERSION, SOURCE_KINDS, type WireDiscovery } from './wire.ts'

/** Sees every tool that is not a tenant's own, so that the document can say which sources have one; tells nothing else. */
const EVERYTHING: Principal = { id: 'discovery', tenant: DEFAULT_TENANT, scopes: ['*'] }

export const PUBLIC_HEADERS = { vary: 'accept-encoding', 'cache-control': 'public, max-age=300' }

/** `/.well-known/openwop`: public, and the same for everybody (OWP-01). */
export function discoveryRoute(gateway: Gateway, settings: OpenwopSettings): HttpRoute {
  const documents = new PreparedViews(1)
  return openGet(DISCOVERY_PATH, (request) => {
    const catalog = gateway.catalogFor(EVERYTHING)
    const prepared = documents.get(catalog, 'discovery', () =>
      JSON.stringify(discoveryDocument(catalog, settings)),
    )
    return replyPrepared(request, prepared, PUBLIC_HEADERS)
  })
}

/** Says only what is really served (OWP-05): the sources are those of the tools there are. */
export function discoveryDocument(
  catalog: Catalog,
  { serverVersion, capabilities }: OpenwopSettings,
): WireDiscovery {
  const { toolCatalog, compactView, sessionLifecycle, families } = capabilities
  return {
    protocolVersion: PROTOCOL_VERSION,
    // No envelopes are exchanged here, so there is nothing to round or count (OWP-02).
    supportedEnvelopes: [],
    schemaVersions: {},
    limits: { clarificationRounds: 0, schemaRounds: 0, envelopesPerTurn: 0 },
    implementation: { name: 'collet', version: serverVersion, vendor: 'collet' },
    ...(toolCatalog
      ? {
          toolCatalog: {
            supported: true,
            sources: sourcesOf(catalog),
            ...(sessionLifecycle && hasState(catalog) ? { sessionLifecycle: true } : {}),
            ...(compactView ? { compactView: true } : {}),
          },
        }
      : {}),
    ...families,
  }
}

/** C3: promised only where there is something to bracket. */
function hasState(catalog: Catalog): boolean {
  return catalog.latest().some(({ session }) => session !== undefined)
}

function sourcesOf(catalog: Catalog) {
  const present = new Set<string>(catalog.latest().map((tool) => tool.source))
  return SOURCE_KINDS.filter(isSourceKind).filter((source) => present.has(source))
}
