/**
 * Opens the search over tools for a server, and tells it which tools cannot be called now. Such a tool stays in the answer with the
 * reason: its source is down, a change of its definition waits for the operator, or the caller lacks a credential that it needs.
 * Protocols, the admin API and the console share the one search of the process.
 */

import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { CallRequest } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import type { LiveRegistry } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { sourceToolkit } from '#kernel/tool/toolsets'
import { openLearning } from '#search/learning'
import { openToolSearch, type ToolSearch } from '#search/tool-search'
import { readNeedStates, toolNeeds } from '#server/admin/tool-needs'
import type { OpenSources } from '#server/sources'
import { toolkitOf } from '#sources/kit/project'
import type { Store } from '#store/collet-store'

interface ServerSearchParts {
  readonly registry: LiveRegistry
  readonly store: Store
  readonly sources: OpenSources
  readonly clock: Clock
  readonly log: Logger
}

export interface ServerSearch extends ToolSearch {
  /** Returns the gateway, extended so that each successful call is remembered with the searches that its caller made before it. */
  watch<Watched extends Pick<Gateway, 'call'>>(gateway: Watched): Watched
}

export function openServerSearch(
  { search }: Pick<Settings, 'search'>,
  parts: ServerSearchParts,
): ServerSearch {
  const { registry, store, clock, log } = parts
  const learning =
    search?.learn === false ? undefined : openLearning({ store: store.pastSearches, clock, log })
  const found = openToolSearch({
    ...{ clock, log, embed: search?.embed, past: learning },
    catalogFor: (principal) => registry.catalogFor(principal),
    unavailable: (principal, tools) => findReasons(parts, principal, tools),
  })
  return {
    ...found,
    watch(gateway) {
      if (learning === undefined) return gateway
      return {
        ...gateway,
        async call(principal, request) {
          const reply = await gateway.call(principal, request)
          if (reply.outcome.ok && learning.hasSearches) noteCall(principal, request)
          return reply
        },
      }
    },
  }

  function noteCall(principal: Principal, { tool }: CallRequest): void {
    const called = registry.catalogFor(principal).resolve(tool)
    if (called !== undefined) void learning?.noteCall(principal, called.parts.base)
  }
}

async function findReasons(
  { sources: { sources, pins }, store }: ServerSearchParts,
  principal: Principal,
  tools: readonly Tool[],
): Promise<ReadonlyMap<Tool, string>> {
  const down = new Set(
    sources.status().flatMap(({ key, state }) => (state === 'down' ? [toolkitOf(key)] : [])),
  )
  const waiting = await pins.waiting()
  const suspended = new Set(waiting.flatMap(({ tool, state }) => (state === 'suspended' ? [tool] : [])))
  const needed = new Map(tools.map((tool) => [tool, toolNeeds(tool, { withScopes: false })]))
  const needsAnything = [...needed.values()].some(({ length }) => length > 0)
  const stateOf = await readNeedStates(needsAnything ? store : undefined, principal, () => true)
  return new Map(
    tools.flatMap((tool) => {
      const source = sourceToolkit(tool)
      if (down.has(source)) return [[tool, `The source "${source}" is down.`]]
      if (suspended.has(tool.keptFrom?.pin ?? tool.parts.base))
        return [
          [tool, 'Its definition has changed, and calls are refused until an operator accepts the change.'],
        ]
      const missing = needed.get(tool)?.find((need) => stateOf(need) === 'missing')
      return missing === undefined
        ? []
        : [[tool, `It needs "${missing.id}": send it with the call, or have an operator store it.`]]
    }),
  )
}
