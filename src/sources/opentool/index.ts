import { readOptions } from '#client/client-options'
import { isOutage } from '#client/forwarded-call'
import { unchangedFetch } from '#client/unchanged-fetch'
import { fault } from '#core/errors'
import type { Source } from '#core/ports/source'
import type { SourceServices } from '#core/ports/source-services'
import { isWanted, remotePolicyOf } from '#sources/common/policy-options'
import { ServerHealth } from '#sources/common/server-health'
import { discoverOpenTool } from './discover.ts'
import { invokeOpenTool } from './invoke.ts'
import type { OpenToolSourceOptions } from './options.ts'

/** Limits of time are the call's own. */
const NO_LIMIT_MS = 2 ** 31 - 1

/** Another OpenTool server, its functions as tools. */
export function createOpenToolSource(
  key: string,
  options: OpenToolSourceOptions,
  services: SourceServices,
): Source {
  const closing = new AbortController()
  const settings = readOptions(options.url, {
    apiKey: options.apiKey?.reveal(),
    jwt: options.token?.reveal(),
    protocol: 'opentool',
    fetch: (address, init) => services.fetch(address, init),
    now: () => services.clock.nowMs(),
    timeoutMs: NO_LIMIT_MS,
    signal: closing.signal,
  })
  const listing = { ...settings, fetch: unchangedFetch(settings.fetch) }
  const health = new ServerHealth()
  return {
    key,
    type: 'opentool',
    kind: 'connector',
    async discover(signal) {
      try {
        const discovery = await discoverOpenTool(listing, options, signal)
        health.ready()
        return discovery
      } catch (error) {
        if (!signal.aborted) health.down(error)
        throw error
      }
    },
    async invoke(invocation) {
      closing.signal.throwIfAborted()
      try {
        const value = await invokeOpenTool(invocation, settings)
        health.ready()
        return value
      } catch (error) {
        if (isOutage(error)) health.degraded(error)
        throw error
      }
    },
    policyFor: ({ nativeName }) => remotePolicyOf(nativeName, options),
    wants: ({ nativeName }) => isWanted(nativeName, options),
    health: () => health.now,
    async close() {
      closing.abort(fault('cancelled', 'The server is shutting down.'))
    },
  }
}
