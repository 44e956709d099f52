import { canonicalJson } from '#core/canonical-json'
import type { Store } from '#core/ports/store'
import type { Tool } from '#core/tool'
import { fingerprintOf, type IdentifiedCall } from './identified-call.ts'

/** The call with its input as this tool takes it: what it is found under is what other protocols would send (rule 5). */
export function adaptInput(store: Store, call: IdentifiedCall, tool: Tool): IdentifiedCall {
  const { adapt } = call.request
  if (adapt === undefined) return call
  const input = adapt(tool, call.input)
  if (input === call.input) return call
  const inputJson = canonicalJson(input)
  const { userId, sessionId } = call.request
  const fingerprint = fingerprintOf(store, { base: call.base, userId, sessionId }, inputJson)
  return { ...call, input, inputJson, fingerprint }
}
