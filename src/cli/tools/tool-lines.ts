import type { ToolDetails } from '#admin-api/tools'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'

/**
 * The text of `collet tools show`: one tool with its description, policy, input, requirements and names. Invariant:
 * it only formats; the admin API decides what is shown.
 */

export function toolLines(tool: ToolDetails): readonly string[] {
  return [
    tool.title === null ? tool.id : `${tool.id}  ${tool.title}`,
    '',
    ...tool.description.trim().split('\n'),
    '',
    ...section('Policy', policyLines(tool)),
    ...section('Input', fieldLines(tool.input_schema)),
    ...section('Needs', needLines(tool)),
    ...section('State', stateLines(tool)),
    ...section('Names', nameLines(tool)),
  ].slice(0, -1)
}

/** Puts the heading beside the first line, and an empty line after the last. */
function section(heading: string, lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return []
  return [...lines.map((line, at) => `${(at === 0 ? heading : '').padEnd(8)}${line}`), '']
}

const TIERS: ReadonlyMap<string, string> = new Map([
  ['pure', 'neither reads nor changes anything (pure)'],
  ['read', 'only reads (read)'],
  ['write', 'changes something (write)'],
  ['exec', 'runs a program on the host (exec)'],
])

const REPLAYS: ReadonlyMap<string, string> = new Map([
  ['deterministic', 'the same input returns the same result'],
  ['idempotent', 'a second run changes nothing more'],
  ['non-deterministic', 'a second run may do more'],
])

function policyLines({ policy }: ToolDetails): readonly string[] {
  const { tier, egress, replay, approval, approval_terms: terms, scopes, timeout_ms: timeout, cost } = policy
  return [
    TIERS.get(tier) ?? tier,
    REPLAYS.get(replay) ?? replay,
    ...(egress === null ? [] : [`network: ${egress}`]),
    ...(approval === 'never' || terms === null
      ? []
      : [
          `a person approves ${terms.by_rule ? 'calls that a rule of the operator selects' : 'every call'} (${approval}), ${terms.quorum} needed`,
        ]),
    ...(scopes.length === 0 ? [] : [`for callers with ${scopes.join(', ')}`]),
    `at most ${timeout / 1_000} s per run, cost ${cost}`,
  ]
}

function fieldLines({ properties, required }: JsonObject): readonly string[] {
  if (!isJsonObject(properties)) return []
  const needed: readonly JsonValue[] = Array.isArray(required) ? required : []
  return Object.entries(properties).map(([name, field]) => {
    const { type, description } = isJsonObject(field) ? field : {}
    const summary = typeof description === 'string' ? `  ${description.split('\n', 1)[0]}` : ''
    const shown = typeof type === 'string' ? type : Array.isArray(type) ? type.join(' or ') : 'any'
    return `${name}: ${shown}${needed.includes(name) ? '' : ', optional'}${summary}`
  })
}

function needLines({ requirements }: ToolDetails): readonly string[] {
  return requirements.flatMap(({ kind, id, scopes, state, connect }) => [
    `${kind === 'user' ? id : `${kind} ${id}`}${scopes.length === 0 ? '' : ` (${scopes.join(' ')})`}: ${state.replace('_', ' ')}`,
    ...(state === 'met'
      ? []
      : [`  ${connect.says}`, ...(connect.command === null ? [] : [`  ${connect.command}`])]),
  ])
}

function stateLines({ source, change, definition_hash: hash, base }: ToolDetails): readonly string[] {
  return [
    ...(source === null
      ? []
      : [
          `source ${source.key}: ${source.state} since ${source.since}${source.reason === null ? '' : `, ${source.reason}`}`,
        ]),
    ...(change === null
      ? []
      : [
          `a ${change.class} change has been held since ${change.since}${change.suspended ? '; calls are refused' : ''}: collet pins diff ${base}`,
        ]),
    `definition ${hash}`,
  ]
}

function nameLines({ names, versions, toolsets, tags }: ToolDetails): readonly string[] {
  return [
    `MCP ${names.mcp}, OTC ${names.otc}, OpenTool ${names.opentool ?? '(not listed)'}, openwop as ${names.openwop}`,
    ...(versions.length === 1 ? [] : [`versions ${versions.map(({ version }) => version).join(', ')}`]),
    ...(toolsets.length === 0 ? [] : [`toolsets ${toolsets.join(', ')}`]),
    ...(tags.length === 0 ? [] : [`tags ${tags.join(', ')}`]),
  ]
}
