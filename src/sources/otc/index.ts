import { readOptions } from '#client/client-options'
import { isOutage } from '#client/forwarded-call'
import { unchangedFetch } from '#client/unchanged-fetch'
import { fault } from '#core/errors'
import type { Source } from '#core/ports/source'
import type { SourceServices } from '#core/ports/source-services'
import { isWanted, remotePolicyOf } from '#sources/common/policy-options'
import { ServerHealth } from '#sources/common/server-health'
import { discoverOtc } from './discover.ts'
import { invokeOtc, type OtcWorld } from './invoke.ts'
import type { OtcSourceOptions } from './options.ts'

/** Limits of time are the call's own. */
const NO_LIMIT_MS = 2 ** 31 - 1

/** Another OTC server, its tools as ours. */
export function createOtcSource(key: string, options: OtcSourceOptions, services: SourceServices): Source {
  const { url, apiKey, token, dialect } = options
  const closing = new AbortController()
  const settings = readOptions(url, {
    apiKey: apiKey?.reveal(),
    jwt: token?.reveal(),
    ...(dialect === undefined ? {} : { dialect }),
    protocol: 'otc',
    fetch: (address, init) => services.fetch(address, init),
    now: () => services.clock.nowMs(),
    timeoutMs: NO_LIMIT_MS,
    signal: closing.signal,
  })
  const listing = { ...settings, fetch: unchangedFetch(settings.fetch) }
  const world: OtcWorld = { settings, options, route: { path: undefined } }
  const health = new ServerHealth()
  return {
    key,
    type: 'otc',
    kind: 'connector',
    async discover(signal) {
      try {
        const discovery = await discoverOtc(listing, options, signal)
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
        const value = await invokeOtc(invocation, world)
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
