/**
 * Lists, counts, searches and shows the tools that a caller may see, and lists toolsets with their keys for operators. The console,
 * `collet tools` and `collet toolsets` use these routes. A tool that protocols hide from a caller is hidden here too (rule 2); the operator
 * sees the tools of every tenant.
 */
import {
  COUNT_TOOLS,
  LIST_ALL_TOOLS,
  LIST_TOOLSETS,
  READ_TOOL_COST,
  READ_TOOL_USAGE,
  SEARCH_TOOLS,
  SHOW_TOOL,
  type Toolset,
  type ToolUsage,
} from '#admin-api/tools'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { parseToolName } from '#kernel/base/ids'
import { defined } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { DEFAULT_TENANT, type Principal, type RoleTable } from '#kernel/base/principal'
import type { Catalog } from '#kernel/tool/catalog'
import { sharedNameHint } from '#kernel/tool/shared-names'
import { isForTenant, type Tool } from '#kernel/tool/tool'
import { allowLists, isInToolset, selectsIn, TOOLSET_PREFIX, type Toolsets } from '#kernel/tool/toolsets'
import { listCost, namesForModels } from '#protocols/mcp/results/list-cost'
import { readLimit, replyPrepared } from '#protocols/prepared'
import { describeSearch } from '#search/for-models'
import { firstSentence } from '#search/tool-document'
import { DEFAULT_FOUND, MAX_FOUND, type ToolSearch } from '#search/tool-search'
import type { ServerRoute } from '#server/http/router'
import type { KnownTool } from '#server/known-tools'
import { enterToolset } from '#server/toolsets'
import type { Store } from '#store/collet-store'
import type { KeyStore } from '#store/keys'
import type { UsageQuery, UsageRow } from '#store/operator-views'
import { roundedMs } from '#store/rollups/call-counts'
import { isOperator, type OperatorAccess, visibleTenant } from './access.ts'
import { serveOperation, serveReply, timeOf } from './admin-route.ts'
import { parseTime } from './call-filter.ts'
import { ToolListings, type Viewer } from './tool-rows.ts'
import { describeTool, type ToolViewOptions } from './tool-view.ts'
import { isError, quantile, readPages } from './usage.ts'

interface ToolRoutesOptions extends ToolViewOptions {
  readonly clock: Clock
  readonly search: ToolSearch
  readonly store?: Pick<Store, 'vault' | 'digest' | 'list' | 'usage'> | undefined
  /** How MCP lists tools. */
  listing(): Parameters<typeof listCost>[1]
  /** Called for every request for a tool that the principal may not see (rule 30a). */
  onUnknownTool?(principal: Principal, name: string): void
}

const MAX_COSTS = 100

/** The answer depends on the credential, so shared caches must not keep it. */
const PRIVATE = {
  'cache-control': 'private, no-cache',
  vary: 'accept-encoding, authorization, cookie, x-api-key',
}

export function createToolRoutes(access: OperatorAccess, options: ToolRoutesOptions): readonly ServerRoute[] {
  const { registry, onUnknownTool } = options
  const listings = new ToolListings(options)
  /** An operator sees the tools of every tenant. */
  const callerWithin = (caller: Principal, toolset: string | undefined): Principal => {
    const within = toolset === undefined ? caller : enterToolset(registry, caller, toolset)
    return isOperator(caller) ? { ...within, seesEveryTenant: true } : within
  }
  const viewerOf = (caller: Principal, toolset: string | undefined): Viewer => {
    const mayManageServer = isOperator(caller) || caller.tenant === DEFAULT_TENANT
    return {
      principal: caller,
      catalog: registry.catalogFor(callerWithin(caller, toolset)),
      seesReasons: mayManageServer && access.hasScope(caller, 'admin:sources'),
      seesPins: mayManageServer && access.hasScope(caller, 'admin:pins'),
      seesCalls: access.hasScope(caller, 'admin:calls'),
    }
  }
  /** Finds a tool by any of its names, with a version after `@` or in the query. A hidden tool gets the error of an unknown tool (rule 2). */
  const findTool = (requested: string, { principal, catalog }: Viewer, version: string | undefined): Tool => {
    const name = version === undefined ? requested : `${requested.replace(/@[^@]*$/, '')}@${version}`
    const ref = parseToolName(name)
    const found = ref === undefined ? undefined : catalog.resolve(ref)
    if (found !== undefined) return found
    onUnknownTool?.(principal, name)
    throw fault('tool_not_found', notFound(name, catalog))
  }
  return [
    // Every page of the console shows the count, and the full list may be long.
    serveOperation(access, COUNT_TOOLS, async ({ principal, query }) => ({
      count: viewerOf(principal, query.toolset).catalog.bases().length,
    })),
    serveOperation(access, SEARCH_TOOLS, async ({ principal, query }) => {
      const within = callerWithin(principal, query.toolset)
      const limit = readLimit(new URLSearchParams(defined({ limit: query.limit })), DEFAULT_FOUND, MAX_FOUND)
      const { found, families } = await options.search.find(within, query.q, limit)
      const names = namesForModels(registry.catalogFor(within))
      return {
        found: found.map(({ tool, unavailable }) => ({
          ...{ id: tool.parts.base, name: tool.name, description: firstSentence(tool.description) },
          unavailable: unavailable ?? null,
        })),
        families: families.map(({ name, count, examples }) => ({ name, count, examples: [...examples] })),
        text: describeSearch(query.q, { found, families }, (tool) => names.get(tool) ?? tool.name),
      }
    }),
    serveOperation(access, READ_TOOL_COST, async ({ principal, query }) => {
      const { each, ...cost } = listCost(viewerOf(principal, query.toolset).catalog, options.listing())
      return { ...cost, each: each.slice(0, MAX_COSTS) }
    }),
    serveReply(access, LIST_ALL_TOOLS, async ({ principal, query, http }) =>
      replyPrepared(http, await listings.of(viewerOf(principal, query.toolset)), PRIVATE),
    ),
    serveOperation(access, SHOW_TOOL, async ({ principal, id, query }) => {
      const viewer = viewerOf(principal, query.toolset)
      return { tool: await describeTool(findTool(id, viewer, query.version), viewer, options) }
    }),
    serveOperation(access, READ_TOOL_USAGE, async ({ principal, id, query }) => {
      const tool = findTool(id, viewerOf(principal, query.toolset), query.version)
      const selection = {
        tool: query.version === undefined ? tool.parts.base : tool.id,
        tenant: visibleTenant(principal),
      }
      const range = { sinceMs: parseTime(query.since), untilMs: parseTime(query.until) }
      const usage = await usageOf({ ...selection, ...range }, options)
      return { usage: { tool: tool.parts.base, ...usage } }
    }),
  ]
}

function notFound(name: string, catalog: Catalog): string {
  const [base = ''] = name.split('@', 1)
  const versions = catalog.versionsOf(base).map(({ parts }) => parts.version)
  if (versions.length > 0) return `${base} does not have this version. It has ${versions.join(', ')}.`
  const shared = sharedNameHint(base, catalog.tools)
  if (shared !== undefined) return `There is no tool "${name}" here. ${shared}`
  return `There is no tool "${name}" here.${didYouMean(name, catalog.bases()) || ' "collet tools" and GET /admin/tools list them.'}`
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DEFAULT_HOURS = 24
/** A week of hours. */
const MAX_BUCKETS = 168

/**
 * Counts the calls of one tool by minutes, hours, or wider steps if the span is longer than a week. Calls are read newest first; if there
 * are too many, the oldest are not counted and `whole` is false.
 */
async function usageOf(
  { sinceMs, untilMs, ...selection }: Pick<UsageQuery, 'tool' | 'tenant' | 'sinceMs' | 'untilMs'>,
  { store, clock }: ToolRoutesOptions,
): Promise<Omit<ToolUsage, 'tool'>> {
  const endMs = untilMs ?? clock.nowMs()
  const fromMs = Math.min(sinceMs ?? endMs - DEFAULT_HOURS * HOUR_MS, endMs - 1)
  const stepMs = stepOf(endMs - fromMs)
  const counted = Array.from({ length: Math.ceil((endMs - fromMs) / stepMs) }, () => ({
    calls: 0,
    errors: 0,
    durations: new Map<number, number>(),
  }))
  const durations = new Map<number, number>()
  const add = (row: UsageRow): void => {
    const { tookMs, calls } = row
    const bucket = counted[row.bucket]
    if (bucket === undefined) return
    bucket.calls += calls
    if (isError(row)) bucket.errors += calls
    if (tookMs === undefined) return
    const rounded = roundedMs(tookMs)
    for (const counts of [durations, bucket.durations])
      counts.set(rounded, (counts.get(rounded) ?? 0) + calls)
  }
  const span = { ...selection, sinceMs: fromMs, untilMs: endMs, bucketMs: stepMs }
  const whole = store === undefined || (await readPages((before) => store.usage({ ...span, before }), add))
  const buckets = counted.map(({ durations: inBucket, ...counts }, index) => ({
    at: timeOf(fromMs + index * stepMs),
    ...counts,
    ...quantiles(inBucket),
  }))
  const sum = (member: 'calls' | 'errors'): number =>
    buckets.reduce((total, bucket) => total + bucket[member], 0)
  return {
    since: timeOf(fromMs),
    step_seconds: stepMs / 1_000,
    calls: sum('calls'),
    errors: sum('errors'),
    ...quantiles(durations),
    buckets,
    whole,
  }
}

/** Minutes for up to six hours, so that a chart of an hour has more than one value; otherwise whole hours. */
function stepOf(spanMs: number): number {
  if (spanMs <= 6 * HOUR_MS) return Math.ceil(spanMs / HOUR_MS) * MINUTE_MS
  return HOUR_MS * Math.ceil(Math.ceil(spanMs / HOUR_MS) / MAX_BUCKETS)
}

function quantiles(durations: ReadonlyMap<number, number>) {
  return { p50_ms: quantile(durations, 0.5), p95_ms: quantile(durations, 0.95) }
}

const MAX_KEYS = 10_000

interface ConfiguredKey {
  readonly id: string
  readonly tenant: string
  readonly tools?: readonly string[] | undefined
}

/** Toolsets, roles and keys of the config, with the current tools. */
export interface ToolsetParts {
  readonly toolsets: Toolsets
  readonly tools: readonly KnownTool[]
  readonly roles: RoleTable
  readonly apiKeys: readonly ConfiguredKey[]
}

export function createToolsetRoutes(
  access: OperatorAccess,
  keys: Pick<KeyStore, 'listKeys'>,
  parts: () => ToolsetParts,
): readonly ServerRoute[] {
  return [
    serveOperation(access, LIST_TOOLSETS, async ({ principal }) => {
      const viewer = isOperator(principal) ? undefined : principal
      const tenant = viewer?.tenant
      const stored = await keys.listKeys(defined({ limit: MAX_KEYS, tenant }))
      const holders = [
        ...parts().apiKeys.filter((key) => tenant === undefined || key.tenant === tenant),
        ...stored
          .filter(({ revokedAtMs }) => revokedAtMs === undefined)
          .map((key) => ({ ...key, id: key.name })),
      ]
      return { toolsets: listToolsets(parts(), holders, viewer) }
    }),
  ]
}

/** Lists only what `viewer` may see; without a viewer, as for the operator, lists everything. */
export function listToolsets(
  { toolsets, tools, roles }: ToolsetParts,
  holders: readonly ConfiguredKey[],
  viewer?: Principal,
): readonly Toolset[] {
  const bounds = viewer === undefined ? [] : allowLists(viewer)
  const seen = tools.filter(
    (tool) =>
      (viewer === undefined || isForTenant(tool.policy, viewer.tenant)) &&
      bounds.every((list) => list.some((text) => selectsIn(toolsets, text, tool))),
  )
  return [...toolsets].flatMap(([name, toolset]) => {
    const inside = seen.filter((tool) => isInToolset(toolset, tool))
    // A limited viewer sees only the toolsets that it was granted or, without such grants, those with a tool that it sees (rule 2).
    const named = bounds.flat().filter((text) => text.startsWith(TOOLSET_PREFIX))
    const isVisible = named.length === 0 ? inside.length > 0 : named.includes(TOOLSET_PREFIX + name)
    if (bounds.length > 0 && !isVisible) return []
    const keys = holders.filter((key) => key.tools?.includes(TOOLSET_PREFIX + name) === true)
    return {
      name,
      description: toolset.description ?? null,
      // The patterns may name tools that the viewer may not see.
      include: viewer === undefined ? toolset.include : null,
      exclude: viewer === undefined ? toolset.exclude : null,
      tier: toolset.tier ?? null,
      path: `/mcp/${name}`,
      tools: inside.map(({ parts: { base, version } }) => `${base}@${version}`),
      keys: [...new Set(keys.map(shownOwner))],
      roles: [...roles].flatMap(([role, held]) => (held.toolsets?.includes(name) === true ? [role] : [])),
    }
  })
}

function shownOwner({ id, tenant }: ConfiguredKey): string {
  return tenant === DEFAULT_TENANT ? id : `${id} (${tenant})`
}
