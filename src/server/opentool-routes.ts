import type { Catalog } from '#core/catalog'
import type { Gateway } from '#core/gateway'
import type { HttpRoute } from '#protocols/http-exchange'
import { documentOf, type OpenToolInfo, serialize } from '#protocols/opentool/index'
import type { OpenToolOptions } from '#protocols/opentool/options'
import { opentoolRoutes } from '#protocols/opentool/routes'
import type { ServerLog } from './log.ts'
import { VERSION } from './version.ts'

/** What an operator may say about OpenTool; nothing of it has to be said. */
export interface OpenToolServing extends Partial<OpenToolOptions> {
  /** Title, version and description of the document; the version is also what `/version` answers (OTS-32). */
  readonly info?: Partial<OpenToolInfo>
}

export interface OpenToolSurroundings {
  readonly log: ServerLog
  /** Whether callers need a credential: `/stop` is served only then (OTS-53). */
  readonly isClosed: boolean
}

/** OpenTool with the document of our own tools. */
export function createOpenToolRoutes(
  gateway: Gateway,
  serving: OpenToolServing,
  { log, isClosed }: OpenToolSurroundings,
): readonly HttpRoute[] {
  const { info: given, ...options } = serving
  const info: OpenToolInfo = { title: 'Collet', version: VERSION, ...given }
  const document = (catalog: Catalog): string => {
    const made = documentOf(catalog.latest(), info)
    const skipped = made.skipped.map(({ id }) => id)
    if (skipped.length > 0)
      log.warn({ tools: skipped }, 'OpenTool cannot describe these tools; /opentool/load leaves them out')
    return serialize(made.document)
  }
  return opentoolRoutes(gateway, {
    version: info.version,
    document,
    ...options,
    stop: isClosed ? options.stop : undefined,
  })
}
