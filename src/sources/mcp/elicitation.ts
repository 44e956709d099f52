import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import { cleanText, type JsonObject, type JsonValue } from '#kernel/base/json'
import { MESSAGE_LEVELS, type MessageLevel, type ToolContext } from '#kernel/tool/tool'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { META } from '#protocols/mcp/wire'
import { hiddenCharacter } from '#sources/kit/suspicions'
import { isWireArray, isWireObject, type McpConnection, textOf } from './connection.ts'
import { RpcError } from './errors.ts'
import type { Credentials } from './transport.ts'

/**
 * Passes questions from MCP servers to the caller of a call and its answers back, in all revisions, and requests the log messages
 * that the caller wants (MCP-192). Connections and calls use it.
 * Invariant: a question names its source and shows hidden characters, so that it cannot pretend to come from elsewhere.
 */

const MAX_MESSAGE_LENGTH = 10_000
/** Valid keys of questions. Questions with other keys are numbered. */
const KEY = /^[A-Za-z0-9_.-]{1,64}$/

/** Asks the person behind the call. Declines a question that cannot be shown to a person. */
export async function askCaller(
  context: ToolContext,
  params: JsonValue | undefined,
  source: string,
  key?: string,
): Promise<JsonObject> {
  const question = readQuestion(params, source)
  if (question === undefined) return { action: 'decline' }
  const schema = question.mode === 'form' && isWireObject(params) ? params.requestedSchema : undefined
  const named = { ...question, ...keyOf(params, key) }
  return toWire(await context.elicit(named), schema)
}

/** A server of 2026-07-28 names its questions; one with sessions may do so in `_meta` (MCP-173). */
function keyOf(params: JsonValue | undefined, given: string | undefined): { readonly key?: string } {
  const meta = isWireObject(params) && isWireObject(params._meta) ? params._meta : {}
  const key = given ?? textOf(meta[META.questionKey])
  return key !== undefined && KEY.test(key) ? { key } : {}
}

const NEEDED = { sampling: 'use its model (sampling)', roots: 'list its folders (roots)' } as const

/** Modes of the requests besides `elicitation/create` that a server may send to the caller, by method. */
const CALLER_REQUESTS: ReadonlyMap<string, keyof typeof NEEDED> = new Map([
  ['sampling/createMessage', 'sampling'],
  ['roots/list', 'roots'],
])

/** Forwards a server's request to use the caller's model or list its folders (MCP-137); `undefined` for another method. */
export async function requestCaller(
  context: ToolContext,
  method: string,
  params: JsonValue | undefined,
  key?: string,
): Promise<JsonObject | undefined> {
  const mode = CALLER_REQUESTS.get(method)
  if (mode === undefined) return undefined
  const keyed = keyOf(params, key)
  const question = mode === 'roots' ? { mode, ...keyed } : { mode, params: samplingOf(params), ...keyed }
  const answer = await context.elicit(question)
  if (answer.action === 'accept' && answer.content !== undefined) return answer.content
  throw new RpcError(
    CALLER_REFUSED,
    `The caller did not let the server ${NEEDED[mode]}: it declined, or its client does not support it.`,
  )
}

/** The specification's error code for a request that the person declined. */
const CALLER_REFUSED = -1

/** The params without the members that belong to the exchange with the server. */
function samplingOf(params: JsonValue | undefined): JsonObject {
  if (!isWireObject(params)) throw new RpcError(JSON_RPC_CODES.badParams, 'Invalid sampling request')
  const { _meta, task: _task, ...rest } = params
  return rest
}

/** The answer in MCP's format. Forms are flat (MCP-76), so nested values are left out; defaults fill missing fields. */
function toWire(answer: ElicitationAnswer, schema: JsonValue | undefined): JsonObject {
  const { action } = answer
  if (answer.action !== 'accept' || answer.content === undefined) return { action }
  const properties = isWireObject(schema) && isWireObject(schema.properties) ? schema.properties : {}
  const defaults = Object.entries(properties).map(([name, field]): [string, JsonValue | undefined] => [
    name,
    isWireObject(field) ? field.default : undefined,
  ])
  const fields = [...defaults, ...Object.entries(answer.content)].flatMap(
    ([name, value]): [string, JsonValue][] => (isFormValue(value) ? [[name, value]] : []),
  )
  return { action, content: Object.fromEntries(fields) }
}

function isFormValue(value: JsonValue | undefined): value is JsonValue {
  if (isWireArray(value)) return value.every((item) => typeof item === 'string')
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}

/** Converts a server's question; `undefined` if it cannot be shown to a person. */
export function readQuestion(params: JsonValue | undefined, source: string): Elicitation | undefined {
  if (!isWireObject(params)) return undefined
  const text = cleanText((textOf(params.message) ?? '').slice(0, MAX_MESSAGE_LENGTH))
  const message = `The MCP server "${source}" asks: ${text}`
  if (params.mode === 'url') {
    const url = URL.parse(textOf(params.url) ?? '')
    // A link with another scheme could run code where it is opened; a user name in it could look like a host.
    if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
      return undefined
    return { mode: 'url', message, url: url.href, id: textOf(params.elicitationId) ?? '', untrusted: true }
  }
  const schema = isWireObject(params.requestedSchema) ? cleanForm(params.requestedSchema) : undefined
  return schema === undefined ? undefined : { mode: 'form', message, schema, untrusted: true }
}

/** Members that are only shown. All others may be sent back and must not be changed. */
const SHOWN: ReadonlySet<string> = new Set(['title', 'description', 'enumNames'])

/** `undefined` if a name or choice, which is sent back unchanged, contains hidden characters. */
function cleanForm(schema: JsonObject): JsonObject | undefined {
  const cleaned = cleanMembers(schema)
  return hasHidden(cleaned) ? undefined : cleaned
}

function cleanMembers(value: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(value).map(([name, member]): [string, JsonValue] => [
      name,
      SHOWN.has(name) ? cleanShown(member) : cleanMember(member),
    ]),
  )
}

function cleanMember(value: JsonValue): JsonValue {
  if (isWireArray(value)) return value.map(cleanMember)
  return isWireObject(value) ? cleanMembers(value) : value
}

/** A field may itself be called `title`; then the value is an object and not a text. */
function cleanShown(value: JsonValue): JsonValue {
  if (typeof value === 'string') return cleanText(value)
  return isWireArray(value) ? value.map(cleanShown) : cleanMember(value)
}

function hasHidden(value: JsonValue): boolean {
  if (typeof value === 'string') return hiddenCharacter(value) !== undefined
  if (isWireArray(value)) return value.some(hasHidden)
  if (!isWireObject(value)) return false
  return Object.entries(value).some(([name, member]) => hasHidden(name) || hasHidden(member))
}

/** Lets calls wait until a person has finished at a page of the server (MCP-80). */
export class Completions {
  readonly #waiting = new Map<string, Set<() => void>>()

  complete(id: string): void {
    for (const go of this.#waiting.get(id) ?? []) go()
  }

  /** Resolves when the person has finished, or after `maxMs`. */
  async wait(id: string, maxMs: number, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiting)
    const { promise, resolve } = Promise.withResolvers<void>()
    const go = (): void => resolve()
    waiting.add(go)
    const timer = setTimeout(go, maxMs)
    signal.addEventListener('abort', go)
    await promise
    clearTimeout(timer)
    signal.removeEventListener('abort', go)
    waiting.delete(go)
    if (waiting.size === 0) this.#waiting.delete(id)
    signal.throwIfAborted()
  }
}

/** The member of a request's `_meta` that asks a server of 2026-07-28 for messages. Without it the server sends none. */
export function messageMeta(
  { isModern, server }: Pick<McpConnection, 'isModern' | 'server'>,
  { messageLevel }: ToolContext,
): JsonObject {
  if (!isModern || messageLevel === undefined || server.capabilities.logging === undefined) return {}
  return { [META.logLevel]: messageLevel === 'any' ? 'debug' : messageLevel }
}

/**
 * Lowers the level of the session if this caller wants more messages. A connection that several callers share keeps the lowest
 * level, and each caller gets only the messages that it asked for. Returns `undefined` if there is nothing to set.
 */
export function lowerMessageLevel(
  connection: McpConnection,
  { messageLevel, signal }: ToolContext,
  credentials: Credentials,
): Promise<void> | undefined {
  const { isModern, server } = connection
  if (messageLevel === undefined || messageLevel === 'any' || isModern) return undefined
  if (server.capabilities.logging === undefined) return undefined
  const set = connection.messageLevel
  if (set !== undefined && rankOf(set) <= rankOf(messageLevel)) return undefined
  connection.messageLevel = messageLevel
  // A refused level does not prevent the call.
  return connection.request('logging/setLevel', { level: messageLevel }, { signal, credentials }).then(
    () => undefined,
    () => undefined,
  )
}

function rankOf(level: MessageLevel): number {
  return MESSAGE_LEVELS.indexOf(level)
}
