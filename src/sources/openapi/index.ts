import type { Discovery, Source, SourceHealth } from '#core/ports/source'
import type { SourceServices } from '#core/ports/source-services'
import { type Discovered, discover } from './discover.ts'
import { invoke } from './invoke.ts'
import type { OpenapiOptions } from './options.ts'

/** A service that an OpenAPI document describes: every operation is a tool. */
export function createOpenapiSource(key: string, options: OpenapiOptions, services: SourceServices): Source {
  let health: SourceHealth = { state: 'starting' }
  let discovered: Discovered | undefined
  return {
    key,
    type: 'openapi',
    kind: 'connector',
    async discover(signal): Promise<Discovery> {
      try {
        discovered = await discover({ key, options, services, signal }, discovered)
        health = { state: 'ready' }
        return discovered.discovery
      } catch (error) {
        // Calls need the service and not its document.
        const reason = error instanceof Error ? error.message : 'unknown'
        health = { state: 'degraded', reason: `The document cannot be read: ${reason}` }
        throw error
      }
    },
    invoke: (invocation) => invoke(invocation, { services, maxResponseBytes: options.maxResponseBytes }),
    health: () => health,
    close: async () => undefined,
  }
}
