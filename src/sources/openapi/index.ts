import { fault } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { isWanted } from '#sources/common/options'
import type { Source, SourceHealth, SourceServices } from '#sources/kit/source'
import { readBinding } from './binding.ts'
import { type Discovered, discover } from './discover.ts'
import { invoke } from './invoke.ts'
import { operationPolicy } from './offer-tool.ts'
import type { OpenapiOptions } from './options.ts'
import { isWantedMethod } from './reading.ts'

/**
 * The source type `openapi`: each wanted operation of an OpenAPI document becomes a tool. Invariant: calls need only the service,
 * not its document.
 */

export function createOpenapiSource(key: string, options: OpenapiOptions, services: SourceServices) {
  const closing = new AbortController()
  let health: SourceHealth = { state: 'starting' }
  let discovered: Discovered | undefined
  const until = (signal: AbortSignal): AbortSignal => AbortSignal.any([signal, closing.signal])
  return {
    key,
    type: 'openapi',
    kind: 'connector',
    async discover(signal) {
      try {
        discovered = await discover({ key, options, services, signal: until(signal) }, discovered)
        health = { state: 'ready' }
        return discovered.discovery
      } catch (error) {
        const reason = error instanceof Error ? error.message : 'unknown'
        health = { state: 'degraded', reason: `The document cannot be read: ${reason}` }
        throw error
      }
    },
    async invoke(invocation) {
      closing.signal.throwIfAborted()
      const { maxResponseBytes } = options
      return invoke(invocation, { services, maxResponseBytes, signal: until(invocation.context.signal) })
    },
    ...defined({ vendor: options.vendor }),
    policyFor: ({ nativeName, binding }) => operationPolicy(nativeName, readBinding(binding), options),
    wants: ({ nativeName, binding }) =>
      isWantedMethod(binding.method, options) &&
      isWanted(nativeName, options) &&
      !discovered?.unwanted.has(nativeName),
    health: () => health,
    async close() {
      closing.abort(fault('upstream_failed', 'The source of this tool was closed.'))
    },
  } satisfies Source
}
