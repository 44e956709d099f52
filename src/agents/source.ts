import type { CallFailure, ColletClient, RemoteTool } from '#client/index'
import { compareVersions, isToolVersion } from '#kernel/base/ids'
import { defined, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallError, Success } from '#kernel/call/call'
import { factsOf, type ToolFacts } from '#kernel/tool/facts'
import { hasEffects, type Tool } from '#kernel/tool/tool'
import { describeFailure, pagesOf } from '#protocols/mcp/reply'
import type { ShownTool } from '#protocols/mcp/results/content'
import type { ReadRequest, ResultPart } from '#results/read'
import type { Gateway } from '#server/create-gateway'

/*
 * Two ways to an agent's tools, behind one interface: a server, through the client, or a gateway in this process.
 * `toolset.ts` lists and calls tools through it. Invariant: both ways give the same tools, answers and texts, and a
 * call is repeated only under its key.
 */

export type AgentSource = ColletClient | Gateway

/** A tool of either kind of source. */
export interface SourceTool {
  readonly id: string
  /** The id without its version: a new version of a tool keeps the keys of its calls. */
  readonly base: string
  readonly name: string
  readonly title?: string | undefined
  readonly description: string
  readonly inputSchema: JsonObject
  readonly shown: ShownTool
  /** Whether a second call may have a second effect; true if the server does not say. */
  readonly hasEffects: boolean
  /** Whether a person may have to act before a call runs. */
  readonly mayAsk: boolean
  readonly identity?: readonly string[] | undefined
}

/** Something a person has to do before a call can run. */
export interface Ask {
  readonly kind: 'approval' | 'authorization'
  /** Id of the approval, for `gateway.approvals`. */
  readonly id?: string | undefined
  /** The page on which the person acts. */
  readonly url: string
  readonly provider?: string | undefined
  readonly scopes?: readonly string[] | undefined
}

export type SourceReply = {
  readonly callId: string
  /** The outcome was recorded by an earlier request with this key. */
  readonly replayed: boolean
} & (
  | { readonly ok: true; readonly success: Success }
  | {
      readonly ok: false
      readonly code: string | undefined
      readonly text: string
      readonly asks: readonly Ask[]
      /** The outcome is not known or not recorded: the same key must be used again. */
      readonly isOpen: boolean
    }
)

/** Options that all calls of a conversation share. */
export interface CallScope {
  /** The caller, in a gateway of this process. */
  readonly principal?: Principal | undefined
  readonly userId?: string | undefined
  readonly userInfo?: JsonValue | undefined
  readonly runId?: string | undefined
  readonly traceId?: string | undefined
}

interface SourceCall {
  readonly key: string | undefined
  readonly signal?: AbortSignal | undefined
}

export interface Backend {
  list(): Promise<readonly SourceTool[]>
  call(tool: SourceTool, input: JsonObject, call: SourceCall): Promise<SourceReply>
  read(callId: string, request: ReadRequest, maxBytes: number): Promise<ResultPart>
  /** Ids of tools, best first, with the reason if one cannot be called now. */
  search(text: string, limit: number | undefined): Promise<readonly FoundId[]>
}

interface FoundId {
  readonly id: string
  readonly unavailable?: string | undefined
}

export function openBackend(source: AgentSource, scope: CallScope): Backend {
  return 'tryCall' in source ? clientBackend(source, scope) : gatewayBackend(source, scope)
}

function clientBackend(client: ColletClient, { principal: _, ...scope }: CallScope): Backend {
  return {
    list: async () => newest((await client.list()).map(fromRemote)),
    async call(tool, input, { key, signal }) {
      const options = { ...scope, ...defined({ callId: key, signal }) }
      const tried = await client.tryCall(tool.id, input, options)
      if (!tried.ok) return failedReply(tried.error, key)
      // If the client resent the request after a lost reply, the recorded outcome is that of this call, not of an earlier one.
      const { callId, retries } = tried
      const replayed = tried.replayed === true && retries === 0
      const contentJson = await contentOf(client, tool, callId)
      const success: Success = { ok: true, valueJson: JSON.stringify(tried.value) }
      const shown = contentJson === undefined ? success : { ...success, shown: { contentJson } }
      return { ok: true, callId, replayed, success: shown }
    },
    async read(callId, { format, where, ...request }, maxBytes) {
      const filter = where && {
        member: where.member,
        ...(where.equals === undefined ? {} : { equals: textOf(where.equals) }),
        ...(where.contains === undefined ? {} : { contains: where.contains }),
      }
      const asked = { ...request, where: filter, format: format === 'toon' ? undefined : format, maxBytes }
      const { nextOffset, leftOut: _, unit, ...part } = await client.readResult(callId, asked)
      return {
        ...part,
        type: typeOf(part.value),
        ...unitOf(unit),
        ...defined({ next: nextOffset }),
        leftOut: [],
      }
    },
    async search(text, limit) {
      const { found } = await client.search(text, defined({ limit }))
      return found.map(({ id, unavailable }) => ({ id, unavailable }))
    },
  }
}

/** MCP servers may send images beside a structured value; OTC carries only the value. */
async function contentOf(
  client: ColletClient,
  tool: SourceTool,
  callId: string,
): Promise<string | undefined> {
  const { source, outputSchema } = tool.shown
  if (source !== 'mcp' || outputSchema === null || Object.hasOwn(outputSchema, 'properties') === false)
    return undefined
  try {
    const { value } = await client.readResult(callId, { part: 'content', maxBytes: 0 })
    return Array.isArray(value) ? JSON.stringify(value) : undefined
  } catch {
    // The call has no content blocks.
    return undefined
  }
}

function textOf(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function typeOf(value: JsonValue): ResultPart['type'] {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'string') return 'string'
  if (typeof value === 'number') return 'number'
  return typeof value === 'boolean' ? 'boolean' : 'object'
}

const UNITS = ['items', 'members', 'characters', 'bytes'] as const

function unitOf(unit: string | undefined): Pick<ResultPart, 'unit'> {
  const known = UNITS.find((name) => name === unit)
  return known === undefined ? {} : { unit: known }
}

function fromRemote(tool: RemoteTool): SourceTool {
  const { id, facts, output } = tool
  const at = id.lastIndexOf('@')
  return {
    ...{ id, name: tool.name, description: tool.description, inputSchema: tool.input },
    base: at > 0 && isToolVersion(id.slice(at + 1)) ? id.slice(0, at) : id,
    shown: {
      source: facts?.source ?? 'connector',
      outputSchema: output === 'none' ? null : output === 'any' ? {} : output,
      policy: policyOf(facts),
      // Only the structured value has to fit the schema, and agents read the content blocks.
      checkOutput: () => [],
    },
    hasEffects: facts === undefined || hasEffects(facts),
    mayAsk: facts === undefined ? tool.requirements.authorization.length > 0 : mayAsk(facts),
    identity: facts?.identity,
  }
}

function policyOf(facts: ToolFacts | undefined): ShownTool['policy'] {
  const { modelBytes, project, modelFormat } = facts ?? {}
  return defined({ modelBytes, project, modelFormat })
}

function mayAsk({ approval, credential }: Pick<ToolFacts, 'approval' | 'credential'>): boolean {
  return approval !== 'never' || credential
}

function gatewayBackend(gateway: Gateway, { principal, ...scope }: CallScope): Backend {
  const caller = defined({ principal })
  return {
    list: async () =>
      newest(gateway.tools(principal).flatMap((tool) => (tool.entry === undefined ? [fromTool(tool)] : []))),
    async call(tool, input, { key }) {
      const outcome = await gateway.call(tool.base, input, {
        ...caller,
        ...defined(scope),
        ...defined({ key }),
      })
      const { callId, replayed } = outcome
      if (outcome.ok) return { ok: true, callId, replayed, success: outcome }
      const { error } = outcome
      return {
        ...{ ok: false, callId, replayed, code: error.code, text: describeFailure(error) },
        asks: asksOf(error),
        isOpen: !FINAL.has(error.code),
      }
    },
    read: (callId, request, maxBytes) => gateway.readResult(callId, { ...caller, ...request, maxBytes }),
    async search(text, limit) {
      const { found } = await gateway.search(text, { ...caller, ...defined({ limit }) })
      return found.map(({ tool, unavailable }) => ({ id: tool.id, unavailable }))
    },
  }
}

function fromTool(tool: Tool): SourceTool {
  const { id, name, title, description, inputSchema, policy } = tool
  return {
    ...{ id, name, title, description, inputSchema, shown: tool },
    base: tool.parts.base,
    hasEffects: hasEffects(policy),
    mayAsk: mayAsk(factsOf(tool)),
    identity: policy.identity,
  }
}

function asksOf({ details }: CallError): readonly Ask[] {
  if (details?.missing === undefined) return []
  return pagesOf(details.missing).map(({ key, challenge }) => ({
    kind: key === 'approval' ? 'approval' : 'authorization',
    id: challenge.id,
    url: challenge.url,
    ...('provider' in challenge ? { provider: String(challenge.provider) } : {}),
  }))
}

/**
 * Failures that are final, because the outcome is recorded or the input is invalid: the same call is then a new
 * intention. After any other failure the call may have run or may still run, so it keeps its key.
 */
const FINAL: ReadonlySet<string> = new Set([
  ...['tool_failed', 'tool_timeout', 'cancelled', 'upstream_failed', 'egress_denied', 'output_invalid'],
  ...['result_too_large', 'result_expired', 'approval_rejected', 'input_invalid', 'tool_not_found'],
  ...['session_lost', 'workflow_diverged', 'key_conflict'],
])

/** Servers of other vendors send no codes; from them, a tool's own failure and a refused input are final. */
const FINAL_CLASSES: ReadonlySet<string> = new Set(['tool', 'validation'])

function failedReply(failure: CallFailure, key: string | undefined): SourceReply {
  const { code, missing } = failure
  const isFinal = code === undefined ? FINAL_CLASSES.has(failure.class) : FINAL.has(code)
  const asks: readonly Ask[] = [
    ...(missing?.approval ?? []).map(({ id, url }) => ({ kind: 'approval' as const, id, url })),
    ...(missing?.authorization ?? []).map(({ id, url, provider, scopes }) => {
      return { kind: 'authorization' as const, id, url, provider, scopes }
    }),
  ]
  const pages = asks.map(
    ({ kind, url }) => `${kind === 'approval' ? 'Approval' : 'Authorization'} needed: ${url}`,
  )
  return {
    ...{ ok: false, callId: failure.callId ?? key ?? '', code, asks, isOpen: !isFinal },
    replayed: failure.replayed && failure.retries === 0,
    text: [failure.modelText, ...pages.filter((page) => !failure.modelText.includes(page))].join('\n'),
  }
}

/** The newest version of each tool, because models see only one. */
function newest(tools: readonly SourceTool[]): readonly SourceTool[] {
  const byBase = Map.groupBy(tools, ({ base }) => base)
  return [...byBase.values()].flatMap((versions) =>
    versions.reduce((best, tool) => (compareVersions(versionOf(tool), versionOf(best)) > 0 ? tool : best)),
  )
}

function versionOf({ id, base }: SourceTool): string {
  return id === base ? '0.0.0' : id.slice(base.length + 1)
}
