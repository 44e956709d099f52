import { randomUUID } from 'node:crypto'
import { checkCallId } from '#client/call-input'
import type { ClientSettings } from '#client/client-options'
import { ForwardedCall } from '#client/forwarded-call'
import { endpointsOf, postCall } from '#client/opentool-exchange'
import { fault } from '#core/errors'
import type { JsonObject, JsonValue } from '#core/json'
import type { Invocation } from '#core/ports/source'
import { type OpenToolBinding, readBinding } from './binding.ts'

/**
 * Calls a function, once: nobody but servers of this package knows a repeated one for the same (OTS-66). Those do, by
 * the key of this effect (rule 27).
 */
export async function invokeOpenTool(
  invocation: Invocation,
  settings: ClientSettings,
): Promise<JsonValue | undefined> {
  const { nativeName, input, context } = invocation
  const binding = readBinding(nativeName, invocation.binding)
  checkAddress(nativeName, binding, settings)
  const forwarded = new ForwardedCall(settings.fetch, settings.server.origin)
  try {
    const { result } = await postCall(
      { ...settings, fetch: forwarded.fetch },
      // The id only matches the answer to its request (rule 4).
      { id: randomUUID(), name: binding.function, arguments: input },
      { signal: context.signal, idempotencyKey: checkCallId(context.effectKey()) },
    )
    return valueIn(result, binding)
  } catch (error) {
    context.signal.throwIfAborted()
    settings.signal?.throwIfAborted()
    throw forwarded.toToolError(error)
  }
}

/** Our key is for the address in the options; what was accepted may be another one (rule 32). */
function checkAddress(nativeName: string, { url }: OpenToolBinding, settings: ClientSettings): void {
  const configured = endpointsOf(settings)
  if (url === configured) return
  throw fault('upstream_failed', `${nativeName} was accepted for another address; ask the operator.`, {
    canRetry: true,
    developerMessage: `Accepted for ${url}, configured is ${configured}: accept the change first.`,
  })
}

/** The value travels under its own name; a server that does not keep to it is taken by its word (OTS-38). */
function valueIn(result: JsonObject, { returnName }: OpenToolBinding): JsonValue | undefined {
  if (returnName !== null && Object.hasOwn(result, returnName)) return result[returnName]
  return Object.keys(result).length === 0 ? null : result
}
