import { z } from 'zod'
import { fault } from '#core/errors'
import type { JsonObject } from '#core/json'
import { OTC_DIALECTS } from './options.ts'

/** Everything that decides what is sent where, but for values of credentials (rule 32). */
const BINDING = z.object({
  /** Without a slash at its end. */
  url: z.string(),
  /** Exact, with its version: an accepted definition stays what is called. */
  toolId: z.string(),
  dialect: z.enum(OTC_DIALECTS),
  schemaId: z.string().nullable(),
  /** The header that gets our key accepted, where the usual one does not. */
  keyHeader: z.enum(['OXP-API-Key', 'OTC-API-Key', 'X-API-Key']).nullable(),
  /** Its name → ours, for tokens that calls bring. */
  authorization: z.record(z.string(), z.string()),
  /** Secrets that calls bring. */
  secrets: z.array(z.string()),
  /** Secrets that the options bring. */
  ownSecrets: z.array(z.string()),
  userId: z.boolean(),
})

export type OtcBinding = z.output<typeof BINDING>

export function readBinding(nativeName: string, binding: JsonObject): OtcBinding {
  const parsed = BINDING.safeParse(binding)
  if (parsed.success) return parsed.data
  throw fault('upstream_failed', `The accepted definition of ${nativeName} cannot be used.`, {
    developerMessage: z.prettifyError(parsed.error),
  })
}
