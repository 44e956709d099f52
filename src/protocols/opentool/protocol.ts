import { z } from 'zod'
import { defined } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import type { Protocol, SectionSettings } from '#protocols/protocol'
import type { OpenToolServing } from './call-routes.ts'
import { BASE_PATH } from './wire.ts'

/*
 * Registers OpenTool with the server: its config section, root path and headers. `protocols/list.ts` imports it.
 * Invariant: the routes are imported only when the protocol is served.
 */

const TEXT = z.string().min(1)

const SETTINGS = {
  /** Title of the document that `/opentool/load` serves. Default `Collet`. */
  title: TEXT.default('Collet'),
  /** Version of that document, which `/opentool/version` also returns. Default: the version of this package. */
  version: TEXT.optional(),
  description: TEXT.optional(),
  /** Use a string `id` as the idempotency key of a call that has no `Idempotency-Key` header. Default false. */
  stringIdsAreKeys: z.boolean().default(false),
  /** Serve `/opentool/streamCall` too. Default false. */
  streaming: z.boolean().default(false),
}

export const opentool = {
  settings: SETTINGS,
  root: BASE_PATH,
  headers: { sent: [], read: [] },
  async serve(
    { opentool: settings },
    { gateway, log, serverVersion, isClosed, publicUrl },
    { opentool: serving } = {},
  ) {
    const [{ opentoolRoutes }, { documentOf }, { serialize }] = await Promise.all([
      import('./routes.ts'),
      import('./codec-convert-tools.ts'),
      import('./codec-document-read.ts'),
    ])
    const { title, version = serverVersion, description, stringIdsAreKeys, streaming } = settings
    const info = defined({ title, description, version })
    const document = (catalog: Catalog): string => {
      const made = documentOf(catalog.latest(), info, { server: { url: `${publicUrl()}${BASE_PATH}` } })
      const skipped = made.skipped.map(({ id }) => id)
      if (skipped.length > 0)
        log.warn({ tools: skipped }, 'OpenTool cannot describe these tools; /opentool/load leaves them out')
      return serialize(made.document)
    }
    return {
      routes: opentoolRoutes(gateway, {
        version,
        document,
        stringIdsAreKeys,
        streaming,
        ...serving,
        // Only a server whose callers need a credential can be stopped (OTS-53).
        stop: isClosed ? serving?.stop : undefined,
      }),
    }
  },
} satisfies Protocol<
  { readonly opentool: SectionSettings<typeof SETTINGS> },
  { readonly opentool?: OpenToolServing }
>
