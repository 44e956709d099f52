import { canonicalJson } from '#core/canonical-json'
import { LATEST, parseToolId, type ToolRef } from '#core/tool-id'
import type { CallServices } from './call-services.ts'
import { fingerprintOf, type IdentifiedCall } from './identified-call.ts'

/**
 * Whether a request of another fingerprint is the recorded one, read in another way: a schema, a name or a whole tool
 * may have changed since, and a lost reply must still be found (rule 1).
 */
export function isReadAgain(
  { store, registry }: CallServices,
  { principal, request, input, inputJson }: IdentifiedCall,
  recorded: { readonly tool: string; readonly toolId: string; readonly fingerprint: string },
): boolean {
  const { adapt } = request
  const now = registry.catalogFor(principal).resolve(request.tool)
  if (adapt !== undefined && now !== undefined) {
    const adapted = canonicalJson(adapt(now, input))
    if (fingerprintOf(store, request, adapted) === recorded.fingerprint) return true
  }
  const meant = parseToolId(recorded.tool)
  if (meant === undefined || !mayMean(request.tool, { ...meant, toolId: recorded.toolId })) return false
  const tool = { base: meant.base, version: LATEST }
  return fingerprintOf(store, { ...request, tool }, inputJson) === recorded.fingerprint
}

/** Whether another name of a tool, which may be gone by now, was this one's. */
function mayMean(
  { base, isOtherName }: ToolRef,
  { toolkit, name, toolId }: { readonly toolkit: string; readonly name: string; readonly toolId: string },
): boolean {
  return isOtherName === true && (base === `${toolkit}_${name}` || base === toolId)
}
