import { LATEST, parseToolId, parseToolName } from '#core/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { readFacts, readNeeds } from '#core/tools/facts'
import { toJsonSchema } from '#protocols/opentool/codec-convert-to-json'
import { FACTS_EXTENSION, type OpenToolFunction } from '#protocols/opentool/codec-document'
import type { RemoteTool, WireContext } from '#protocols/otc/codec-client'
import { CallFailure, configFailure } from './call-failure.ts'
import { checkCallId, copyJson } from './call-input.ts'
import type { CallOptions } from './call-run.ts'
import { type ClientSettings, readTimeoutMs } from './client-options.ts'
import { OpenToolClient } from './opentool-client.ts'
import { getEndpoint, type OpenToolCallOptions, postCall } from './opentool-exchange.ts'
import type { CallResult } from './read-outcome.ts'
import { resolveContext } from './resolve-context.ts'
import { untilAborted } from './wait.ts'

/** By name, in the order of the document: a document may hold 100 000 of them. */
type Functions = ReadonlyMap<string, OpenToolFunction>

/** An OpenTool server behind the same few methods as any other. */
export class OpenToolSession {
  readonly #settings: ClientSettings
  readonly #client: OpenToolClient
  #functions: Promise<Functions> | undefined

  constructor(settings: ClientSettings) {
    this.#settings = settings
    this.#client = new OpenToolClient(settings)
  }

  /** Functions as tools; none when the server does not describe itself. */
  async list(signal?: AbortSignal): Promise<readonly RemoteTool[]> {
    this.#functions = undefined
    const functions = await this.#load(signal)
    return [...functions.values()].map(toRemoteTool)
  }

  async get(name: string, signal?: AbortSignal): Promise<RemoteTool | undefined> {
    const functions = await this.#load(signal)
    const named = findNamed(functions, name)
    return named === undefined || named.isOther ? undefined : toRemoteTool(named.described)
  }

  /** `callId` travels as the idempotency key; the call itself is sent once (OTS-66). */
  async call(tool: string | RemoteTool, input: JsonObject, options: CallOptions): Promise<CallResult> {
    const asked = typeof tool === 'string' ? tool : tool.id
    if (typeof asked !== 'string' || asked === '') throw configFailure('Name the function to call.')
    const callId = checkCallId(options.callId ?? this.#settings.randomId())
    if (options.timeoutMs !== undefined) readTimeoutMs(options.timeoutMs)
    const given = copyJson(input)
    if (!isJsonObject(given)) throw configFailure('The arguments of a function are an object.')
    const functions = await this.#load(options.signal)
    // What another version of it needs and gives is told by the newest one, or by nobody.
    const { described } = findNamed(functions, asked) ?? {}
    const name = methodFor(asked, described?.name ?? asked)
    const brought = await resolveContext(
      {
        tool: described === undefined ? undefined : toRemoteTool(described),
        ...{ toolId: name, userId: options.userId, signal: options.signal },
      },
      this.#settings,
    )
    const called = await postCall(
      this.#settings,
      { id: callId, name, arguments: given },
      { ...options, ...headersOf(brought), idempotencyKey: callId },
    )
    return {
      value: valueIn(called.result, described),
      callId: called.callId ?? callId,
      ...(called.runId === undefined ? {} : { runId: called.runId }),
      toolId: name,
      retries: 0,
    }
  }

  /** Whether an OpenTool server answers us here; asks once. */
  async answers(signal: AbortSignal | undefined): Promise<boolean> {
    const { status, body } = await getEndpoint({ ...this.#settings, maxRetries: 0 }, '/version', signal)
    return status === 200 && isJsonObject(body) && typeof body.version === 'string'
  }

  /** Read once and shared; a caller who leaves does not disturb the others. */
  async #load(signal: AbortSignal | undefined): Promise<Functions> {
    const loading = this.#functions ?? this.#read()
    this.#functions = loading
    loading.catch(() => {
      if (this.#functions === loading) this.#functions = undefined
    })
    try {
      return await untilAborted(signal, () => loading)
    } catch (error) {
      if (error instanceof CallFailure || !signal?.aborted) throw error
      throw new CallFailure(
        'transport',
        'Reading the functions was aborted by its caller; nothing was called.',
        {
          cause: error,
        },
      )
    }
  }

  async #read(): Promise<Functions> {
    const document = await this.#client.load()
    return new Map((document?.functions ?? []).map((described) => [described.name, described]))
  }
}

interface Named {
  readonly described: OpenToolFunction
  /** Another version was asked for than the newest one, which is all that is described. */
  readonly isOther: boolean
}

/** The function that has this name elsewhere: servers of this package tell; any other name is for the server to judge. */
function findNamed(functions: Functions, asked: string): Named | undefined {
  const exact = functions.get(asked)
  if (exact !== undefined) return { described: exact, isOther: false }
  const ref = parseToolName(asked)
  if (ref === undefined) return undefined
  for (const described of functions.values()) {
    const { name, [FACTS_EXTENSION]: told } = described
    if (!isJsonObject(told) || typeof told.id !== 'string') continue
    const id = parseToolId(told.id)
    if (ref.base !== id?.base && ref.base !== name && ref.base !== told.catalogId) continue
    return { described, isOther: ref.version !== LATEST && ref.version !== id?.version }
  }
  return undefined
}

/** A version that was asked for is sent: the newest one may be another by now, and so may the one of a recorded call. */
function methodFor(asked: string, name: string): string {
  return (parseToolName(asked)?.version ?? LATEST) === LATEST ? name : asked
}

function headersOf(
  brought: WireContext | undefined,
): Pick<OpenToolCallOptions, 'userId' | 'tokens' | 'secrets'> {
  if (brought === undefined) return {}
  const { authorization = [], secrets = [], userId } = brought
  return {
    userId,
    tokens: Object.fromEntries(authorization.map(({ id, token }) => [id, token])),
    secrets: Object.fromEntries(secrets.map(({ id, value }) => [id, value])),
  }
}

/** The value travels under its own name; without a description nobody knows which (OTS-38). */
function valueIn(result: JsonObject, described: OpenToolFunction | undefined): JsonValue {
  if (described === undefined) return result
  const { return: returned } = described
  if (returned !== undefined && Object.hasOwn(result, returned.name)) return result[returned.name] ?? null
  return Object.keys(result).length === 0 ? null : result
}

/** Functions have no version of their own. */
function toRemoteTool(described: OpenToolFunction): RemoteTool {
  const { name, description, return: returned, [FACTS_EXTENSION]: told } = described
  const { input, output } = toJsonSchema(described)
  const values = isJsonObject(output?.properties) ? output.properties : {}
  const value = returned === undefined ? undefined : values[returned.name]
  const facts = isJsonObject(told) ? readFacts(told) : undefined
  const { authorization, secrets, userId } = readNeeds(isJsonObject(told) ? told.requirements : undefined)
  return {
    id: name,
    name,
    description,
    input,
    output: isJsonObject(value) ? value : 'none',
    requirements: {
      authorization: authorization.map(({ id, scopes }) => ({
        id,
        scopes,
        definition: { id, oauth2: { scopes } },
      })),
      secrets: secrets.map((id) => ({ id })),
      userId: userId !== false,
    },
    ...(facts === undefined ? {} : { facts }),
  }
}
