import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { decodeMasterKey } from '#config/environment'
import { ConfigError } from '#config/load'
import { locateStore, type StoreLocation, startTokenFileIn } from '#config/to-settings'
import { cleanText, isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { Store } from '#core/ports/store'
import { ACTING_AS } from '#server/admin/access'
import { isLoopback } from '#server/safety'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  EXIT,
  type ExitCode,
  type OptionSpecs,
  UsageError,
} from './command.ts'
import type { StoreAccess } from './main.ts'
import { loadProjectConfig } from './project.ts'

/** A server that listens everywhere listens here too. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::', 'localhost', '::1'])

type OperatorOption = 'url' | 'key' | 'store' | 'config'

/** Whether a command that could work on the store asks a server instead: one was named, or who to be there. */
export function asksServer(args: Arguments<'url' | 'key'>): boolean {
  return args.text('url') !== undefined || args.text('key') !== undefined
}

/** One request to a server's routes for operators. What changes something says on stderr as whom it was done. */
export async function askAsOperator(
  request: Pick<JsonRequest, 'method' | 'body'> & { readonly path: string },
  args: Arguments<OperatorOption>,
  context: CommandContext,
): Promise<JsonObject> {
  const { path, ...rest } = request
  const url = await serverOf(args, context)
  const { credential, from } = await operatorCredential(url, args, context)
  const onActing = (principal: string): void => tellActing(`${cleanText(principal)} (${from})`, context)
  return await requestJson(
    { ...rest, url: `${url}${path}`, credential, ...(rest.method === 'GET' ? {} : { onActing }) },
    context.services.fetch,
  )
}

/** `--url` or `COLLET_URL`; else the server that the config is of. */
async function serverOf(args: Arguments<OperatorOption>, context: CommandContext): Promise<string> {
  const { url } = readServerAddress(args, context)
  const isNamed = args.text('url') !== undefined || context.environment.url !== undefined
  const config = args.text('config')
  if (isNamed || (args.text('store') !== undefined && config === undefined)) return url
  try {
    const { host, port } = (await loadProjectConfig(config, context)).config.server
    if (port === 0) return url
    return `http://${ANY_HOST.has(host) ? '127.0.0.1' : host}:${port}`
  } catch (error) {
    if (error instanceof ConfigError && config === undefined) return url
    throw error
  }
}

/** Whoever can open the store with its key may decide about everything in it, under the name it has on this machine. */
export function nameAtStore({ userName }: CommandContext): string {
  return `cli:${userName}`
}

/** The same for what changes something, said on stderr. */
export function actAtStore(context: CommandContext): string {
  const id = nameAtStore(context)
  tellActing(`${id} (the store itself)`, context)
  return id
}

function tellActing(who: string, { output }: CommandContext): void {
  output.note(`as ${who}`)
}

interface OperatorCredential {
  readonly credential: string
  /** Where it was found, in words. */
  readonly from: string
}

/**
 * What lets an operator decide about calls (rule 29). What somebody gave wins: `--key`, then `COLLET_API_KEY`; only
 * without either it is the start token of the server on this machine, which is sent nowhere else.
 */
async function operatorCredential(
  url: string,
  args: Arguments<OperatorOption>,
  context: CommandContext,
): Promise<OperatorCredential> {
  const key = args.text('key')
  if (key !== undefined) return { credential: key, from: '--key' }
  const variable = context.environment.apiKey?.reveal()
  if (variable !== undefined) return { credential: variable, from: 'COLLET_API_KEY' }
  const token = isLoopback(new URL(url).hostname) ? await readStartToken(url, args, context) : undefined
  if (token !== undefined) return { credential: token, from: 'start token' }
  throw new CommandFailure(
    EXIT.usage,
    `${url} needs a credential: --key, COLLET_API_KEY, or the start token of a server that runs here (name its --config or --store, and --url if it listens elsewhere).`,
  )
}

async function readStartToken(
  url: string,
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<string | undefined> {
  try {
    const { dataFolder } = await chosenStore(args, context)
    return (await readFile(startTokenFileIn(dataFolder, url), 'utf8')).trim() || undefined
  } catch (error) {
    const absent = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (
      absent ||
      (error instanceof ConfigError && args.text('store') === undefined && args.text('config') === undefined)
    ) {
      return undefined
    }
    throw error
  }
}

const DEFAULT_URL = 'http://127.0.0.1:4100'

/** How client commands are told which server, and as whom. */
export const SERVER_OPTIONS = {
  url: { value: 'U', help: `Server to talk to. Default: COLLET_URL, or ${DEFAULT_URL}.` },
  key: {
    value: 'K',
    help: 'API key. Default: COLLET_API_KEY, which other users of this machine cannot see.',
  },
} as const satisfies OptionSpecs

export interface ServerAddress {
  /** Without a trailing slash. */
  readonly url: string
  readonly apiKey: string | undefined
}

export function readServerAddress(
  args: Arguments<'url' | 'key'>,
  { environment }: CommandContext,
): ServerAddress {
  const text = args.text('url') ?? environment.url ?? DEFAULT_URL
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new UsageError(`--url expects an http or https address, for example ${DEFAULT_URL}; got "${text}".`)
  }
  return { url: url.href.replace(/\/+$/, ''), apiKey: args.text('key') ?? environment.apiKey?.reveal() }
}

/** How long the CLI waits for an answer to one of its own requests. */
const PATIENCE_MS = 30_000

export interface JsonRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: string
  readonly credential: string | undefined
  readonly body?: JsonObject
  /** Told as whom the server let us in, whatever it then answers. */
  readonly onActing?: (principal: string) => void
}

/** Sends one request of our own and gives its JSON object; refusals become failures with the server's words. */
export async function requestJson(request: JsonRequest, send: typeof fetch): Promise<JsonObject> {
  const { method, url, credential, body, onActing } = request
  const response = await send(url, {
    method,
    headers: {
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    // A redirect would carry the credential somewhere else.
    redirect: 'manual',
    signal: AbortSignal.timeout(PATIENCE_MS),
  }).catch((cause: unknown) => {
    throw new CommandFailure(EXIT.server, `No answer from ${new URL(url).origin}. Is the server running?`, {
      cause,
    })
  })
  const acting = response.headers.get(ACTING_AS)
  if (acting !== null) onActing?.(decodeURIComponent(acting))
  const answer = parse(await response.text())
  if (response.ok && isJsonObject(answer)) return answer
  throw refusal(response.status, answer, new URL(url).origin)
}

function refusal(status: number, answer: JsonValue | undefined, origin: string): CommandFailure {
  const said =
    isJsonObject(answer) && typeof answer.message === 'string' ? cleanText(answer.message) : undefined
  return new CommandFailure(exitOf(status), said ?? `${origin} answered ${status}. Is it a Collet server?`)
}

/** What was asked for is wrong (2), or the server does not let us or cannot (3). */
function exitOf(status: number): ExitCode {
  return status === 400 || status === 404 || status === 422 ? EXIT.usage : EXIT.server
}

function parse(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** How operators' commands are told which store; none of them needs a running server. */
export const STORE_OPTIONS = {
  store: { value: 'URL', help: 'sqlite:PATH. Default: the store of the config.' },
  config: {
    value: 'F',
    help: 'Config file. Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here.',
  },
} as const satisfies OptionSpecs

async function chosenStore(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<StoreLocation> {
  const named = args.text('store')
  if (named !== undefined) return locateStore(named, context.workingFolder, '--store')
  const { config, folder } = await loadProjectConfig(args.text('config'), context)
  return locateStore(config.store, folder, 'store')
}

/** Where the store is and how to read it; refuses what a command of its own process cannot see. */
export async function storeAccess(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<StoreAccess> {
  const { store, file, dataFolder } = await chosenStore(args, context)
  if (file === undefined) {
    throw problem('The store is in memory, which only the running server can see. Ask it with --url.')
  }
  // Opening would make an empty database, and an empty answer would look like a true one.
  if (!existsSync(file))
    throw problem(`There is no database at ${file}. Name the right one with --store or --config.`)
  return { url: store, dataFolder, masterKey: decodeMasterKey(context.environment.masterKey) }
}

/** Opens the chosen store for one piece of work, and closes it whatever happens. */
export async function withStore<T>(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const store = await context.services.openStore(await storeAccess(args, context))
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

function problem(message: string): ConfigError {
  return new ConfigError([{ severity: 'error', message }])
}
