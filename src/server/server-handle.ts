import { setTimeout } from 'node:timers/promises'
import type { Settings } from '#config/settings'
import { startTokenFileIn } from '#config/to-settings'
import { DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import type { LiveRegistry } from '#kernel/tool/catalog'
import { listCost } from '#protocols/mcp/results/list-cost'
import { LONG_LIST } from '#search/token-count'
import type { SourceView } from '#sources/kit/sources'
import { unencryptedWarning } from '#store/postgres/address'
import type { ServerHost } from './host.ts'
import type { HttpApp } from './http/app.ts'
import type { Parts } from './part.ts'
import type { RunningServer, ServedCounts } from './running-server.ts'
import { asKeyed, checkExposure, findConsentWarnings, providerWarnings } from './safety.ts'
import { findScopeHolders } from './scope-holders.ts'
import { watchUnusedNames } from './unused-names.ts'

/**
 * Makes the handle of a started server: its addresses, its counts and the functions that reload, drain and close it. Also finds the
 * warnings about it.
 * `start-server.ts` returns it; `collet serve` and the embedding application use it.
 */

/** Time in which running calls may finish after a stop is requested. */
const GRACE_MS = 10_000

export async function createServerHandle(
  host: ServerHost,
  app: HttpApp,
  parts: Parts,
): Promise<Omit<RunningServer, 'warnings'>> {
  const { address, services, authenticator, options, reloads } = host
  const { gateway, sources } = services
  const { server, dataFolder } = host.settings.current
  const graceMs = options.graceMs ?? GRACE_MS
  return {
    url: address.url,
    metricsUrl: address.metricsUrl,
    startTokenFile: startTokenFileIn(dataFolder, address.url),
    consoleUrl: address.consoleUrl(),
    signInUrl: host.console.startLinks?.make(),
    routes: parts.routes.map(({ method, path }) => ({ method, path })),
    isKeyed: authenticator.isConfigured,
    counts: await createCounter(host),
    sourceRead: (key) => sources.sources.firstReading(key),
    onSourceAdded: (listener) => sources.sources.onAdded(listener),
    isReady: gateway.isReady,
    handle: app.handle,
    reload: reloads.apply,
    readAgain: reloads.reloadHere,
    async announceStop() {
      gateway.announceStop()
      app.retire()
      await setTimeout(server.drainMs ?? 0)
    },
    drain: () => gateway.drain(graceMs),
    async close() {
      await gateway.drain(graceMs)
      await parts.close()
    },
  }
}

const FILE_IN_USE =
  "Another process is using this SQLite file. No call runs twice, but the two processes block each other's writes, and each counts limits separately. A SQLite file is for one server: stop the other process, or use PostgreSQL for several servers."

/**
 * Warnings that `collet serve` prints. Some checks already ran before the store was opened. They run again because only an open store
 * shows whether there are API keys.
 */
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
    ...providerWarnings(settings.oauth, services.registry.definitions, options.developing !== undefined),
    ...(!store.isShared && (await store.hasOtherWriters()) ? [FILE_IN_USE] : []),
    ...services.sources.sources.status().flatMap(unusedOverrides),
    ...(await watchUnusedNames(services, host.settings, { log, clock })),
  ]
}

/** The operator's rules that match none of the source's tools. */
function unusedOverrides({ key, ineffective }: SourceView): readonly string[] {
  return ineffective.map(
    ({ text, guards }) =>
      `${key}: ${text}${guards ? ' No tool of this source is served until this is corrected.' : ''}`,
  )
}

/** Returns a function that counts what is served. The scopes that callers can have are read once. */
async function createCounter({ services, clock, settings }: ServerHost): Promise<() => ServedCounts> {
  const { registry, sources, gateway } = services
  const canHold = await findScopeHolders(settings.current.auth, gateway.store.keys, clock.nowMs())
  return () => {
    const known = sources.sources.status()
    const unreachable = registry.tools.filter(({ policy }) => !policy.scopes.every(canHold))
    return {
      tools: new Set(registry.tools.map(({ parts }) => parts.base)).size,
      versions: registry.tools.length,
      listTokens: longListTokens(registry, settings.current),
      unreachable: new Set(unreachable.map(({ parts }) => parts.base)).size,
      sources: known.length,
      starting: known
        .filter(({ state, tools, readAtMs }) => state === 'starting' && tools === 0 && readAtMs === undefined)
        .map(({ key }) => key),
    }
  }
}

/** The settings that decide how MCP lists tools. */
export function listSettings({ mcp, results }: Pick<Settings, 'mcp' | 'results'>) {
  const { discovery, favourites, compact } = mcp
  return { discovery, favourites, compact, modelBytes: results?.modelBytes }
}

/** A principal that sees every tool, to count the tools of the whole server. */
const EVERYTHING: Principal = { id: 'server', tenant: DEFAULT_TENANT, scopes: ['*'], seesEveryTenant: true }

function longListTokens(registry: LiveRegistry, settings: Settings): ServedCounts['listTokens'] {
  const catalog = registry.catalogFor(EVERYTHING)
  if (!settings.mcp.enabled || settings.mcp.discovery === 'search') return undefined
  if (catalog.latest().length <= LONG_LIST) return undefined
  const { list, search } = listCost(catalog, listSettings(settings))
  return { list: list.tokens, search: search.tokens }
}
