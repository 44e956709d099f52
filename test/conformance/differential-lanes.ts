import { ToolError } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import type { Dialect } from '#protocols/otc/wire'
import { type Batch, type CallPlan, visibleTool } from './differential-calls.ts'
import type { Protocol } from './differential-differences.ts'
import { send, shownId } from './differential-http.ts'
import { MCP_REVISIONS, type McpRevision, mcpRequest, openMcpSession, readMcp } from './differential-mcp.ts'
import { type Answer, observe } from './differential-observation.ts'
import { opentoolRequest, readOpentool } from './differential-opentool.ts'
import { DIALECTS, otcRequest, readOtc } from './differential-otc.ts'
import { READINGS, type Read, type ReadingName } from './differential-reading.ts'
import { apiKeyOf, principalOf, type Stage } from './differential-stage.ts'

type Ask = (call: CallPlan, sessionId: string | undefined) => Promise<Answer | undefined>

/** One lane: a protocol or API that makes calls. */
export interface Way {
  readonly name: string
  readonly protocol: Protocol | 'in process'
  /** How the protocol reads a call; it is compared with the in-process lane that reads alike. */
  readonly reading: ReadingName
  /** Calls made by the principals of the lane `as`; `undefined` if the server does not have the lane. */
  ask(stage: Stage, batch: Batch, as: string): Ask | undefined
}

export const WAYS: readonly Way[] = [
  inProcess('as written'),
  inProcess('as OTC'),
  inProcess('as the execute drafts'),
  inProcess('as OpenTool'),
  inProcess('as MCP'),
  ...DIALECTS.map(overOtc),
  { name: 'opentool', protocol: 'opentool', reading: 'as OpenTool', ask: overOpentool },
  ...MCP_REVISIONS.map(overMcp),
  { name: 'createGateway', protocol: 'createGateway', reading: 'as written', ask: throughEmbedded },
]

function inProcess(reading: ReadingName): Way {
  const name = `in process, ${reading}`
  return {
    name,
    protocol: 'in process',
    reading,
    ask: (stage, batch, as) => askGateway(as, READINGS[reading], { stage, batch }),
  }
}

function askGateway(
  as: string,
  read: Read,
  { stage, batch }: { readonly stage: Stage; readonly batch: Batch },
): Ask {
  return async (call, sessionId) => {
    const asked = read(batch, call)
    if (asked.kind === 'refusal')
      return { observation: asked.observation, callId: undefined, runId: undefined }
    const { adapted } = asked
    const { callId, runId, outcome, replayed } = await stage.gateway.call(
      principalOf(batch, as, call.caller),
      {
        tool: asked.ref,
        input: asked.input,
        ...(adapted === undefined ? {} : { adapt: () => adapted }),
        key: asked.key,
        traceId: undefined,
        userId: call.userId,
        tokens: secretsOf(call.tokens),
        secrets: secretsOf(call.secrets),
        ...(call.runId === undefined ? {} : { runId: call.runId }),
        ...(sessionId === undefined ? {} : { sessionId }),
      },
    )
    const observation = {
      ...observe(outcome),
      callId: shownId(callId, call.key),
      ...(runId === undefined ? {} : { runId }),
    }
    return { observation, callId, runId, replayed }
  }
}

function overOtc(dialect: Dialect): Way {
  const reading = dialect === 'proto' || dialect === 'execute' ? 'as the execute drafts' : 'as OTC'
  return {
    name: dialect,
    protocol: 'otc',
    reading,
    ask:
      ({ url }, batch, as) =>
      async (call, sessionId) => {
        const tool = visibleTool(batch, call)
        const { headers, ...request } = otcRequest(dialect, call, { tool, sessionId })
        const answer = await send(url, { ...request, headers: { ...headers, ...bearer(as, call) } })
        return readOtc(dialect, call, answer)
      },
  }
}

function overOpentool({ url }: Stage, batch: Batch, as: string): Ask {
  return async (call, sessionId) => {
    const functionName = functionNameOf(batch, call)
    const { headers, ...request } = opentoolRequest(call, { functionName, sessionId })
    return readOpentool(call, await send(url, { ...request, headers: { ...headers, ...bearer(as, call) } }))
  }
}

/** Each caller has its own session in the revisions with sessions. */
function overMcp(revision: McpRevision): Way {
  return {
    name: `mcp ${revision}`,
    protocol: 'mcp',
    reading: 'as MCP',
    ask: ({ url }, batch, as) => {
      const sessions = new Map<number, Promise<string>>()
      return async (call, sessionId) => {
        const credential = bearer(as, call)
        const open = () => openMcpSession(url, revision, credential)
        const opened = revision === '2026-07-28' ? undefined : (sessions.get(call.caller) ?? open())
        if (opened !== undefined) sessions.set(call.caller, opened)
        const around = { functionName: functionNameOf(batch, call), sessionId, mcpSession: await opened }
        const { headers, ...request } = mcpRequest(revision, call, around)
        return readMcp(
          revision,
          call,
          await send(url, { ...request, headers: { ...headers, ...credential } }),
        )
      }
    },
  }
}

/** The public API for code, on its own store. It cannot name runs and sessions, so calls that do are skipped. */
function throughEmbedded({ embedded }: Stage, batch: Batch, as: string): Ask | undefined {
  if (embedded === undefined) return undefined
  const unasked = new Set<string>()
  return async (call) => {
    const { base, suffix, input = {}, key, userId, tokens, secrets, caller } = call
    const used = `${caller} ${key}`
    if (call.runId !== undefined || call.session !== undefined) unasked.add(used)
    if (key !== undefined && unasked.has(used)) return undefined
    if (call.runId !== undefined || call.session !== undefined) return undefined
    const options = {
      principal: principalOf(batch, as, caller),
      ...(key === undefined ? {} : { key }),
      ...(userId === undefined ? {} : { userId }),
      tokens,
      secrets,
    }
    try {
      const outcome = await embedded.call(base + suffix, input, options)
      return { observation: observe(outcome), callId: undefined, runId: undefined }
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      const { code, message, canRetry } = error
      const observation = { decision: 'granted', code, error: { message, canRetry } } as const
      return { observation, callId: undefined, runId: undefined }
    }
  }
}

/** The tool's own name; `Toolkit_Name` for a tool that does not exist. */
export function functionNameOf({ tools }: Batch, { base }: CallPlan): string {
  return tools.find((tool) => tool.base === base)?.functionName ?? base.replace('.', '_')
}

function bearer(as: string, { caller }: CallPlan): Record<string, string> {
  return { authorization: `Bearer ${apiKeyOf(as, caller)}` }
}

function secretsOf(given: Readonly<Record<string, string>>): ReadonlyMap<string, Secret> {
  return new Map(Object.entries(given).map(([id, text]) => [id, new Secret(text)]))
}
