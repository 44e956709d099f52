import { z } from 'zod'
import { fault } from '#core/errors'
import type { JsonObject } from '#core/json'

/** Everything that decides what is sent where (rule 32). */
const BINDING = z.object({
  /** Where the endpoints are, without a slash at its end (OTS-04). */
  url: z.string(),
  function: z.string(),
  /** Where in a result its value is; `null` = there is none (OTS-38). */
  returnName: z.string().nullable(),
})

export type OpenToolBinding = z.output<typeof BINDING>

export function readBinding(nativeName: string, binding: JsonObject): OpenToolBinding {
  const parsed = BINDING.safeParse(binding)
  if (parsed.success) return parsed.data
  throw fault('upstream_failed', `The accepted definition of ${nativeName} cannot be used.`, {
    developerMessage: z.prettifyError(parsed.error),
  })
}
