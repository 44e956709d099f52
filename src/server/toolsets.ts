import { didYouMean } from '#kernel/base/nearest-name'
import { DEFAULT_TENANT, type Principal, withinToolset } from '#kernel/base/principal'
import type { LiveRegistry } from '#kernel/tool/catalog'
import { TOOLSET_PREFIX } from '#kernel/tool/toolsets'
import { httpFault } from '#server/http/exchange'

/** Limits the caller to a toolset. A toolset that is closed to the caller fails like an unknown toolset (rule 2). */
export function enterToolset(registry: LiveRegistry, principal: Principal, name: string): Principal {
  if (isOpenTo(registry, principal, name)) return withinToolset(principal, name)
  // The suggestion names only toolsets that are open to the caller.
  const suggestion = didYouMean(name, openToolsets(registry, principal))
  throw httpFault(404, `There is no toolset "${name}" here.${suggestion}`)
}

/** Names of the toolsets that a caller may connect to. */
export function openToolsets(registry: LiveRegistry, principal: Principal): readonly string[] {
  return [...registry.toolsets.keys()].filter((name) => isOpenTo(registry, principal, name))
}

/**
 * A caller with granted toolsets has only these. A caller that is limited to individual tools, or belongs to a tenant other than
 * the server's own, has the toolsets in which it sees at least one tool. All other callers have every toolset.
 */
function isOpenTo(registry: LiveRegistry, principal: Principal, name: string): boolean {
  if (!registry.toolsets.has(name)) return false
  const { tools, toolsets } = principal
  if (tools === undefined && toolsets === undefined && principal.tenant === DEFAULT_TENANT) return true
  if (tools?.includes(TOOLSET_PREFIX + name) === true || toolsets?.includes(name) === true) return true
  const hasOtherGrants = toolsets !== undefined || tools?.some((text) => text.startsWith(TOOLSET_PREFIX))
  return hasOtherGrants !== true && !registry.catalogFor(withinToolset(principal, name)).isEmpty
}
