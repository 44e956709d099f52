import { didYouMean } from '#core/nearest-name'
import { type Principal, withinToolset } from '#core/principal'
import type { Logger } from '#core/runtime'
import type { LiveRegistry } from '#core/tools/catalog'
import { findIdle, TOOLSET_PREFIX } from '#core/tools/toolsets'
import { httpFault } from '#server/http/exchange'
import type { Services } from './services.ts'

/** The caller within a toolset. One that is not open to it is as unknown as one that is not there (rule 2). */
export function enterToolset(registry: LiveRegistry, principal: Principal, name: string): Principal {
  if (isOpenTo(registry, principal, name)) return withinToolset(principal, name)
  throw httpFault(404, noSuchToolset(registry, principal, name))
}

/** Says what is open to the caller, and nothing else. */
function noSuchToolset(registry: LiveRegistry, principal: Principal, name: string): string {
  const open = [...registry.toolsets.keys()].filter((other) => isOpenTo(registry, principal, other))
  return `There is no toolset "${name}" here.${didYouMean(name, open)}`
}

/**
 * A caller that is bound to some tools has the toolsets that it was given, and those in which it sees a tool. Nobody else
 * is kept from any: what is in them, scopes and tenants decide.
 */
function isOpenTo(registry: LiveRegistry, principal: Principal, name: string): boolean {
  if (!registry.toolsets.has(name)) return false
  const { tools, toolsets } = principal
  if (tools === undefined && toolsets === undefined) return true
  if (tools?.includes(TOOLSET_PREFIX + name) === true || toolsets?.includes(name) === true) return true
  return registry.catalogFor(withinToolset(principal, name)).tools.length > 0
}

/** What of the toolsets does nothing, now and whenever tools come and go; each is logged once while it lasts. */
export function watchIdle(
  { registry, gateway, sources }: Pick<Services, 'registry' | 'gateway' | 'sources'>,
  log: Logger,
): { readonly current: readonly string[] } {
  const find = (): readonly string[] =>
    findIdle(registry.toolsets, {
      tools: registry.tools,
      sources: sources.sources.status().map(({ key }) => key),
    })
  let current = find()
  gateway.catalogChanges.listen(() => {
    const before = current
    current = find()
    for (const problem of current)
      if (!before.includes(problem)) log.warn({ problem }, 'something in a toolset selects no tool')
  })
  return {
    get current() {
      return current
    },
  }
}
