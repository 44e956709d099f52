/**
 * One tool as its page shows it: schemas, policy, needs, names in each protocol, pinned and seen definitions, and its form for models.
 * The viewer decides what is shown of sources, pins and calls.
 */
import type { ToolDetails } from '#admin-api/tools'
import { type ApprovalRules, termsFor } from '#kernel/approval/approvals'
import { isJsonObject, type JsonArray, type JsonObject } from '#kernel/base/json'
import type { TokenBroker } from '#kernel/base/token-broker'
import type { CallRecord } from '#kernel/call/call-record'
import { effectiveApproval, type Tool } from '#kernel/tool/tool'
import { toWireTool } from '#protocols/mcp/codec-tool'
import { NEW_REVISION } from '#protocols/mcp/wire'
import type { OpenAiTool } from '#protocols/opentool/codec-convert-to-json'
import { documentOf } from '#protocols/opentool/codec-convert-tools'
import type { PinDiff } from '#sources/kit/pin-view'
import type { SourceView } from '#sources/kit/sources'
import type { BudgetRule } from '#stages/limits/budgets'
import { isOperator } from './access.ts'
import { timeOf } from './admin-route.ts'
import { renderPinDiff } from './pins.ts'
import { type HeldCredentials, howToConnect, toolNeeds } from './tool-needs.ts'
import { hasApprovalRule, listedChange, listedSource, type Viewer } from './tool-rows.ts'
import { budgetTerms } from './usage.ts'

interface ToolContext {
  readonly viewer: Viewer
  readonly held: HeldCredentials
  readonly approvals: ApprovalRules
  readonly budgets: readonly BudgetRule[]
  readonly toolsets: readonly string[]
  /** Local addresses that tools may reach, for operators. */
  readonly egressAllow: readonly string[] | undefined
  /** The source of an imported tool of a running server. */
  readonly source?: SourceView | undefined
  readonly pin?: PinDiff | undefined
  /** Whether the viewer may see changes of the upstream and who accepted them. */
  readonly seesPins: boolean
  /** The latest calls of the tool, for viewers that may see calls. */
  readonly calls?: readonly CallRecord[] | undefined
  obstacle: TokenBroker['obstacle']
}

export function renderTool(tool: Tool, context: ToolContext): ToolDetails {
  const { viewer, source, pin, seesPins, calls } = context
  const { catalog, seesReasons } = viewer
  const { parts } = tool
  const versions = catalog.versionsOf(parts.base)
  const newest = versions.at(-1) ?? tool
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
    toolsets: context.toolsets,
    names: namesOf(tool, newest === tool),
    input_schema: tool.inputSchema,
    output_schema: tool.outputSchema,
    examples: examplesOf(tool.inputSchema),
    policy: renderPolicy(tool, context),
    keeps_state: tool.session !== undefined,
    steps: [...(tool.workflow?.steps?.keys() ?? [])],
    requirements: renderNeeds(tool, context),
    definition_hash: tool.definitionHash,
    change: pin === undefined ? null : (listedChange(pin) ?? null),
    pin: pin === undefined || !seesPins ? null : renderPinDiff(pin),
    seen: calls === undefined ? null : definitionsSeen(calls),
    model: modelView(tool),
  }
}

/** The name of the tool in each protocol. MCP and OpenTool list the newest version only; both accept the name of an older one too. */
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

/** The author's examples of a complete input. */
function examplesOf({ examples }: JsonObject): JsonArray {
  return Array.isArray(examples) ? examples : []
}

function renderPolicy(
  tool: Tool,
  { approvals, budgets, viewer, egressAllow }: ToolContext,
): ToolDetails['policy'] {
  const { safetyTier, replay, egress, scopes, timeoutMs, rerunWindowMs, cost, costHint, latencyHint } =
    tool.policy
  const { principal } = viewer
  const approval = effectiveApproval(tool)
  const terms = termsFor(approvals, tool)
  return {
    tier: safetyTier,
    egress: egress ?? null,
    egress_allow: egressAllow ?? null,
    replay,
    scopes,
    tenants: isOperator(principal) ? (tool.policy.tenants ?? null) : null,
    timeout_ms: timeoutMs,
    rerun_window_ms: rerunWindowMs,
    cost: cost ?? 1,
    cost_hint: costHint ?? null,
    latency_hint: latencyHint ?? null,
    approval,
    approval_terms:
      approval === 'never'
        ? null
        : {
            by_rule: hasApprovalRule(tool, approvals),
            expires_after_ms: terms.expiresAfterMs,
            quorum: terms.quorum,
            required_scope: terms.requiredScope,
            self_approval: terms.selfApproval,
          },
    budgets: budgetTerms(principal, budgets),
  }
}

function renderNeeds(tool: Tool, { held, obstacle, viewer }: ToolContext): ToolDetails['requirements'] {
  return toolNeeds(tool, { withScopes: isOperator(viewer.principal) }).map((need) => ({
    ...{ kind: need.kind, id: need.id, scopes: need.scopes },
    state: held.stateOf(need),
    connect: howToConnect(need, held.caller, obstacle),
  }))
}

/** Definitions that calls ran on, newest first: the only record of changes to tools that are code. */
function definitionsSeen(calls: readonly CallRecord[]): NonNullable<ToolDetails['seen']> {
  const byHash = Map.groupBy(calls, ({ tool, definitionHash }) => `${tool} ${definitionHash}`)
  return [...byHash.values()].flatMap((same) => {
    const [newest, oldest] = [same[0], same.at(-1)]
    if (newest === undefined || oldest === undefined) return []
    return [
      {
        tool: newest.tool,
        definition_hash: newest.definitionHash,
        calls: same.length,
        first_at: timeOf(oldest.createdAtMs),
        last_at: timeOf(newest.createdAtMs),
      },
    ]
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
