import { isToolError, mayRepeat, storeFault, type ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { OutageLog } from '#kernel/base/logger'
import { ERROR_CODE_HEADER } from '#protocols/call-wire'
import { JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import { KeyedCounter } from '#stages/limits/limits'
import { type Answer, errorAnswer, resultAnswer } from './codec-message.ts'
import type { McpExchange, McpFeature, McpMethod, McpServices } from './exchange.ts'
import { EntryTables } from './features/entry-tables.ts'
import { loggingFeature } from './features/logging.ts'
import { completionFeature, promptFeature } from './features/prompts.ts'
import { ResourceSubscriptions } from './features/resource-subscriptions.ts'
import { resourceFeature } from './features/resources.ts'
import { SkillTables, skillFeature } from './features/skills.ts'
import { type Discovery, openDiscovery } from './features/tool-search.ts'
import { listMethod, withOwnItems } from './lists.ts'
import { ResultEnvelopes } from './reply.ts'
import { ReadResults } from './results/read-result.ts'
import { ListenStreams } from './streams.ts'
import { taskFeature } from './tasks/tasks.ts'
import { ToolCalls } from './tool-calls.ts'
import {
  ALL_REVISIONS,
  LEGACY_REVISIONS,
  type LegacyRevision,
  NEW_REVISION,
  type Revision,
  TRAITS,
} from './wire.ts'

/*
 * The table of methods by revision, and the capabilities that the server declares.
 * The transports look up a method and run it; `failed` converts a thrown error to an answer.
 * To add a group of methods (prompts, resources …), add one `McpFeature` to `features` in `openMethods`.
 */

export interface Methods {
  readonly services: McpServices
  readonly calls: ToolCalls
  readonly subscriptions: ResourceSubscriptions
  /** Open streams by principal, in all revisions. */
  readonly openStreams: KeyedCounter
  readonly byRevision: Readonly<Record<Revision, ReadonlyMap<string, McpMethod>>>
  /** The result of `initialize` (MCP-22). */
  initializeResult(protocolVersion: LegacyRevision): string
  /** Logs the error that a method threw, and returns the answer to the request. */
  failed(error: unknown, id: JsonRpcId, method: string): Answer
  close(): void
}

export function openMethods(services: McpServices): Methods {
  const openStreams = new KeyedCounter()
  const { options, log, clock } = services
  const outage = new OutageLog(log, clock)
  const envelopes = new ResultEnvelopes(options)
  const calls = new ToolCalls(services, envelopes)
  const results = new ReadResults(services, envelopes, calls.tables)
  const tasks = taskFeature(services, envelopes, calls)
  const tables = new EntryTables()
  const parts = { calls, tables, skills: new SkillTables(tables), results }
  const subscriptions = new ResourceSubscriptions(services, parts)
  const listens = new ListenStreams(services, openStreams, [tasks.topic, subscriptions.topic])
  const finding = openDiscovery(services, envelopes, {
    tables: calls.tables,
    call: callMethod(calls, results),
  })
  const tools: McpFeature = {
    capabilities: { tools: { listChanged: true } },
    methods: [
      ['tools/list', ALL_REVISIONS, toolListMethod(services, envelopes, { finding, results })],
      ['tools/call', ALL_REVISIONS, finding.call],
    ],
  }
  const base: McpFeature = {
    capabilities: {},
    methods: [
      ['ping', LEGACY_REVISIONS, (_params, { id }) => resultAnswer(id, '{}')],
      ['server/discover', [NEW_REVISION], (_params, { id }) => resultAnswer(id, discovered)],
      ['subscriptions/listen', [NEW_REVISION], (params, exchange) => listens.listen(params, exchange)],
    ],
  }
  const features = [
    base,
    tools,
    promptFeature(services, envelopes, parts),
    resourceFeature(services, envelopes, parts),
    subscriptions.feature,
    completionFeature(services, envelopes, parts),
    loggingFeature(),
    skillFeature(services, envelopes, parts),
    tasks.feature,
  ]
  const capabilitiesOf = (revision: Revision): JsonObject => {
    const declared = features.flatMap((feature) => [
      feature.capabilities,
      feature.capabilitiesOf?.(revision) ?? {},
    ])
    const extensions = Object.assign({}, ...declared.map((capabilities) => capabilities.extensions))
    return Object.assign({}, ...declared, { extensions })
  }
  const instructions = options.instructions === undefined ? {} : { instructions: options.instructions }
  // The same for every caller, so shared caches may keep it (MCP-33).
  const discovery = {
    ...{ supportedVersions: [NEW_REVISION], capabilities: capabilitiesOf(NEW_REVISION) },
    ...instructions,
  }
  const discovered = envelopes
    .of(NEW_REVISION)
    .complete(JSON.stringify({ ...discovery, ttlMs: 60_000, cacheScope: 'public' }).slice(1, -1))
  const tableOf = (revision: Revision): ReadonlyMap<string, McpMethod> =>
    new Map(
      features.flatMap(({ methods }) =>
        methods.flatMap(([name, revisions, run]) => (revisions.includes(revision) ? [[name, run]] : [])),
      ),
    )
  return {
    services,
    calls,
    subscriptions,
    openStreams,
    byRevision: {
      '2025-06-18': tableOf('2025-06-18'),
      '2025-11-25': tableOf('2025-11-25'),
      [NEW_REVISION]: tableOf(NEW_REVISION),
    },
    initializeResult: (protocolVersion) =>
      JSON.stringify({
        ...{ protocolVersion, capabilities: capabilitiesOf(protocolVersion) },
        serverInfo: envelopes.serverInfo,
        ...instructions,
      }),
    failed(err, id, method) {
      const known = isToolError(err) ? err : storeFault(err)
      if (known !== undefined) {
        if (known !== err) outage.report({ err, method }, 'the store failed in an MCP method')
        return laterAnswer(id, known)
      }
      log.error({ err, method }, 'an MCP method failed')
      const message =
        'The server had an unexpected error. A call that was sent with a key can be repeated with that key.'
      return errorAnswer(id, { code: JSON_RPC_CODES.internal, message }, { status: 500 })
    },
    close() {
      listens.close()
      subscriptions.close()
    },
  }
}

/** Clients that show app pages also get the tools that only such pages may call (MCP-147). */
function toolListMethod(
  services: McpServices,
  envelopes: ResultEnvelopes,
  { finding, results }: { readonly finding: Discovery; readonly results: ReadResults },
): McpMethod {
  const listOf = (showsApps: boolean) =>
    listMethod(services, envelopes, {
      member: 'tools',
      itemsOf: (catalog, revision) =>
        withOwnItems(finding.listed(catalog, revision, showsApps), results.listedTool(catalog, revision)),
    })
  const [forModels, withApps] = [listOf(false), listOf(true)]
  return (params, exchange) => (exchange.capabilities.apps ? withApps : forModels)(params, exchange)
}

/** Reading a result is not a tool call, so it is handled separately (MCP-182). */
function callMethod(calls: ToolCalls, results: ReadResults): McpMethod {
  return (params, exchange) =>
    results.isRead(params, exchange) ? results.call(params, exchange) : calls.handle(params, exchange)
}

/** The answer to a method that the revision does not have (MCP row 13). */
export function unknownMethod({ id, revision }: McpExchange): Answer {
  const error = { code: JSON_RPC_CODES.unknownMethod, message: 'Method not found' }
  return errorAnswer(id, error, { status: TRAITS[revision].unknownMethodStatus })
}

/** Refuses a request with a status. `retry-after` is set only if nothing was done, so repeating is safe (MCP-20). */
function laterAnswer(id: JsonRpcId, error: ToolError): Answer {
  const { code, message, retryAfterMs = 1_000 } = error
  const status = code === 'rate_limited' ? 429 : 503
  const headers = {
    ...(mayRepeat(error) ? { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) } : {}),
    [ERROR_CODE_HEADER]: code,
  }
  return errorAnswer(id, { code: status, message, data: { code } }, { status, headers })
}
