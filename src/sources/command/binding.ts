import { z } from 'zod'
import { fault } from '#core/errors'
import type { JsonObject } from '#core/json'
import { ARGV_PART } from '#sources/common/argv-template'

/** Everything that decides what is run how, but for the values of variables: they may be secret (rule 32). */
const BINDING = z.object({
  vendor: z.string(),
  /** Absolute. */
  program: z.string(),
  argv: z.array(ARGV_PART).min(1),
  stdin: z.string().nullable(),
  output: z.enum(['text', 'json', 'none']),
  okExitCodes: z.array(z.number()),
  retryExitCodes: z.array(z.number()),
  env: z.array(z.string()),
  inheritEnv: z.array(z.string()),
  secretEnv: z.record(z.string(), z.string()),
  tokenEnv: z.record(z.string(), z.string()),
  /** Absolute. */
  cwd: z.string(),
  maxOutputBytes: z.number(),
  cpuSeconds: z.number().nullable(),
  memoryMb: z.number().nullable(),
  isolation: z.enum(['auto', 'required', 'none']),
  network: z.boolean(),
  /** Absolute. */
  writable: z.array(z.string()),
  /** Absolute. */
  hide: z.array(z.string()),
})

export type CommandBinding = z.output<typeof BINDING>

export function readBinding(nativeName: string, binding: JsonObject): CommandBinding {
  const parsed = BINDING.safeParse(binding)
  if (parsed.success) return parsed.data
  throw fault('upstream_failed', `The accepted definition of the command ${nativeName} cannot be used.`, {
    developerMessage: z.prettifyError(parsed.error),
  })
}
