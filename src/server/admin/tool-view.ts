/**
 * Renders one tool for its page: schemas, policy, needs, names in each protocol, the pinned definition, the definitions that calls ran on,
 * and the formats of model vendors. The viewer's rights determine what is shown of sources, pins and calls.
 */
import type { ToolDetails } from '#admin-api/tools'
import { termsFor } from '#kernel/approval/approvals'
import { isJsonObject } from '#kernel/base/json'
import type { TokenBroker } from '#kernel/base/token-broker'
import type { CallRecord } from '#kernel/call/call-record'
import type { LiveRegistry } from '#kernel/tool/catalog'
import { effectiveApproval, type Tool } from '#kernel/tool/tool'
import { isInToolset, sourceToolkit } from '#kernel/tool/toolsets'
import { toWireTool } from '#protocols/mcp/codec-tool'
import { NEW_REVISION } from '#protocols/mcp/wire'
import { documentOf } from '#protocols/opentool/codec-convert-tools'
import type { OpenAiTool } from '#protocols/opentool/codec-to-json-schema'
import type { Pins } from '#sources/kit/pins'
import { toolkitOf } from '#sources/kit/project'
import type { BudgetRule } from '#stages/limits/budgets'
import type { Store } from '#store/collet-store'
import { isOperator, visibleTenant } from './access.ts'
import { timeOf } from './admin-route.ts'
import { renderPinDiff } from './pins.ts'
import { callerSeenBy, howToConnect, readNeedStates, toolNeeds } from './tool-needs.ts'
import {
  hasApprovalRule,
  type ListingParts,
  listedChange,
  listedSource,
  shownToolsets,
  type Viewer,
} from './tool-rows.ts'
import { budgetTerms } from './usage.ts'

/** Without a store and sources only the tools of the config are shown. */
export interface ToolViewOptions extends ListingParts {
  readonly registry: LiveRegistry
  readonly store?: Pick<Store, 'vault' | 'digest' | 'list'> | undefined
  readonly pins?: Pick<Pins, 'waiting' | 'diff'> | undefined
  budgets(): readonly BudgetRule[]
  /** Local addresses that tools may reach. */
  egressAllow(): readonly string[]
  obstacle: TokenBroker['obstacle']
}

/** Number of recent calls whose definitions are shown. */
const MAX_CALLS_READ = 100

export async function describeTool(
  tool: Tool,
  viewer: Viewer,
  options: ToolViewOptions,
): Promise<ToolDetails> {
  const { registry, store, pins, sources, obstacle } = options
  const { principal, catalog, seesReasons, seesPins, seesCalls } = viewer
  const { parts } = tool
  const versions = catalog.versionsOf(parts.base)
  const caller = callerSeenBy(principal, options.openCaller())
  const stateOf = await readNeedStates(store, caller, await options.scopeHolders())
  const source = sources?.().find(({ key }) => toolkitOf(key) === sourceToolkit(tool))
  const pin = await pins?.diff(tool.keptFrom?.pin ?? parts.base)
  const callQuery = { tool: parts.base, limit: MAX_CALLS_READ, tenant: visibleTenant(principal) }
  const latest = seesCalls ? await store?.list(callQuery) : undefined
  return {
    id: tool.id,
    base: parts.base,
    version: parts.version,
    versions: versions.toReversed().map(({ parts: { version }, definitionHash }) => ({
      version,
      definition_hash: definitionHash,
    })),
    title: tool.title ?? null,
    description: tool.description,
    kind: tool.source,
    source: source === undefined ? null : { key: source.key, ...listedSource(source, seesReasons) },
    toolkit: parts.toolkit,
    tags: tool.tags ?? [],
    toolsets: [...shownToolsets(principal, registry.toolsets)].flatMap(([name, toolset]) =>
      isInToolset(toolset, tool) ? [name] : [],
    ),
    names: namesOf(tool, (versions.at(-1) ?? tool) === tool),
    input_schema: tool.inputSchema,
    output_schema: tool.outputSchema,
    examples: Array.isArray(tool.inputSchema.examples) ? tool.inputSchema.examples : [],
    policy: renderPolicy(tool, viewer, options),
    keeps_state: tool.session !== undefined,
    steps: [...(tool.workflow?.steps?.keys() ?? [])],
    requirements: toolNeeds(tool, { withScopes: isOperator(principal) }).map((need) => ({
      kind: need.kind,
      id: need.id,
      scopes: need.scopes,
      state: stateOf(need),
      connect: howToConnect(need, caller, obstacle),
    })),
    definition_hash: tool.definitionHash,
    change: pin === undefined ? null : (listedChange(pin) ?? null),
    pin: pin === undefined || !seesPins ? null : renderPinDiff(pin),
    seen: latest === undefined ? null : definitionsSeen(latest.calls),
    model: modelView(tool),
  }
}

/** The name of the tool in each protocol. MCP and OpenTool list the newest version only; both accept the name of an older version too. */
function namesOf(tool: Tool, isNewest: boolean): ToolDetails['names'] {
  const { id, name, catalogId, parts } = tool
  const { nameOf, skipped } = documentOf([tool], { title: 'tool', version: parts.version })
  const openTool = skipped.length > 0 ? undefined : nameOf.get(id)
  const ofVersion = (known: string): string => (isNewest ? known : `${known}@${parts.version}`)
  return {
    otc: id,
    mcp: ofVersion(name),
    opentool: openTool === undefined ? null : ofVersion(openTool),
    openwop: catalogId,
  }
}

function renderPolicy(
  tool: Tool,
  { principal, seesReasons }: Viewer,
  { approvals, budgets, egressAllow }: ToolViewOptions,
): ToolDetails['policy'] {
  const { policy } = tool
  const approval = effectiveApproval(tool)
  const terms = termsFor(approvals(), tool)
  return {
    tier: policy.safetyTier,
    egress: policy.egress ?? null,
    egress_allow: seesReasons ? egressAllow() : null,
    replay: policy.replay,
    scopes: policy.scopes,
    tenants: isOperator(principal) ? (policy.tenants ?? null) : null,
    timeout_ms: policy.timeoutMs,
    rerun_window_ms: policy.rerunWindowMs,
    cost: policy.cost ?? 1,
    cost_hint: policy.costHint ?? null,
    latency_hint: policy.latencyHint ?? null,
    approval,
    approval_terms:
      approval === 'never'
        ? null
        : {
            by_rule: hasApprovalRule(tool, approvals()),
            expires_after_ms: terms.expiresAfterMs,
            quorum: terms.quorum,
            required_scope: terms.requiredScope,
            self_approval: terms.selfApproval,
          },
    budgets: budgetTerms(principal, budgets()),
  }
}

/** Definitions that calls ran on, newest first: the only record of changes to tools that are code. */
function definitionsSeen(calls: readonly CallRecord[]): NonNullable<ToolDetails['seen']> {
  const byHash = Map.groupBy(calls, ({ tool, definitionHash }) => `${tool} ${definitionHash}`)
  return [...byHash.values()].flatMap((same) => {
    const [newest, oldest] = [same[0], same.at(-1)]
    if (newest === undefined || oldest === undefined) return []
    return {
      tool: newest.tool,
      definition_hash: newest.definitionHash,
      calls: same.length,
      first_at: timeOf(oldest.createdAtMs),
      last_at: timeOf(newest.createdAtMs),
    }
  })
}

/** The tool in the format of each model vendor, with the schema of its MCP listing. */
function modelView(tool: Tool): ToolDetails['model'] {
  const mcp = toWireTool(tool, tool.name, NEW_REVISION)
  const { inputSchema, description } = mcp
  const parameters = isJsonObject(inputSchema) ? inputSchema : {}
  const text = typeof description === 'string' ? description : tool.description
  const openai = {
    type: 'function',
    function: { name: tool.name, description: text, parameters } satisfies OpenAiTool['function'],
  }
  const anthropic = { name: tool.name, description: text, input_schema: parameters }
  return { mcp: { ...mcp }, openai, anthropic }
}
