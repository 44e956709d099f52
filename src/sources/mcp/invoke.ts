import { hash } from 'node:crypto'
import { fault, isToolError } from '#kernel/base/errors'
import type { JsonArray, JsonObject, JsonValue } from '#kernel/base/json'
import { untilAborted } from '#kernel/base/waiting'
import { ShownValue, type ToolContext } from '#kernel/tool/tool'
import { suspensionBy } from '#sources/kit/pin-view'
import type { Discovery, Invocation, OfferedTool } from '#sources/kit/source'
import { callTool } from './call-tool.ts'
import { type CallScope, type Connection, isWireArray, isWireObject, textOf } from './connection.ts'
import { listTools, readListing } from './discover.ts'
import { isOutdated, reasonOf, StaleConnection, toCallError, unreachable } from './errors.ts'
import type { McpOptions } from './options.ts'
import type { Lease } from './pool.ts'
import { type HeaderParam, headersFor } from './read-tool.ts'
import { type Endpoint, isAt, type Upstream } from './upstream.ts'

/** Rule 27: ours to derive, harmless to those who do not know it. */
const KEY_MEMBER = 'collet/idempotencyKey'

interface InvokeSetting {
  readonly key: string
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly upstream: Upstream
}

/** One call, over the connection of its caller; over a new one when the upstream refused that. */
export async function invoke(
  setting: InvokeSetting,
  invocation: Invocation,
): Promise<JsonValue | ShownValue> {
  const { binding, context } = invocation
  if (!isAt(binding, setting.endpoint))
    throw unreachable({
      developerMessage:
        'The address of the source has changed since this definition was accepted: accept the change (collet pins).',
    })
  const credentials = readCredentials(binding, context)
  const over = new AbortController()
  const scope: CallScope = {
    context,
    credentials: credentials.headers,
    over: over.signal,
    retryAfterMs: undefined,
  }
  try {
    const result = await attempt(setting, invocation, { scope, credentials })
    return readOutput(result, binding.isStructured === true)
  } finally {
    over.abort(OVER)
  }
}

/** One for all calls: without it each abort makes an exception with a stack. */
const OVER = new Error('the call is over')

interface Attempt {
  readonly scope: CallScope
  readonly credentials: Credentials
}

async function attempt(
  setting: InvokeSetting,
  invocation: Invocation,
  { scope, credentials }: Attempt,
): Promise<JsonObject> {
  const { upstream } = setting
  const { context } = invocation
  if (context.session instanceof SessionHold) {
    const connection = await context.session.connect(credentials, context.signal)
    return await carry(setting, invocation, { scope, connection }).catch((error: unknown) => {
      if (!(error instanceof StaleConnection)) throw error
      upstream.refused(connection)
      throw sessionLost()
    })
  }
  for (let isAgain = false; ; isAgain = true) {
    const { connection, release } = await lease(upstream, { scope, credentials })
    try {
      return await carry(setting, invocation, { scope, connection })
    } catch (error) {
      if (!(error instanceof StaleConnection)) throw error
      upstream.refused(connection)
      if (isAgain) throw toCallError(error.cause, scope, false)
    } finally {
      release()
    }
  }
}

async function lease(upstream: Upstream, { scope, credentials }: Attempt) {
  try {
    return await upstream.leaseFor(scope.context, credentials)
  } catch (error) {
    throw isToolError(error) ? error : toCallError(error, scope, false)
  }
}

async function carry(
  setting: InvokeSetting,
  invocation: Invocation,
  { scope, connection }: { readonly scope: CallScope; readonly connection: Connection },
): Promise<JsonObject> {
  const { upstream } = setting
  const { nativeName, input, binding, context } = invocation
  await checkProgram(setting, connection, invocation)
  const { traceparent } = context
  const params = {
    name: nativeName,
    arguments: input,
    _meta: { [KEY_MEMBER]: context.effectKey(), ...(traceparent === undefined ? {} : { traceparent }) },
  }
  const headers = connection.isModern ? headersFor(headerParams(binding), input) : undefined
  try {
    return await callTool({
      source: setting.key,
      connection,
      scope,
      params,
      headers,
      completions: upstream.completions,
    })
  } catch (error) {
    if (isToolError(error) && isOutdated(error.cause)) upstream.outdated()
    throw error
  }
}

function headerParams({ headers }: JsonObject): readonly HeaderParam[] {
  if (!isWireArray(headers)) return []
  return headers.flatMap((entry) => {
    if (!isWireObject(entry) || !isWireArray(entry.path)) return []
    const header = textOf(entry.header)
    const path = entry.path.flatMap((name) => (typeof name === 'string' ? [name] : []))
    return header === undefined ? [] : [{ header, path }]
  })
}

/** State of a session: a connection that nobody else uses, made with the first call (openwop §7.3). */
export class SessionHold {
  readonly #sessionId: string
  readonly #upstream: Upstream
  #leasing: Promise<Lease> | undefined
  #lease: Lease | undefined
  #isClosed = false

  constructor(sessionId: string, upstream: Upstream) {
    this.#sessionId = sessionId
    this.#upstream = upstream
  }

  /** The session's connection; when it is gone, so is what the session stood on. */
  async connect(credentials: Credentials, signal: AbortSignal): Promise<Connection> {
    if (this.#lease === undefined) {
      this.#leasing ??= this.#upstream.leaseSession(this.#sessionId, credentials, signal)
      try {
        this.#lease = await this.#leasing
      } finally {
        this.#leasing = undefined
      }
    }
    if (this.#isClosed) this.#end()
    const { connection } = this.#lease
    if (!connection.isOpen) throw sessionLost()
    return connection
  }

  close(): void {
    this.#isClosed = true
    this.#end()
  }

  #end(): void {
    if (this.#lease === undefined) return
    const { connection, release } = this.#lease
    release()
    this.#upstream.retire(connection)
  }
}

function sessionLost() {
  return fault(
    'session_lost',
    'The MCP server that held the state of this session is gone; open a new session.',
  )
}

const MAX_ERROR_LENGTH = 8000

/** About the upstream's own exchange (§1.3), or names of ours that only we may use. */
const NOT_PASSED_ON = /^(?:collet\/|[^./]+\.(?:mcp|modelcontextprotocol)(?:\.[^/]*)?\/)/

/**
 * The value of a result: structured where the definition promises that, content blocks everywhere else. What was shown
 * beside it goes along, for callers who speak MCP too.
 */
export function readOutput(result: JsonObject, isStructured: boolean): JsonValue | ShownValue {
  const content = isWireArray(result.content) ? result.content : undefined
  const { structuredContent } = result
  const meta = metaOf(result)
  if (result.isError === true)
    throw fault('tool_failed', errorText(content ?? []), {
      shown: {
        content: content ?? [],
        ...(structuredContent === undefined ? {} : { structuredContent }),
        ...meta,
      },
    })
  if (!isStructured) {
    const blocks = content ?? []
    const value =
      structuredContent === undefined ? { content: blocks } : { content: blocks, structuredContent }
    return new ShownValue(value, meta)
  }
  if (structuredContent === undefined)
    throw fault('output_invalid', 'The tool gave no structured result, although its definition says so.', {
      developerMessage: 'The result has no structuredContent, but the tool has an outputSchema.',
    })
  if (content === undefined) return structuredContent
  return new ShownValue(structuredContent, { content, ...meta })
}

function metaOf({ _meta }: JsonObject): { readonly meta?: JsonObject } {
  if (!isWireObject(_meta)) return {}
  const members = Object.entries(_meta).filter(([name]) => !NOT_PASSED_ON.test(name))
  return members.length === 0 ? {} : { meta: Object.fromEntries(members) }
}

/** What the upstream said about its failure, as one text. */
function errorText(content: JsonArray): string {
  const texts = content.flatMap((block) => {
    if (!isWireObject(block)) return []
    return [textOf(block.text) ?? `[${textOf(block.type) ?? 'unknown'}]`]
  })
  const text = texts.join('\n').trim()
  if (text === '') return 'The tool failed and did not say why.'
  return text.length > MAX_ERROR_LENGTH ? `${text.slice(0, MAX_ERROR_LENGTH)}…` : text
}

export interface Credentials {
  readonly headers: Readonly<Record<string, string>>
  /** Tells credentials apart; a connection is never shared between them (§7.3). Empty when there are none. */
  readonly fingerprint: string
}

/** What the accepted definition says a call brings along: the broker's token, the vault's secrets. */
function readCredentials(binding: JsonObject, context: ToolContext): Credentials {
  const headers: Record<string, string> = {}
  const provider = textOf(binding.authorization)
  if (provider !== undefined) headers.authorization = `Bearer ${context.token(provider).reveal()}`
  if (isWireObject(binding.secretHeaders))
    for (const [name, id] of Object.entries(binding.secretHeaders))
      if (typeof id === 'string') headers[name.toLowerCase()] = context.secret(id).reveal()
  const isEmpty = Object.keys(headers).length === 0
  return { headers, fingerprint: isEmpty ? '' : hash('sha256', JSON.stringify(headers), 'hex') }
}

interface CheckSetting {
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly upstream: Upstream
}

/** What one program offers, and what was found about accepted definitions. */
interface Look {
  /** `news` of the connection when it was asked; with more of it, it is asked again. */
  readonly news: number
  readonly offers: Promise<Discovery>
  /** `undefined` for one that is still offered. */
  readonly found: WeakMap<OfferedTool, string | undefined>
}

const LOOKS = new WeakMap<Connection, Look>()

/**
 * A program is started for its callers long after its tools were listed, and may be another one by then (`npx` fetches
 * the newest): before its first call it tells what it offers, and a call that the pins would refuse is not sent to it
 * (rule 32). Servers on HTTP change without being started, so there is no such moment.
 */
async function checkProgram(
  setting: CheckSetting,
  connection: Connection,
  { accepted, nativeName, context }: Invocation,
): Promise<void> {
  if (setting.endpoint.transport !== 'stdio' || accepted === undefined) return
  const known = LOOKS.get(connection)
  const look = known?.news === connection.news ? known : begin(setting, connection)
  if (!look.found.has(accepted.offered)) {
    const { identity, tools } = await untilAborted(look.offers, context.signal)
    const offered = tools.find((tool) => tool.nativeName === nativeName)
    const met = offered === undefined ? undefined : { offered, identity }
    look.found.set(accepted.offered, suspensionBy(accepted, met))
  }
  const why = look.found.get(accepted.offered)
  if (why === undefined) return
  setting.upstream.changed()
  throw fault(
    'upstream_failed',
    `The program behind this tool is another one than was accepted: ${why}. Nothing was sent. An operator must accept the change before it can be called again.`,
    {
      canRetry: true,
      developerMessage: 'See it with `collet pins diff`; accept it with `collet pins accept`.',
    },
  )
}

function begin(setting: CheckSetting, connection: Connection): Look {
  const look: Look = { news: connection.news, offers: read(setting, connection), found: new WeakMap() }
  LOOKS.set(connection, look)
  // The next call asks again.
  look.offers.catch(() => LOOKS.delete(connection))
  return look
}

async function read(setting: CheckSetting, connection: Connection): Promise<Discovery> {
  try {
    const deadline = AbortSignal.timeout(setting.options.discoverTimeoutMs)
    return await readListing(setting, connection, await listTools(connection, deadline))
  } catch (error) {
    const developerMessage = `The program does not tell what it offers: ${reasonOf(error)}`
    throw unreachable({ developerMessage, cause: error })
  }
}
