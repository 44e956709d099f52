import { readFile } from 'node:fs/promises'
import { EventParser, type StreamEvent } from '#client/event-stream'
import { ConfigError } from '#config/load'
import { pagesTokenFileIn, startTokenFileIn } from '#config/to-settings'
import { isToolError } from '#kernel/base/errors'
import { cleanText, type JsonObject, type JsonValue } from '#kernel/base/json'
import { opaquePrincipal } from '#kernel/base/principal'
import {
  type AdminRequest,
  callInProcess,
  createLocalAccess,
  type OperatorAccess,
  streamInProcess,
} from '#server/admin/access'
import type { ServerRoute } from '#server/http/router'
import { isLoopback } from '#server/safety'
import type { Denial, DenialFacts } from '#store/ports/key-store'
import type { Store } from '#store/ports/store'
import { type Arguments, type CommandContext, CommandFailure, EXIT, type OptionSpecs } from './command.ts'
import {
  fetchFrom,
  findServer,
  MAX_EVENT_LENGTH,
  requestEvents,
  requestJson,
  type ServerAddress,
  unreachable,
} from './server-address.ts'
import { chosenStore, STORE_OPTIONS, withStore } from './store-access.ts'

/** The options of every command that uses the routes for operators: which store, or which server and as whom. */
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

/** An opened store, as the routes for operators need it. */
interface OpenedStore {
  readonly store: Store
  readonly access: OperatorAccess
  /** Has a refusal written to the audit log of the store. */
  noteDenial(who: { readonly id: string; readonly tenant: string }, facts: DenialFacts): void
}

interface AdminClientOptions {
  /** The routes on an opened store; absent for what only a running server can do. */
  onStore?(opened: OpenedStore): readonly ServerRoute[] | Promise<readonly ServerRoute[]>
  /** Whether a server is asked. Default: one was named, or who to be there. */
  readonly asksServer?: boolean
  /** It is for the person at this machine: no key will do. */
  readonly onlyStartToken?: true
}

/** The routes for operators: those of a server, or the same ones in this process on the store itself. */
export class AdminClient {
  readonly #args: Arguments<AdminOption>
  readonly #context: CommandContext
  readonly #options: AdminClientOptions
  #acting: string | undefined

  constructor(args: Arguments<AdminOption>, context: CommandContext, options: AdminClientOptions = {}) {
    this.#args = args
    this.#context = context
    this.#options = options
  }

  /** The answer to one request, known by the member that every answer of its kind has. */
  async request<Answer extends object>(
    request: AdminRequest,
    member: keyof Answer & string,
  ): Promise<Answer> {
    const { onStore, asksServer = isServerNamed(this.#args) } = this.#options
    return readAnswer(
      asksServer || onStore === undefined
        ? await this.#askServer(request)
        : await this.#askStore(request, onStore),
      member,
    )
  }

  /** Many requests of one kind, on a store that is opened once. What is refused of them keeps the others from nothing. */
  async requestEach<Answer extends object>(
    requests: readonly AdminRequest[],
    member: keyof Answer & string,
    onEach: (answer: Answer | CommandFailure, index: number) => void,
  ): Promise<void> {
    const { onStore, asksServer = isServerNamed(this.#args) } = this.#options
    const askAll = async (ask: (request: AdminRequest) => Promise<JsonValue>): Promise<void> => {
      for (const [index, request] of requests.entries())
        onEach(await orRefusal(async () => readAnswer<Answer>(await ask(request), member)), index)
    }
    if (asksServer || onStore === undefined) {
      await askAll((request) => this.#askServer(request))
      return
    }
    this.#noteChanges(requests)
    await this.#onStore(onStore, (routes) => askAll((request) => callInProcess(routes, request)))
  }

  /** The events of a stream, as a server sends them, until `ended` is aborted or there are no more. */
  async follow(path: string, ended: AbortSignal, onEvent: (event: StreamEvent) => void): Promise<void> {
    const { onStore, asksServer = isServerNamed(this.#args) } = this.#options
    const request: AdminRequest = { method: 'GET', path }
    if (asksServer || onStore === undefined) {
      const server = await findServer(this.#args, this.#context)
      const { credential } = await this.#credentialFor(server)
      const sent = { ...request, server, credential }
      for await (const event of requestEvents(sent, this.#context.services, ended)) onEvent(event)
      return
    }
    await this.#onStore(onStore, async (routes) => {
      const parser = new EventParser(MAX_EVENT_LENGTH)
      for await (const piece of await streamInProcess(routes, request, ended))
        for (const event of parser.read(piece)) onEvent(event)
    })
  }

  /** A user who can open the store with its key may do everything in it, under their name on this machine. */
  async #askStore(
    request: AdminRequest,
    onStore: NonNullable<AdminClientOptions['onStore']>,
  ): Promise<JsonValue> {
    this.#noteChanges([request])
    return await this.#onStore(onStore, (routes) => callInProcess(routes, request))
  }

  #noteChanges(requests: readonly AdminRequest[]): void {
    if (requests.some(changes)) this.#noteActing(`${operatorName(this.#context)} (the store itself)`)
  }

  async #onStore<T>(
    onStore: NonNullable<AdminClientOptions['onStore']>,
    work: (routes: readonly ServerRoute[]) => Promise<T>,
  ): Promise<T> {
    const { clock } = this.#context
    try {
      return await withStore(this.#args, this.#context, async (store) => {
        const denials: Denial[] = []
        const noteDenial: OpenedStore['noteDenial'] = (who, facts) => {
          const principal = opaquePrincipal(store, who)
          denials.push({ ...facts, atMs: clock.nowMs(), tenant: who.tenant, principal, count: 1 })
        }
        const access = createLocalAccess(operatorName(this.#context))
        try {
          return await work(await onStore({ store, access, noteDenial }))
        } finally {
          if (denials.length > 0) await store.audit.recordDenials(denials)
        }
      })
    } catch (error) {
      if (isToolError(error)) throw new CommandFailure(EXIT.usage, error.message)
      throw error
    }
  }

  /** What changes something says on stderr as whom it was done. */
  async #askServer(request: AdminRequest): Promise<JsonObject> {
    const { path, method, body } = request
    const { services } = this.#context
    const server = await findServer(this.#args, this.#context)
    const { credential, from } = await this.#credentialFor(server)
    const onActing = (principal: string): void => {
      if (changes(request)) this.#noteActing(`${cleanText(principal)} (${from})`)
    }
    const sent = { method, ...(body === undefined ? {} : { body }), server, path, credential, onActing }
    return await requestJson(sent, services)
  }

  async #credentialFor(server: ServerAddress): Promise<OperatorCredential> {
    if (this.#options.onlyStartToken !== true)
      return await operatorCredential(server, this.#args, this.#context)
    const { url, from } = server
    const token = await readStartToken(url, this.#args, this.#context)
    if (token !== undefined) return { credential: token, from: 'start token' }
    throw new CommandFailure(
      EXIT.usage,
      `There is no start token of ${url} (${from}) here. Is the server running? Run this in the folder of its config, or name it with --config; --url names the server if it is another.`,
    )
  }

  /** Once, also where one command changes several things. */
  #noteActing(who: string): void {
    if (this.#acting === who) return
    this.#acting = who
    this.#context.output.note(`as ${who}`)
  }
}

function readAnswer<Answer extends object>(answer: JsonValue, member: keyof Answer & string): Answer {
  if (hasMember<Answer>(answer, member)) return answer
  throw new CommandFailure(
    EXIT.server,
    `The server's answer has no "${member}". Is it a Collet server of this version?`,
  )
}

/** What a route or a server refuses; whatever else goes wrong ends the command. */
async function orRefusal<T>(work: () => Promise<T>): Promise<T | CommandFailure> {
  try {
    return await work()
  } catch (error) {
    if (isToolError(error)) return new CommandFailure(EXIT.usage, error.message)
    if (error instanceof CommandFailure && error.exit === EXIT.usage) return error
    throw error
  }
}

/** Whether somebody may later read who did it. */
function changes({ method, isQuestion, isJournaled }: AdminRequest): boolean {
  return isJournaled === true || (method !== 'GET' && isQuestion !== true)
}

/** The name under which changes made on the store itself are journaled. */
export function operatorName({ userName }: CommandContext): string {
  return `cli:${userName}`
}

export function isServerNamed(args: Arguments<'url' | 'key'>): boolean {
  return args.text('url') !== undefined || args.text('key') !== undefined
}

/** Our own answers are not checked member by member: a missing member shows a server of another version. */
function hasMember<Answer extends object>(answer: unknown, member: string): answer is Answer {
  return typeof answer === 'object' && answer !== null && Object.hasOwn(answer, member)
}

interface OperatorCredential {
  readonly credential: string
  /** Where it was found, in words. */
  readonly from: string
}

/**
 * What lets an operator in (rule 29). A credential that was given wins: `--key`, then `COLLET_API_KEY`; only without
 * either it is the start token of the server on this machine, which is sent nowhere else.
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
  const isHere = isLoopback(new URL(url).hostname)
  const token = isHere ? await readStartToken(url, args, context) : undefined
  if (token !== undefined) return { credential: token, from: 'start token' }
  if (isHere) await checkAnswers(server, context)
  throw new CommandFailure(
    EXIT.usage,
    `${url} (${server.from}) needs a credential: --key or COLLET_API_KEY; on its own machine its start token, which is found with its --config or --store.`,
  )
}

/** Without a start token there is probably no server, and that is what to say then. */
async function checkAnswers(server: ServerAddress, { services }: CommandContext): Promise<void> {
  try {
    const signal = AbortSignal.timeout(MAX_LOOK_MS)
    await (await fetchFrom(server, services)(`${server.url}/health`, { signal })).body?.cancel()
  } catch (cause) {
    throw new CommandFailure(EXIT.server, unreachable(server, cause), { cause })
  }
}

const MAX_LOOK_MS = 2_000

/** The start token of the server at an address, if it keeps one in the data folder of this store or config. */
export async function readStartToken(
  url: string,
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<string | undefined> {
  try {
    const { dataFolder } = await chosenStore(args, context)
    const pages = () => readFile(pagesTokenFileIn(dataFolder, url), 'utf8')
    const token = await readFile(startTokenFileIn(dataFolder, url), 'utf8').catch((error: unknown) => {
      if (isAbsentFile(error)) return pages()
      throw error
    })
    return token.trim() || undefined
  } catch (error) {
    const isAbsent = isAbsentFile(error)
    // There is no config here. One with mistakes is another matter: they are what keeps the token from being found.
    const isElsewhere = error instanceof ConfigError && error.problems.every(({ file }) => file === undefined)
    const isUnnamed = args.text('store') === undefined && args.text('config') === undefined
    if (isAbsent || (isElsewhere && isUnnamed)) return undefined
    throw error
  }
}

function isAbsentFile(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
