import { z } from 'zod'
import { fault } from '#core/errors'
import type { JsonObject, JsonValue } from '#core/json'

/** Everything that decides what is sent where (rule 32), and how the answer is read. */
const BINDING = z.object({
  /** Where the endpoints are, without a slash at its end (OTS-04). */
  url: z.string(),
  function: z.string(),
  /** Where in a result its value is; `null` = there is none (OTS-38). */
  returnName: z.string().nullable(),
  /** What kind of value that is, as JSON Schema names it; `null` = any. */
  returnType: z.string().nullable().default(null),
})

export type OpenToolBinding = z.output<typeof BINDING>

export function readBinding(nativeName: string, binding: JsonObject): OpenToolBinding {
  const parsed = BINDING.safeParse(binding)
  if (parsed.success) return parsed.data
  throw fault('upstream_failed', `The accepted definition of ${nativeName} cannot be used.`, {
    developerMessage: z.prettifyError(parsed.error),
  })
}

/**
 * The value in a result. It travels under its own name (OTS-38). Servers of other makers write the name in another
 * case, wrap the value under a name of their own, or do not wrap it: the function has run by then, so the reading that
 * fits is taken and nothing of what it said is thrown away.
 */
export function valueIn(result: JsonObject, { returnName, returnType }: OpenToolBinding): JsonValue {
  const names = Object.keys(result)
  if (names.length === 0) return null
  if (returnName === null) return result
  if (Object.hasOwn(result, returnName)) return result[returnName] ?? null
  const [sameWord, ...furtherWords] = names.filter((name) => name.toLowerCase() === returnName.toLowerCase())
  if (sameWord !== undefined && furtherWords.length === 0) return result[sameWord] ?? null
  if (returnType === null || returnType === 'object') return result
  refuseReportedError(result)
  const [only, ...others] = Object.values(result)
  return only !== undefined && others.length === 0 ? only : result
}

/** Samples of the SDKs give a failure back as a result: `{ "code": 405, "message": "…" }` (OTS-40). */
function refuseReportedError(result: JsonObject): void {
  const { code, message, ...rest } = result
  if (!Number.isInteger(code) || typeof message !== 'string' || Object.keys(rest).length > 0) return
  throw fault('tool_failed', message, {
    developerMessage: `The server gave code ${String(code)} as a result.`,
  })
}
