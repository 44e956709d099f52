import { readFile } from 'node:fs/promises'
import type { AnswerOf, Operation } from '#admin-api/operation'
import { ConfigError } from '#config/load'
import { pagesTokenFileIn, startTokenFileIn } from '#config/to-settings'
import { isToolError } from '#kernel/base/errors'
import { EventParser, type StreamEvent } from '#kernel/base/event-stream'
import { cleanText, type JsonObject, type JsonValue } from '#kernel/base/json'
import { opaquePrincipal, type Principal } from '#kernel/base/principal'
import type { Denial, DenialFacts } from '#kernel/journal/events'
import { createLocalAccess, type OperatorAccess } from '#server/admin/access'
import { type AdminRequest, callInProcess, streamInProcess } from '#server/admin/in-process-client'
import type { ServerRoute } from '#server/http/router'
import { isLoopback } from '#server/safety'
import type { Store } from '#store/collet-store'
import { type Arguments, type CommandContext, CommandFailure, EXIT, type OptionSpecs } from './command.ts'
import {
  fetchFrom,
  findServer,
  MAX_EVENT_LENGTH,
  requestEvents,
  requestJson,
  requestText,
  type ServerAddress,
  unreachable,
} from './server-address.ts'
import { chosenStore, STORE_OPTIONS, type StoreArguments, withStore } from './store-access.ts'

/**
 * The client of the admin API that operator commands share. It sends a request to a running server, or runs the same
 * routes in this process on an opened store, so a command is written once for both. Every command with `adminOptions`
 * uses it. Invariant: the start token goes only to a server on this machine, and a denial on the store is audited as a
 * server would audit it.
 */

/** Options that every command on the admin API has: the store, or a server with a credential. */
export type AdminOption = keyof ReturnType<typeof adminOptions>

export function adminOptions(scope: string) {
  return {
    ...STORE_OPTIONS,
    url: { value: 'U', help: 'Ask this server instead of the store; --key implies it.' },
    key: {
      value: 'K',
      help: `API key with the scope ${scope}. Default: COLLET_API_KEY, or the start token of a server on this machine.`,
    },
  } as const satisfies OptionSpecs
}

interface OpenedStore {
  readonly store: Store
  readonly access: OperatorAccess
  noteDenial(who: Pick<Principal, 'id' | 'tenant'>, facts: DenialFacts): void
}

interface AdminClientOptions {
  /** Routes on an opened store; absent for requests that only a running server can answer. */
  onStore?(opened: OpenedStore): readonly ServerRoute[] | Promise<readonly ServerRoute[]>
  /** Whether to ask a server. Default: whether `--url` or `--key` was given. */
  readonly asksServer?: boolean
  /** Only the start token is accepted, because the command is for the person at this machine. */
  readonly onlyStartToken?: true
}

export class AdminClient {
  readonly #args: Arguments<AdminOption>
  readonly #context: CommandContext
  readonly #options: AdminClientOptions
  #shownIdentity: string | undefined

  constructor(args: Arguments<AdminOption>, context: CommandContext, options: AdminClientOptions = {}) {
    this.#args = args
    this.#context = context
    this.#options = options
  }

  /** Sends one request, to a server or to the store, and checks the shape of its answer. */
  async ask<Declared extends Operation>(
    operation: Declared,
    parts: RequestParts = {},
  ): Promise<AnswerOf<Declared>> {
    const request = requestFor(operation, parts)
    return await this.#withAsk([request], async (ask) => readAnswer<Declared>(operation, await ask(request)))
  }

  /** Sends many requests on a store that is opened once. A refused request does not stop the others. */
  async askEach<Declared extends Operation>(
    operation: Declared,
    all: readonly RequestParts[],
    onEach: (answer: AnswerOf<Declared> | CommandFailure, index: number) => void,
  ): Promise<void> {
    const requests = all.map((parts) => requestFor(operation, parts))
    await this.#withAsk(requests, async (ask) => {
      for (const [index, request] of requests.entries())
        onEach(await orRefusal(async () => readAnswer<Declared>(operation, await ask(request))), index)
    })
  }

  /** Passes each event of a server's stream to `onEvent`, until `ended` is aborted or the stream ends. */
  async follow(
    operation: Operation,
    parts: RequestParts,
    ended: AbortSignal,
    onEvent: (event: StreamEvent) => void,
  ): Promise<void> {
    const request = requestFor(operation, parts)
    const routesOn = this.#routesOnStore
    if (routesOn === undefined) {
      const server = await findServer(this.#args, this.#context)
      const { credential } = await this.#credentialFor(server)
      const events = requestEvents({ ...request, server, credential }, this.#context.services, ended)
      for await (const event of events) onEvent(event)
      return
    }
    await this.#onStore(routesOn, async (routes) => {
      const parser = new EventParser(MAX_EVENT_LENGTH)
      for await (const piece of await streamInProcess(routes, request, ended))
        for (const event of parser.read(piece)) onEvent(event)
    })
  }

  /** Passes each piece of an export, which the journal records, to `onPiece`. Throws if the answer is incomplete. */
  async download(
    operation: Operation,
    parts: RequestParts,
    ended: AbortSignal,
    onPiece: (text: string) => Promise<void>,
  ): Promise<void> {
    const request = requestFor(operation, parts)
    const routesOn = this.#routesOnStore
    if (routesOn === undefined) {
      const server = await findServer(this.#args, this.#context)
      const { credential, from } = await this.#credentialFor(server)
      const onIdentity = (principal: string): void => this.#noteIdentity(`${cleanText(principal)} (${from})`)
      const pieces = requestText(
        { ...request, server, credential, onIdentity },
        this.#context.services,
        ended,
      )
      for await (const piece of pieces) await onPiece(piece)
      return
    }
    this.#noteIdentity(`${operatorName(this.#context)}, directly on the store`)
    await this.#onStore(routesOn, async (routes) => {
      for await (const piece of await streamInProcess(routes, request, ended)) await onPiece(piece)
    })
  }

  /** Creates the routes on the store; `undefined` if a server is asked instead. */
  get #routesOnStore(): AdminClientOptions['onStore'] {
    return (this.#options.asksServer ?? isServerNamed(this.#args)) ? undefined : this.#options.onStore
  }

  /** Opens the server or the store, and passes `work` a function that sends one of these requests. */
  async #withAsk<T>(
    requests: readonly AdminRequest[],
    work: (ask: (request: AdminRequest) => Promise<JsonValue>) => Promise<T>,
  ): Promise<T> {
    const routesOn = this.#routesOnStore
    if (routesOn === undefined) return await work((request) => this.#askServer(request))
    if (requests.some(isChange)) this.#noteIdentity(`${operatorName(this.#context)}, directly on the store`)
    return await this.#onStore(routesOn, (routes) => work((request) => callInProcess(routes, request)))
  }

  async #onStore<T>(
    routesOn: NonNullable<AdminClientOptions['onStore']>,
    work: (routes: readonly ServerRoute[]) => Promise<T>,
  ): Promise<T> {
    const { clock } = this.#context
    return await withStore(this.#args, this.#context, async (store) => {
      const denials: Denial[] = []
      const noteDenial: OpenedStore['noteDenial'] = (who, facts) => {
        const principal = opaquePrincipal(store, who)
        denials.push({ ...facts, atMs: clock.nowMs(), tenant: who.tenant, principal, count: 1 })
      }
      const access = createLocalAccess(operatorName(this.#context))
      try {
        return await work(await routesOn({ store, access, noteDenial }))
      } finally {
        if (denials.length > 0) await store.audit.recordDenials(denials)
      }
    })
  }

  /** Sends a request to the server. For a change, prints on stderr the identity under which the server accepted it. */
  async #askServer(request: AdminRequest): Promise<JsonObject> {
    const server = await findServer(this.#args, this.#context)
    const { credential, from } = await this.#credentialFor(server)
    const onIdentity = (principal: string): void => {
      if (isChange(request)) this.#noteIdentity(`${cleanText(principal)} (${from})`)
    }
    return await requestJson({ ...request, server, credential, onIdentity }, this.#context.services)
  }

  async #credentialFor(server: ServerAddress): Promise<OperatorCredential> {
    if (this.#options.onlyStartToken !== true)
      return await operatorCredential(server, this.#args, this.#context)
    const { url, from } = server
    const isOwn = (this.#args.text('url') ?? this.#context.environment.url) === undefined
    const read = isOwn ? readStartToken : ownStartToken
    const token = await read(url, this.#args, this.#context)
    if (token !== undefined) return { credential: token, from: 'start token' }
    throw new CommandFailure(
      EXIT.usage,
      `There is no start token for ${url} (${from}) here. Is the server running? Run this in the folder of its config, or name it with --config; use --url for another server.`,
    )
  }

  /** Prints the identity once, even if one command makes several changes. */
  #noteIdentity(who: string): void {
    if (this.#shownIdentity === who) return
    this.#shownIdentity = who
    this.#context.output.note(`Acting as ${who}`)
  }
}

/** The parts of a request that differ between requests for one operation. */
export interface RequestParts extends Pick<AdminRequest, 'body' | 'isReadOnly' | 'isJournaled'> {
  /** Value of the path parameter. */
  readonly id?: string
  readonly query?: Readonly<Record<string, string | number | undefined>>
}

export function requestFor(
  { method, path }: Operation,
  { id = '', query = {}, body, ...kind }: RequestParts,
): AdminRequest {
  const members = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  )
  const search = members.length === 0 ? '' : `?${new URLSearchParams(members)}`
  return {
    method,
    path: `${path.replace(/:\w+/, encodeURIComponent(id))}${search}`,
    ...kind,
    ...(method === 'POST' ? { body: body ?? {} } : {}),
  }
}

export function readAnswer<Declared extends Operation>(
  operation: Declared,
  answer: JsonValue,
): AnswerOf<Declared> {
  if (isAnswer(operation, answer)) return answer
  throw new CommandFailure(
    EXIT.server,
    `The answer to ${operation.method} ${operation.path} has an unexpected form. Is it a Collet server of the same version?`,
  )
}

function isAnswer<Declared extends Operation>(
  { answer: schema }: Declared,
  answer: unknown,
): answer is AnswerOf<Declared> {
  return schema?.().safeParse(answer).success === true
}

/** Returns the refusal from a route or a server; any other error ends the command. */
async function orRefusal<T>(work: () => Promise<T>): Promise<T | CommandFailure> {
  try {
    return await work()
  } catch (error) {
    if (isToolError(error)) return new CommandFailure(EXIT.usage, error.message)
    if (error instanceof CommandFailure && error.exit === EXIT.usage) return error
    throw error
  }
}

/** Whether the journal records the request under the operator's name. */
function isChange({ method, isReadOnly, isJournaled }: AdminRequest): boolean {
  return isJournaled === true || (method !== 'GET' && isReadOnly !== true)
}

/** The name under which changes directly on the store are journaled. */
export function operatorName({ userName }: CommandContext): string {
  return `cli:${userName}`
}

export function isServerNamed(args: Arguments<'url' | 'key'>): boolean {
  return args.text('url') !== undefined || args.text('key') !== undefined
}

interface OperatorCredential {
  readonly credential: string
  /** Where the credential was found: `--key`, `COLLET_API_KEY` or `start token`. Shown in messages. */
  readonly from: string
}

/**
 * The operator's credential (rule 29). `--key` comes first, then `COLLET_API_KEY`; without either it is the start
 * token of the server on this machine, which is sent nowhere else.
 */
async function operatorCredential(
  server: ServerAddress,
  args: Arguments<AdminOption>,
  context: CommandContext,
): Promise<OperatorCredential> {
  const key = args.text('key')
  if (key !== undefined) return { credential: key, from: '--key' }
  const variable = context.environment.apiKey?.reveal()
  if (variable !== undefined) return { credential: variable, from: 'COLLET_API_KEY' }
  const { url } = server
  const token = await ownStartToken(url, args, context)
  if (token !== undefined) return { credential: token, from: 'start token' }
  if (isLoopback(new URL(url).hostname)) await checkAnswers(server, context)
  throw new CommandFailure(
    EXIT.usage,
    `${url} (${server.from}) needs a credential: --key or COLLET_API_KEY. On the server's own machine, --config or --store finds its start token instead.`,
  )
}

/** A missing start token usually means that no server runs; if none answers, that is reported instead. */
async function checkAnswers(server: ServerAddress, { services }: CommandContext): Promise<void> {
  try {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS)
    await (await fetchFrom(server, services)(`${server.url}/health`, { signal })).body?.cancel()
  } catch (cause) {
    throw new CommandFailure(EXIT.server, unreachable(server, cause), { cause })
  }
}

const PROBE_TIMEOUT_MS = 2_000

/** The start token of a server on this machine; `undefined` for a server on another machine. */
export async function ownStartToken(
  url: string,
  args: StoreArguments,
  context: CommandContext,
): Promise<string | undefined> {
  return isLoopback(new URL(url).hostname) ? await readStartToken(url, args, context) : undefined
}

/** The start token of the server at an address, if the data folder of this store or config has one. */
async function readStartToken(
  url: string,
  args: StoreArguments,
  context: CommandContext,
): Promise<string | undefined> {
  try {
    const { dataFolder } = await chosenStore(args, context)
    const token = await readFile(startTokenFileIn(dataFolder, url), 'utf8').catch((error: unknown) => {
      if (isAbsentFile(error)) return readFile(pagesTokenFileIn(dataFolder, url), 'utf8')
      throw error
    })
    return token.trim() || undefined
  } catch (error) {
    // Without a config there is no token. Errors in a config are reported, because they keep the token from being found.
    const lacksConfig = error instanceof ConfigError && error.problems.every(({ file }) => file === undefined)
    const isUnnamed = args.text('store') === undefined && args.text('config') === undefined
    if (isAbsentFile(error) || (lacksConfig && isUnnamed)) return undefined
    throw error
  }
}

function isAbsentFile(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
