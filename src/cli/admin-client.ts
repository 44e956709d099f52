import { readFile } from 'node:fs/promises'
import { ConfigError } from '#config/load'
import { startTokenFileIn, tlsFiles } from '#config/to-settings'
import { isToolError } from '#core/errors'
import { cleanText, isJsonObject, type JsonObject, type JsonValue, parseJson } from '#core/json'
import type { Denial, DenialFacts } from '#core/ports/key-store'
import type { Store } from '#core/ports/store'
import { opaquePrincipal } from '#core/principal'
import {
  ACTING_AS,
  type AdminRequest,
  callInProcess,
  createLocalAccess,
  type OperatorAccess,
} from '#server/admin/access'
import type { ServerRoute } from '#server/http/router'
import { READ_LIMIT_MS } from '#server/reload'
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
import { chosenStore, isStoreAlone, loadProjectConfig, STORE_OPTIONS, withStore } from './store-access.ts'

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
    const answer =
      asksServer || onStore === undefined
        ? await this.#askServer(request)
        : await this.#askStore(request, onStore)
    if (hasMember<Answer>(answer, member)) return answer
    throw new CommandFailure(
      EXIT.server,
      `The server's answer has no "${member}". Is it a Collet server of this version?`,
    )
  }

  /** A user who can open the store with its key may do everything in it, under their name on this machine. */
  async #askStore(
    request: AdminRequest,
    onStore: NonNullable<AdminClientOptions['onStore']>,
  ): Promise<JsonValue> {
    const { clock } = this.#context
    const operator = operatorName(this.#context)
    if (changes(request)) this.#noteActing(`${operator} (the store itself)`)
    try {
      return await withStore(this.#args, this.#context, async (store) => {
        const denials: Denial[] = []
        const noteDenial: OpenedStore['noteDenial'] = (who, facts) => {
          const principal = opaquePrincipal(store, who)
          denials.push({ ...facts, atMs: clock.nowMs(), tenant: who.tenant, principal, count: 1 })
        }
        const access = createLocalAccess(operator)
        try {
          return await callInProcess(await onStore({ store, access, noteDenial }), request)
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
    const { url, certificate } = await serverOf(this.#args, this.#context)
    const { credential, from } = await this.#credentialFor(url)
    const send = certificate === undefined ? services.fetch : services.fetchKnown(certificate)
    const onActing = (principal: string): void => {
      if (changes(request)) this.#noteActing(`${cleanText(principal)} (${from})`)
    }
    const sent = {
      method,
      ...(body === undefined ? {} : { body }),
      url: `${url}${path}`,
      credential,
      onActing,
    }
    return await requestJson(sent, send)
  }

  async #credentialFor(url: string): Promise<OperatorCredential> {
    if (this.#options.onlyStartToken !== true) return await operatorCredential(url, this.#args, this.#context)
    const token = await readStartToken(url, this.#args, this.#context)
    if (token !== undefined) return { credential: token, from: 'start token' }
    throw new CommandFailure(
      EXIT.usage,
      `There is no start token of ${url} here. Run this in the folder of the server's config, or name it with --config; --url names the server if it is not the default. Is it running?`,
    )
  }

  /** Once, also where one command changes several things. */
  #noteActing(who: string): void {
    if (this.#acting === who) return
    this.#acting = who
    this.#context.output.note(`as ${who}`)
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

/** A server that listens everywhere listens here too. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::', 'localhost', '::1'])

interface AskedServer {
  readonly url: string
  /** The one it shows, where the config says so: on this machine nobody asks for it by the name that is in it. */
  readonly certificate?: string
}

/** `--url` or `COLLET_URL`; else the server that the config is of. */
export async function serverOf(
  args: Arguments<'url' | 'key' | 'store' | 'config'>,
  context: CommandContext,
): Promise<AskedServer> {
  const { url } = readServerAddress(args, context)
  const isNamed = args.text('url') !== undefined || context.environment.url !== undefined
  if (isStoreAlone(args) || (isNamed && !isOwnHttps(url))) return { url }
  const config = args.text('config')
  try {
    const { config: loaded, folder } = await loadProjectConfig(config, context)
    const { host, port } = loaded.server
    const { tls } = tlsFiles(loaded.server.tls, folder)
    const known = tls === undefined ? {} : { certificate: await readCertificate(tls.cert) }
    if (isNamed || port === 0) return { url, ...known }
    const scheme = tls === undefined ? 'http' : 'https'
    return { url: `${scheme}://${ANY_HOST.has(host) ? '127.0.0.1' : host}:${port}`, ...known }
  } catch (error) {
    if (error instanceof ConfigError && config === undefined) return { url }
    throw error
  }
}

async function readCertificate(file: string): Promise<string> {
  try {
    return await readFile(file, 'latin1')
  } catch (cause) {
    const why = cause instanceof Error && 'code' in cause ? READ_PROBLEMS.get(cause.code) : undefined
    throw new CommandFailure(
      EXIT.usage,
      `server.tls.cert: ${file} ${why ?? 'cannot be read'}. The server of this config is known by it. Run this as a user who may read it, or ask the server by the name in its certificate: --url https://…`,
      { cause },
    )
  }
}

const READ_PROBLEMS: ReadonlyMap<unknown, string> = new Map([
  ['ENOENT', 'does not exist'],
  ['EACCES', 'may not be read by this user'],
  ['EISDIR', 'is a folder'],
])

function isOwnHttps(text: string): boolean {
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' && isLoopback(hostname)
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
  url: string,
  args: Arguments<AdminOption>,
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
    `${url} needs a credential: --key, COLLET_API_KEY, or the start token of a server on this machine (name its --config or --store, and its --url if it is not the default).`,
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
    const isAbsent = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    // There is no config here. One with mistakes is another matter: they are what keeps the token from being found.
    const isElsewhere = error instanceof ConfigError && error.problems.every(({ file }) => file === undefined)
    const isUnnamed = args.text('store') === undefined && args.text('config') === undefined
    if (isAbsent || (isElsewhere && isUnnamed)) return undefined
    throw error
  }
}

/** Where a server of a config that says nothing listens. */
export const DEFAULT_URL = 'http://127.0.0.1:4100'

/** The options of client commands: which server, and as whom. */
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

/** How long the CLI waits for an answer to one of its own requests: a little longer than a server waits for its config, so that it hears the reason. */
const PATIENCE_MS = READ_LIMIT_MS + 5_000

interface JsonRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: string
  readonly credential: string | undefined
  readonly body?: JsonObject
  /** Hears as whom the server let us in, whatever it then answers. */
  readonly onActing?: (principal: string) => void
}

/** Sends one request of our own and gives its JSON object; refusals become failures with the server's words. */
export async function requestJson(request: JsonRequest, send: typeof fetch): Promise<JsonObject> {
  const { method, url, credential, body, onActing } = request
  const { origin } = new URL(url)
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
    const advice = connectionAdvice(cause) ?? 'Is the server running?'
    throw new CommandFailure(EXIT.server, `No answer from ${origin}. ${advice}`, { cause })
  })
  const acting = response.headers.get(ACTING_AS)
  if (acting !== null) onActing?.(decodeURIComponent(acting))
  const answer = parseJson(await response.text())
  if (response.ok && isJsonObject(answer)) return answer
  const said = isJsonObject(answer) && typeof answer.message === 'string' ? answer.message : undefined
  throw new CommandFailure(
    exitOf(response.status),
    said ?? `${origin} answered ${response.status}. Is it a Collet server?`,
  )
}

const UNKNOWN_AUTHORITY =
  'Its certificate is of an authority that Node does not know. Name the file of that authority: NODE_EXTRA_CA_CERTS=ca.pem collet …'
const NO_TLS = 'It does not speak https on that port; write http:// if it should not.'

const CONNECTION_ADVICE: ReadonlyMap<unknown, string> = new Map([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', UNKNOWN_AUTHORITY],
  ['SELF_SIGNED_CERT_IN_CHAIN', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNKNOWN_AUTHORITY],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'Its certificate is for another name. Use that name in --url.'],
  ['CERT_HAS_EXPIRED', 'Its certificate has ended. Renew it on the server: collet doctor.'],
  ['CERT_NOT_YET_VALID', 'Its certificate is not good yet. Check the clocks of both machines.'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', NO_TLS],
  ['ERR_SSL_PACKET_LENGTH_TOO_LONG', NO_TLS],
  [
    'UND_ERR_SOCKET',
    'The connection was closed without an answer. If the server speaks https, write https:// in --url.',
  ],
])

/** What to do about a connection that failed, as far as its reason tells. */
export function connectionAdvice(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const found = 'code' in error ? CONNECTION_ADVICE.get(error.code) : undefined
  return found ?? connectionAdvice(error.cause)
}

/** What was asked for is wrong (2), or the server does not let us or cannot (3). */
function exitOf(status: number): ExitCode {
  return status === 400 || status === 404 || status === 422 ? EXIT.usage : EXIT.server
}
