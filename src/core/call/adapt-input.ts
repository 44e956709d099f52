import { canonicalJson } from '#core/canonical-json'
import type { Tool } from '#core/tool'
import type { IdentifiedCall } from './identified-call.ts'

/** The call with its input as this tool takes it; what it is found under stays what was asked (rule 5). */
export function adaptInput(call: IdentifiedCall, tool: Tool): IdentifiedCall {
  const { adapt } = call.request
  if (adapt === undefined) return call
  const input = adapt(tool, call.input)
  return input === call.input ? call : { ...call, input, inputJson: canonicalJson(input) }
}
