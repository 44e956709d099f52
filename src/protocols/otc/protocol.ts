import { z } from 'zod'
import type { Protocol, SectionSettings } from '#protocols/protocol'
import { ARCADE_SCHEMA_ID, OTC_SCHEMA_ID, OXP_SCHEMA_ID, OXP_VERSION_HEADER } from './wire.ts'

/*
 * Registers OTC with the server: its config section, root path and headers. `protocols/list.ts` imports it.
 * Invariant: the routes are imported only when the protocol is served.
 */

const SETTINGS = {
  /** Refuse request members that no published shape has. Default false. */
  strictRequests: z.boolean().default(false),
  /** Leave out `developer_message`. Default false. */
  hideDeveloperMessages: z.boolean().default(false),
  /** Leave out `tools` or `items` in lists that would have both. Default: neither. */
  omitListKey: z.enum(['tools', 'items']).optional(),
  /** `$schema` of answers to requests that name no version. Default `otc://1.0`. With `urn:oxp:1.0` lists contain each definition twice. */
  defaultSchema: z.enum([OTC_SCHEMA_ID, OXP_SCHEMA_ID, ARCADE_SCHEMA_ID]).optional(),
}

/** Open Tool Calling 1.0 and Open eXecution Protocol 1.0, with their drafts. */
export const otc = {
  settings: SETTINGS,
  root: '/tools',
  headers: { sent: [OXP_VERSION_HEADER], read: [OXP_VERSION_HEADER, 'x-should-retry'] },
  async serve({ otc: settings }, { gateway, serverVersion, consents, search }) {
    const { otcRoutes } = await import('./routes.ts')
    return { routes: otcRoutes(gateway, { ...settings, serverVersion, consents, search }) }
  },
} satisfies Protocol<{ readonly otc: SectionSettings<typeof SETTINGS> }>
