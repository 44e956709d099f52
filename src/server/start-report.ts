/**
 * What a started server reports to its operator: warnings, which `collet serve` prints, and the number of tools and sources.
 * Some warnings repeat checks that the start has passed, because the store may hold keys that are known only once it is open.
 */

import type { SourceView } from '#sources/kit/sources'
import { unencryptedWarning } from '#store/postgres/address'
import type { ServerHost } from './host.ts'
import type { ServedCounts } from './running-server.ts'
import { asKeyed, checkExposure, findConsentWarnings, providerWarnings } from './safety.ts'
import { findScopeHolders } from './scope-holders.ts'
import { watchUnusedNames } from './unused-names.ts'

const FILE_IN_USE =
  'Another process uses this SQLite file. No call runs twice, but their writes wait for each other, and each process counts limits separately: a SQLite file is for one server. Stop the other process, or use PostgreSQL for several servers.'

export async function findStartWarnings(host: ServerHost): Promise<readonly string[]> {
  const { options, services, authenticator, log, clock } = host
  const settings = host.settings.current
  const { store } = services.gateway
  const exposure = authenticator.isConfigured ? asKeyed(settings) : settings
  const unencrypted = unencryptedWarning(settings.store)
  return [
    ...checkExposure(exposure, options.allowAnonymous ?? false).map(({ text }) => text),
    ...(unencrypted === undefined ? [] : [unencrypted]),
    ...findConsentWarnings(settings),
    ...providerWarnings(settings.oauth, services.registry.tools, options.developing !== undefined),
    ...(!store.isShared && (await store.hasOtherWriters()) ? [FILE_IN_USE] : []),
    ...services.sources.sources.status().flatMap(unusedOverrides),
    ...(await watchUnusedNames(services, host.settings, { log, clock })),
  ]
}

/** Rules of the operator that match no tool of the source. */
function unusedOverrides({ key, idle }: SourceView): readonly string[] {
  return idle.map(
    ({ text, guards }) => `${key}: ${text}${guards ? ' Its tools are not served until then.' : ''}`,
  )
}

/** Returns a function that counts what is served. Which scopes callers can hold is read once. */
export async function openCounts({ services, clock, settings }: ServerHost): Promise<() => ServedCounts> {
  const { registry, sources, gateway } = services
  const canHold = await findScopeHolders(settings.current.auth, gateway.store.keys, clock.nowMs())
  return () => {
    const known = sources.sources.status()
    const closed = registry.tools.filter(({ policy }) => !policy.scopes.every(canHold))
    return {
      tools: new Set(registry.tools.map(({ parts }) => parts.base)).size,
      versions: registry.tools.length,
      closed: new Set(closed.map(({ parts }) => parts.base)).size,
      sources: known.length,
      starting: known
        .filter(({ state, tools, readAtMs }) => state === 'starting' && tools === 0 && readAtMs === undefined)
        .map(({ key }) => key),
    }
  }
}
