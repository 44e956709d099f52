import { type ClientSettings, readOptions } from '#client/client-options'
import { isOutage } from '#client/forwarded-call'
import { unchangedFetch } from '#client/unchanged-fetch'
import type { Source, SourceServices } from '#core/ports/source'
import { readAnswer } from '#sources/common/answered-json'
import { remoteSource } from '#sources/common/remote-source'
import { discoverOpenTool, LARGEST_DOCUMENT_BYTES, readDocument } from './discover.ts'
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
  const settingsFor = (url: string): ClientSettings => ({
    ...readOptions(url, {
      apiKey: options.apiKey?.reveal(),
      jwt: options.token?.reveal(),
      protocol: 'opentool',
      fetch: (address, init) => services.fetch(address, init),
      now: () => services.clock.nowMs(),
      timeoutMs: NO_LIMIT_MS,
      signal: closing.signal,
    }),
    readJson: readAnswer,
  })
  const unchanged = unchangedFetch((address, init) =>
    (services.fetchDescription ?? services.fetch)(address, init),
  )
  const listingFor = (url: string): ClientSettings => ({
    ...settingsFor(url),
    readJson: readDocument,
    maxResponseBytes: LARGEST_DOCUMENT_BYTES,
    fetch: unchanged,
  })
  return remoteSource({ key, type: 'opentool' }, options, {
    discover: (signal) => discoverOpenTool(options, { services, listingFor, signal }),
    invoke: (invocation) => invokeOpenTool(invocation, settingsFor, options.url),
    isOutage,
    closing,
  })
}
