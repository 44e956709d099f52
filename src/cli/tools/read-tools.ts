import type { AnswerOf, Operation } from '#admin-api/operation'
import { LIST_ALL_TOOLS, SEARCH_TOOLS, SHOW_TOOL, type ToolDetails } from '#admin-api/tools'
import { READ_USAGE } from '#admin-api/usage'
import {
  isServerNamed,
  operatorName,
  ownStartToken,
  type RequestParts,
  readAnswer,
  requestFor,
} from '#cli/admin-client'
import { type Arguments, type CommandContext, CommandFailure, EXIT } from '#cli/command'
import { messageOf } from '#cli/output'
import {
  callerKey,
  fetchFrom,
  findServer,
  isListening,
  requestJson,
  SERVER_OPTIONS,
  type ServerAddress,
} from '#cli/server-address'
import {
  chosenStore,
  hasStore,
  lacksConfig,
  loadSettings,
  type StoreArguments,
  withStore,
} from '#cli/store-access'
import type { RemoteTool } from '#client/index'
import { isToolError } from '#kernel/base/errors'
import { cleanText, type JsonValue } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { LiveRegistry } from '#kernel/tool/catalog'
import type { ListedRequirement, ListedTool, ToolListing } from '#kernel/tool/listing'
import { MAX_FOUND, openToolSearch } from '#search/tool-search'
import { createLocalAccess } from '#server/admin/access'
import { callInProcess } from '#server/admin/in-process-client'
import { createToolRoutes } from '#server/admin/tools'
import { createUsageRoutes } from '#server/admin/usage'
import { projectKnownTools } from '#server/known-tools'
import { obstacleIn, openCallerIn } from '#server/safety'
import { findScopeHolders } from '#server/scope-holders'
import { listSettings } from '#server/server-handle'
import type { Store } from '#store/collet-store'

/**
 * Reads the tools that `collet tools` and `toolsets` show: from the server that was named, from the one that runs for
 * this config, or from config and store in this process. Invariant: the answer has the same form in all three cases.
 */

/** Options that choose the server whose tools are listed. */
export const TOOL_OPTIONS = {
  ...SERVER_OPTIONS,
  url: {
    value: 'U',
    help: 'Ask this server. Default: COLLET_URL, or the running server of the config; without one, config and store are read.',
  },
} as const

/** These commands have no `--store`, so that argument is always absent and the store is the one in the config. */
type AskOption = keyof typeof TOOL_OPTIONS | 'store'

export class ToolReader {
  readonly #args: Arguments<AskOption>
  readonly #context: CommandContext
  readonly #server: Promise<ServerAddress | undefined>
  /** Sources whose tools are unknown without a server, because no server has read them yet. */
  unread: readonly string[] = []

  constructor(args: Arguments<keyof typeof TOOL_OPTIONS>, context: CommandContext) {
    this.#args = args
    this.#context = context
    this.#server = serverOf(this.#args, context)
  }

  /** Lists the tools. A server from another vendor has no admin routes, so it is asked over OTC. */
  async list(toolset: string | undefined): Promise<ToolListing> {
    let isCollet = false
    const onIdentity = (): void => {
      isCollet = true
    }
    try {
      return await this.#ask(LIST_ALL_TOOLS, { query: { toolset } }, onIdentity)
    } catch (error) {
      const server = await this.#server
      const isRefusal = error instanceof CommandFailure && error.exit === EXIT.usage
      if (server === undefined || isCollet || !isRefusal) throw error
      return await this.#listOverOtc(server, toolset)
    }
  }

  /** Tools that match a text, best match first. */
  search(text: string, toolset: string | undefined): Promise<AnswerOf<typeof SEARCH_TOOLS>> {
    return this.#ask(SEARCH_TOOLS, { query: { q: text, toolset, limit: String(MAX_FOUND) } })
  }

  async show(name: string, version: string | undefined): Promise<ToolDetails> {
    return (await this.#ask(SHOW_TOOL, { id: name, query: { version } })).tool
  }

  /** Number of calls of each tool since a time. */
  async calls(since: Date): Promise<ReadonlyMap<string, number>> {
    const { usage } = await this.#ask(READ_USAGE, { query: { since: since.toISOString() } })
    const byTool = Map.groupBy(usage, ({ tool }) => tool.split('@', 1)[0] ?? '')
    return new Map([...byTool].map(([tool, rows]) => [tool, rows.reduce((sum, row) => sum + row.calls, 0)]))
  }

  async #ask<Declared extends Operation>(
    operation: Declared,
    parts: RequestParts,
    onIdentity: (principal: string) => void = () => undefined,
  ): Promise<AnswerOf<Declared>> {
    const { services, output } = this.#context
    const { path } = requestFor(operation, parts)
    const server = await this.#server
    if (server === undefined) return readAnswer(operation, await this.#askHere(path))
    const credential =
      callerKey(this.#args, this.#context) ?? (await ownStartToken(server.url, this.#args, this.#context))
    const asking = requestJson({ method: 'GET', server, path, credential, onIdentity }, services)
    return readAnswer(operation, await output.during(`Asking ${server.url}`, asking))
  }

  async #listOverOtc(server: ServerAddress, toolset: string | undefined): Promise<ToolListing> {
    const { services } = this.#context
    const client = await services.connect(server.url, {
      apiKey: callerKey(this.#args, this.#context),
      toolset,
      fetch: fetchFrom(server, services),
    })
    return listingOf(await client.list())
  }

  /** Answers from the config and the store. If the store cannot be read, only its tools are missing. */
  async #askHere(path: string): Promise<JsonValue> {
    const [args, context] = [this.#args, this.#context]
    const { clock, output } = context
    const settings = await loadSettings(args.text('config'), {}, context)
    const access = createLocalAccess(operatorName(context))
    const answerFrom = async (store: Store | undefined): Promise<JsonValue> => {
      const known = await projectKnownTools(settings, store, clock)
      this.unread = known.unread
      const openCaller = await openCallerIn(settings, store?.keys)
      const registry = new LiveRegistry(known.tools, settings.toolkits, undefined, settings.toolsets)
      const routes = createToolRoutes(access, {
        registry,
        clock,
        store,
        search: openToolSearch({
          ...{ clock, log: SILENT_LOGGER },
          catalogFor: (principal) => registry.catalogFor(principal),
        }),
        listing: () => listSettings(settings),
        pins: known.pins,
        approvals: () => settings.approvals,
        budgets: () => settings.budgets,
        egressAllow: () => settings.egress.allow,
        obstacle: (provider, scopes) => obstacleIn(settings, provider, scopes),
        openCaller: () => openCaller,
        scopeHolders: () => findScopeHolders(settings.auth, store?.keys, clock.nowMs()),
      })
      const usage = { clock, costOf: () => undefined, budgets: () => settings.budgets }
      const counted = store === undefined ? [] : createUsageRoutes(access, { ...usage, store })
      return await callInProcess([...routes, ...counted], { method: 'GET', path })
    }
    // A store in memory is visible to its own process only.
    const isReadable = (await hasStore(args, context)) && (await chosenStore(args, context)).kind !== 'memory'
    if (!isReadable) return await answerFrom(undefined)
    return await withStore(args, context, answerFrom).catch((error: unknown) => {
      if (isToolError(error)) throw error
      const why = cleanText(messageOf(error))
      output.warn(`Tools of sources are not listed, because the store cannot be read: ${why}`)
      return answerFrom(undefined)
    })
  }
}

/** The server that was named, or the one that runs for this config. */
async function serverOf(
  args: Arguments<AskOption>,
  context: CommandContext,
): Promise<ServerAddress | undefined> {
  if (isServerNamed(args) || context.environment.url !== undefined) return await findServer(args, context)
  if (lacksConfig(args, context)) return undefined
  const server = await findServer(args, context)
  if ((await ownStartToken(server.url, args, context)) === undefined) return undefined
  return (await isListening(server.url, context.services)) ? server : undefined
}

/** The listing of a server from another vendor, which has no facts about sources, credentials and changes. */
function listingOf(found: readonly RemoteTool[]): ToolListing {
  const requirements: ListedRequirement[] = []
  const tools = found.map(({ id, name, description, requirements: needed, facts }): ListedTool => {
    const [base = '', version = ''] = id.split('@')
    const needs: readonly Pick<ListedRequirement, 'kind' | 'id' | 'scopes'>[] = [
      ...needed.authorization.map((each) => ({ kind: 'oauth' as const, id: each.id, scopes: each.scopes })),
      ...needed.secrets.map((each) => ({ kind: 'secret' as const, id: each.id, scopes: [] })),
      ...(needed.userId === false ? [] : [{ kind: 'user' as const, id: 'user id', scopes: [] }]),
    ]
    const indexes = needs.map((need) => requirements.push({ ...need, state: 'per_user' }) - 1)
    return {
      ...{ id: base, version, name, catalog_id: facts?.catalogId ?? '', description },
      ...{ source: base.split('.', 1)[0] ?? '', kind: facts?.source ?? '', tier: facts?.safetyTier ?? '' },
      egress: facts?.egress,
      approval: facts === undefined || facts.approval === 'never' ? undefined : facts.approval,
      needs: indexes.length === 0 ? undefined : indexes,
    }
  })
  return { tools, requirements, sources: {}, changes: {} }
}

/**
 * Why a caller does not see a tool that the operator sees; `undefined` if that is unknown, or the tool does not
 * exist.
 */
export async function hiddenReason(
  tool: string,
  server: ServerAddress,
  configArgs: Arguments<'config'>,
  context: CommandContext,
): Promise<string | undefined> {
  // In a command without `--store` that argument is always absent.
  const args: StoreArguments = configArgs
  const credential = await ownStartToken(server.url, args, context)
  if (credential === undefined) return undefined
  const { path } = requestFor(SHOW_TOOL, { id: tool })
  const asking = requestJson({ method: 'GET', server, path, credential }, context.services)
  const answer = await asking.then((found) => readAnswer(SHOW_TOOL, found)).catch(() => undefined)
  if (answer === undefined) return undefined
  const { base, policy, requirements } = answer.tool
  const lacking = requirements.find(({ kind, state }) => kind === 'scope' && state === 'missing')
  if (lacking !== undefined)
    return `${base} exists, but no caller has the scope ${lacking.id} that it requires. Create a key with this scope: ${lacking.connect.command}`
  return policy.scopes.length === 0
    ? `${base} exists, but this caller cannot see it: the tools, toolsets or tenant of its key leave it out.`
    : `${base} exists, but this caller cannot see it: it requires the scope ${policy.scopes.join(', ')}.`
}
