import type { Settings } from '#config/settings'
import type { Gateway } from '#core/calls/gateway'
import type { Catalog } from '#core/tools/catalog'
import type { HttpRoute } from '#protocols/http-exchange'
import type { OpenToolOptions } from '#protocols/opentool/call-routes'
import { documentOf, type OpenToolInfo, serialize } from '#protocols/opentool/index'
import { opentoolRoutes } from '#protocols/opentool/routes'
import { BASE_PATH } from '#protocols/opentool/wire'
import type { ServerLog } from './log.ts'
import { VERSION } from './version.ts'

/** What whoever starts the server may add to the settings. */
export interface OpenToolServing extends Pick<OpenToolOptions, 'document' | 'stop'> {}

export interface OpenToolSurroundings {
  readonly settings: Settings['opentool']
  readonly log: ServerLog
  /** Whether callers need a credential: `/stop` is served only then (OTS-53). */
  readonly isClosed: boolean
  /** Where callers reach this server. */
  publicUrl(): string
}

/** OpenTool with the document of our own tools. */
export function createOpenToolRoutes(
  gateway: Gateway,
  serving: OpenToolServing,
  { settings, log, isClosed, publicUrl }: OpenToolSurroundings,
): readonly HttpRoute[] {
  const info = openToolInfo(settings)
  const document = (catalog: Catalog): string => {
    const made = documentOf(catalog.latest(), info, { server: { url: `${publicUrl()}${BASE_PATH}` } })
    const skipped = made.skipped.map(({ id }) => id)
    if (skipped.length > 0)
      log.warn({ tools: skipped }, 'OpenTool cannot describe these tools; /opentool/load leaves them out')
    return serialize(made.document)
  }
  const { stringIdsAreKeys, streaming } = settings
  return opentoolRoutes(gateway, {
    version: info.version,
    document,
    stringIdsAreKeys,
    streaming,
    ...serving,
    stop: isClosed ? serving.stop : undefined,
  })
}

/** `info` of the document of our tools (OTS-03); its version is the server's (OTS-32). */
function openToolInfo({
  title,
  version = VERSION,
  description,
}: Pick<Settings['opentool'], 'title' | 'version' | 'description'>): OpenToolInfo {
  return { title, ...(description === undefined ? {} : { description }), version }
}
