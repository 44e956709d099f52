import { resolve } from 'node:path'
import type { ToolInput, ToolName, ToolOutput } from '#client/typed'
import type { ColletConfig, ToolEntry } from '#config/config'
import { readEnvironment } from '#config/environment'
import { ConfigError, parseConfig } from '#config/load'
import { loadTools } from '#config/load-tools'
import type { Settings } from '#config/settings'
import { plannedUrl, toSettings } from '#config/to-settings'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { checkCallKey, checkRunId, parseToolName } from '#kernel/base/ids'
import { copyJson, defined, type JsonValue } from '#kernel/base/json'
import { ANONYMOUS, type Principal } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { type Failure, NO_SECRETS, type Success } from '#kernel/call/call'
import type { OpenedSession, SessionRequest } from '#kernel/call/stages'
import type { RunPage } from '#kernel/run/runs'
import type { Tool } from '#kernel/tool/tool'
import type { ReadRequest, ResultPart } from '#results/read'
import type { SearchResult } from '#search/tool-search'
import type { GatewayApprovals } from './gateway-approvals.ts'
import type { RunningServer } from './running-server.ts'

/*
 * `createGateway` and `serve`: start the gateway and the server from code. Users import both from `collet`.
 * Invariant: calls from code have the same records, keys and journal as calls over HTTP.
 */

export interface GatewayOptions {
  /** Base of relative paths in the config; default the working folder. */
  readonly folder?: string
}

export interface GatewayCallOptions {
  /** Idempotency key: a write with the same key never runs twice. */
  readonly key?: string
  readonly principal?: Principal
  readonly traceId?: string
  /** The run that the call belongs to. Default: a run of its own. */
  readonly runId?: string
  /** The session whose state is used, from `openSession`. */
  readonly sessionId?: string
  /** The user of the call. Tools trust it only from a principal with the scope `users:assert`. */
  readonly userId?: string
  /** Claims about that user. */
  readonly userInfo?: JsonValue
  /** Access tokens, by the id of the authorization requirement. */
  readonly tokens?: Readonly<Record<string, string>>
  /** Secrets, by secret id. */
  readonly secrets?: Readonly<Record<string, string>>
}

export interface ServeOptions extends GatewayOptions {
  /** Serve other machines although no credential is configured: every client that reaches the server can call every tool. */
  readonly allowAnonymous?: boolean
}

/** The outcome of a call with its parsed value; `valueJson` has the stored bytes. */
export type GatewayOutcome<Value = JsonValue> = ((Success & { readonly value: Value }) | Failure) & {
  readonly callId: string
  /** The outcome was recorded by an earlier call with the same key. */
  readonly replayed: boolean
}

interface GatewayReadOptions extends ReadRequest {
  readonly principal?: Principal
  /** Bytes of the value; default all. */
  readonly maxBytes?: number
}

/** Durable calls from the same process, without a server. */
export interface Gateway {
  tools(principal?: Principal): readonly Tool[]
  /** `tool` is any of the tool's names. Throws a `ToolError` if the name, the key or the input is malformed; everything else is an outcome. */
  call(tool: string, input: JsonValue, options?: GatewayCallOptions): Promise<GatewayOutcome>
  /** Reads a part of the recorded result of a call. Throws a `ToolError` if the principal has no such call or result. */
  readResult(callId: string, options?: GatewayReadOptions): Promise<ResultPart>
  /** Finds tools by words, best first. */
  search(
    text: string,
    options?: { readonly limit?: number; readonly principal?: Principal },
  ): Promise<SearchResult>
  /** Opens a session of a stateful tool. Throws a `ToolError` if it cannot be opened. */
  openSession(session: GatewaySessionOptions): Promise<OpenedSession>
  /** Resolves with `false` if the principal has no such session. */
  closeSession(sessionId: string, principal?: Principal): Promise<boolean>
  /** Events of a run after an event, without contents; `undefined` if the principal has no such run. */
  readRun(runId: string, options?: GatewayRunOptions): Promise<RunPage | undefined>
  /** Closes the run's sessions and refuses new calls in the run; resolves with `false` if the principal has no such run. */
  endRun(runId: string, principal?: Principal): Promise<boolean>
  /** Shows and decides waiting approvals, without HTTP. */
  readonly approvals: GatewayApprovals
  close(): Promise<void>
}

/** A gateway whose calls have the types of the tools that are written in its config. Other tools take and return JSON. */
export interface TypedGateway<Tools> extends Gateway {
  call<Name extends ToolName<Tools>>(
    tool: Name,
    input: ToolInput<Tools, Name>,
    options?: GatewayCallOptions,
  ): Promise<GatewayOutcome<ToolOutput<Tools, Name>>>
  call<Name extends string>(
    tool: Exclude<Name, ToolName<Tools>>,
    input: JsonValue,
    options?: GatewayCallOptions,
  ): Promise<GatewayOutcome>
}

export interface GatewaySessionOptions extends SessionRequest {
  readonly principal?: Principal
}

export interface GatewayRunOptions {
  readonly principal?: Principal
  /** Sequence number of the last event that you have; default none. */
  readonly after?: number
  /** How long to wait for a new event; default 0. */
  readonly waitMs?: number
  readonly signal?: AbortSignal
}

const GRACE_MS = 10_000

/** Calls tools with the same records, keys and journal as the server, from this process. */
export function createGateway<const Tools extends readonly ToolEntry[], Names extends string>(
  config: ColletConfig<Tools, Names>,
  options?: GatewayOptions,
): Promise<TypedGateway<Tools>>
export async function createGateway(config: ColletConfig, options: GatewayOptions = {}): Promise<Gateway> {
  // These modules are loaded on use, so that a file that only defines tools is quick to import.
  const [settings, { openServices }, { createLog }, { gatewayApprovals }] = await Promise.all([
    settingsOf(config, options),
    import('./services.ts'),
    import('#server/telemetry/log'),
    import('./gateway-approvals.ts'),
  ])
  const { gateway, search, close } = await openServices(settings, {
    clock: SYSTEM_CLOCK,
    log: createLog(settings.logLevel, undefined, settings.logStyle),
    publicUrl: () => plannedUrl(settings.server),
  })
  return {
    tools: (principal = ANONYMOUS) => gateway.catalogFor(principal).tools,
    async call(tool, input, call = {}) {
      const ref = parseToolName(tool)
      if (ref === undefined)
        throw fault(
          'request_invalid',
          `'${tool}' is not the name of a tool. Write Toolkit.Name, Toolkit.Name@x.y.z or another name of the tool.`,
        )
      const { outcome, callId, replayed } = await gateway.call(call.principal ?? ANONYMOUS, {
        tool: ref,
        input: readInput(input),
        key: call.key === undefined ? undefined : checkCallKey(call.key),
        traceId: call.traceId,
        ...(call.runId === undefined ? {} : { runId: checkRunId(call.runId) }),
        ...(call.sessionId === undefined ? {} : { sessionId: call.sessionId }),
        userId: call.userId,
        ...(call.userInfo === undefined ? {} : { userInfo: call.userInfo }),
        tokens: toSecrets(call.tokens),
        secrets: toSecrets(call.secrets),
      })
      const reply = { callId, replayed }
      return outcome.ok
        ? { ...outcome, ...reply, value: JSON.parse(outcome.valueJson) }
        : { ...outcome, ...reply }
    },
    async readResult(callId, { principal = ANONYMOUS, maxBytes, ...request } = {}) {
      const { readResult } = await import('#results/recorded')
      const size = maxBytes ?? Number.MAX_SAFE_INTEGER
      const address = { callId, root: 'value', request, maxBytes: size } as const
      return await readResult(gateway, principal, address)
    },
    search: (text, { limit, principal = ANONYMOUS } = {}) => search.find(principal, text, limit),
    async openSession({ principal = ANONYMOUS, ...request }) {
      if (request.runId !== undefined) checkRunId(request.runId)
      return await gateway.openSession(principal, request)
    },
    closeSession: (sessionId, principal = ANONYMOUS) => gateway.closeSession(principal, sessionId),
    readRun: (runId, { principal = ANONYMOUS, after = -1, waitMs = 0, signal } = {}) =>
      gateway.readRun(principal, { runId, after, waitMs, ...defined({ signal }) }),
    endRun: (runId, principal = ANONYMOUS) => gateway.endRun(principal, runId),
    approvals: gatewayApprovals(gateway.approvals),
    async close() {
      await gateway.drain(GRACE_MS)
      await close()
    },
  }
}

/** Starts the whole server from code, as `collet serve` does with a config file. */
export async function serve<const Tools extends readonly ToolEntry[], Names extends string>(
  config: ColletConfig<Tools, Names>,
  { allowAnonymous = false, ...options }: ServeOptions = {},
): Promise<RunningServer> {
  const { startServer } = await import('./start-server.ts')
  return await startServer(await settingsOf(config, options), { allowAnonymous })
}

export async function settingsOf(config: object, options: GatewayOptions): Promise<Settings> {
  const workingFolder = resolve(options.folder ?? '.')
  const file = resolve(workingFolder, 'collet.config')
  const loaded = { file, folder: workingFolder, config: parseConfig(config, file) }
  const { tools, problems } = await loadTools(loaded)
  if (problems.some(({ severity }) => severity === 'error')) throw new ConfigError(problems)
  return toSettings({ loaded, tools, flags: {}, environment: readEnvironment(), workingFolder })
}

const MAX_INPUT_VALUES = 1_000_000

/** Copies the input, so that the stored input is the checked input even if the caller changes its object. */
function readInput(input: unknown): JsonValue {
  const copied = copyJson(input, { maxValues: MAX_INPUT_VALUES })
  if (copied.ok) return copied.value
  const problem = input === undefined ? 'It is missing.' : copied.problem
  const where = copied.pointer === '' ? '' : ` at ${copied.pointer}`
  throw fault(
    'request_invalid',
    `The input is not JSON${where}: ${problem} Pass an object of parameters, \`{}\` for none.`,
  )
}

function toSecrets(values: Readonly<Record<string, string>> | undefined): ReadonlyMap<string, Secret> {
  if (values === undefined) return NO_SECRETS
  return new Map(Object.entries(values).map(([id, text]) => [id, new Secret(text)]))
}
