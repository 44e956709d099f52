import { randomUUID } from 'node:crypto'
import { checkCallId } from '#client/call-input'
import type { ClientSettings } from '#client/client-options'
import { ForwardedCall } from '#client/forwarded-call'
import { endpointsOf, postCall } from '#client/opentool-exchange'
import { fault } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { Invocation } from '#core/ports/source'
import { readBinding, valueIn } from './binding.ts'

/**
 * Calls a function, once: nobody but servers of this package knows a repeated one for the same (OTS-66). Those do, by
 * the key of this effect (rule 27).
 */
export async function invokeOpenTool(
  invocation: Invocation,
  settingsFor: (url: string) => ClientSettings,
  configuredUrl: string | undefined,
): Promise<JsonValue | undefined> {
  const { nativeName, input, context } = invocation
  const binding = readBinding(nativeName, invocation.binding)
  const settings = settingsFor(configuredUrl ?? binding.url)
  checkAddress(nativeName, binding.url, endpointsOf(settings))
  const forwarded = new ForwardedCall(settings.fetch, settings.server.origin, context.traceparent)
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
function checkAddress(nativeName: string, accepted: string, configured: string): void {
  if (accepted === configured) return
  throw fault('upstream_failed', `${nativeName} was accepted for another address; ask the operator.`, {
    canRetry: true,
    developerMessage: `Accepted for ${accepted}, configured is ${configured}: accept the change first.`,
  })
}
