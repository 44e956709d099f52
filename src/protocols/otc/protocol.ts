import { z } from 'zod'
import type { Protocol, SectionSettings } from '#protocols/protocol'
import { ARCADE_SCHEMA_ID, DEFAULT_SCHEMA_ID, OTC_SCHEMA_ID, OXP_VERSION_HEADER } from './wire.ts'

const SETTINGS = {
  /** Refuse request members that no published shape has. Default false. */
  strictRequests: z.boolean().default(false),
  /** Keep `developer_message` off the wire. Default false. */
  hideDeveloperMessages: z.boolean().default(false),
  /** Leave `tools` or `items` out of lists that would carry both. Default neither. */
  omitListKey: z.enum(['tools', 'items']).optional(),
  /** What requests that name no version are answered in. Default `urn:oxp:1.0`, the newest; of the others lists carry each definition once. */
  defaultSchema: z.enum([DEFAULT_SCHEMA_ID, OTC_SCHEMA_ID, ARCADE_SCHEMA_ID]).optional(),
}

/** Open Tool Calling 1.0 and Open eXecution Protocol 1.0, with their drafts. */
export const otc = {
  settings: SETTINGS,
  root: '/tools',
  headers: { sent: [OXP_VERSION_HEADER], read: [OXP_VERSION_HEADER, 'x-should-retry'] },
  async serve({ otc: settings }, { gateway, serverVersion, askForConsent, ownApi }) {
    const { otcRoutes } = await import('./routes.ts')
    return { routes: otcRoutes(gateway, { ...settings, serverVersion, askForConsent, ownApi }) }
  },
} satisfies Protocol<{ readonly otc: SectionSettings<typeof SETTINGS> }>
