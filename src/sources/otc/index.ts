import { type ClientSettings, readOptions } from '#client/client-options'
import { isOutage } from '#client/forwarded-call'
import { unchangedFetch } from '#client/unchanged-fetch'
import type { Source, SourceServices } from '#core/ports/source'
import { readAnswer, readList } from '#sources/common/answered-json'
import { remoteSource } from '#sources/common/remote-source'
import { discoverOtc } from './discover.ts'
import { invokeOtc, type OtcWorld } from './invoke.ts'
import type { OtcSourceOptions } from './options.ts'

/** Limits of time are the call's own. */
const NO_LIMIT_MS = 2 ** 31 - 1
const LARGEST_LIST_BYTES = 32 * 1_048_576

/** Another OTC server, its tools as ours. */
export function createOtcSource(key: string, options: OtcSourceOptions, services: SourceServices): Source {
  const { url, apiKey, token, dialect } = options
  const closing = new AbortController()
  const settings: ClientSettings = {
    ...readOptions(url, {
      apiKey: apiKey?.reveal(),
      jwt: token?.reveal(),
      ...(dialect === undefined ? {} : { dialect }),
      protocol: 'otc',
      fetch: (address, init) => services.fetch(address, init),
      now: () => services.clock.nowMs(),
      timeoutMs: NO_LIMIT_MS,
      signal: closing.signal,
    }),
    readJson: readAnswer,
  }
  const listing = {
    ...settings,
    readJson: readList,
    maxResponseBytes: LARGEST_LIST_BYTES,
    fetch: unchangedFetch((address, init) => (services.fetchDescription ?? services.fetch)(address, init)),
  }
  const world: OtcWorld = { settings, options, route: { path: undefined } }
  return remoteSource({ key, type: 'otc' }, options, {
    discover: (signal) => discoverOtc(listing, options, signal),
    invoke: (invocation) => invokeOtc(invocation, world),
    isOutage,
    closing,
  })
}
