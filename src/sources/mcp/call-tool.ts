import { setTimeout as pause } from 'node:timers/promises'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { JsonArray, JsonObject, JsonValue } from '#kernel/base/json'
import { untilAborted } from '#kernel/base/waiting'
import { ShownValue, type ToolContext } from '#kernel/tool/tool'
import { MCP_CODES, META } from '#protocols/mcp/wire'
import { suspensionBy } from '#sources/kit/pin-view'
import type { Discovery, Invocation, OfferedTool, Source } from '#sources/kit/source'
import { isWireArray, isWireObject, type McpConnection, textOf } from './connection.ts'
import { readCredentials } from './credentials.ts'
import { type DiscoverSetting, listAll, readListing } from './discover.ts'
import { askCaller, lowerMessageLevel, messageMeta, requestCaller } from './elicitation.ts'
import { entryFailure, entryRequest, entryResult } from './entries.ts'
import {
  errorText,
  explainLoss,
  isCredentialRefusal,
  isOutdated,
  isStale,
  RpcError,
  StaleConnection,
  toCallError,
  unreachable,
} from './errors.ts'
import type { Lease } from './pool.ts'
import { type HeaderParam, headersFor, passedOnMeta } from './read-tool.ts'
import { acceptedResult } from './skills.ts'
import { createdTask, findKeptTask, followKeptTask, followTask, keepTask, TASK_PARAMS } from './tasks.ts'
import type { Credentials, HeaderFields } from './transport.ts'
import { isAt, SessionConnection, sessionLost, type Upstream } from './upstream.ts'

/**
 * Calls an imported tool: leases a connection for the caller, sends the call, answers the server's questions and reads the result.
 * `index.ts` makes it the source's `invoke`.
 * Invariant: a call is sent a second time only if the server did not process the first (rule 9).
 */

type CallSetting = Omit<DiscoverSetting, 'stopped'>

/** Maximum rounds of questions in one call. */
const MAX_ROUNDS = 10
/** Maximum questions in one round. */
const MAX_QUESTIONS = 20
/** Maximum rounds in which the server asks no question and only wants the request again. */
const MAX_WAITS = 500
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 5000
/** How long a call waits for a person to finish at the server's page before it is sent again. */
const MAX_VISIT_MS = 30_000

export function createInvoke(setting: CallSetting): Source['invoke'] {
  const { upstream, endpoint } = setting
  /** Bindings that were checked to belong to this server. */
  const bound = new WeakSet<JsonObject>()
  const reread = (): void => upstream.outdated()
  return async (invocation) => {
    const { binding } = invocation
    try {
      if (!bound.has(binding)) {
        if (!isAt(binding, endpoint)) throw movedAway()
        bound.add(binding)
      }
      const result = (await changeSubscription(setting, invocation)) ?? (await invoke(setting, invocation))
      upstream.succeeded()
      return binding.entry === undefined
        ? readOutput(result, binding.isStructured === true)
        : entryResult(acceptedResult(invocation, result, reread), metaOf(result))
    } catch (error) {
      const explained = reportToken(setting, invocation, error)
      if (isToolError(explained)) upstream.failed(explained)
      throw binding.entry === undefined ? explained : entryFailure(explained)
    }
  }
}

/** Handles subscription calls, whose subscription outlives the call (MCP-195); `undefined` for any other call. */
async function changeSubscription(
  { upstream, endpoint }: CallSetting,
  { binding, input, context }: Invocation,
): Promise<JsonObject | undefined> {
  if (binding.entry !== 'resources' || typeof input.uri !== 'string') return undefined
  // The subscription ends when its last watcher stops, so nothing is sent here.
  if (input.method === 'resources/unsubscribe') return {}
  if (input.method !== 'resources/subscribe') return undefined
  const credentials = readCredentials(binding, context)
  const isShared = endpoint.transport === 'http' && credentials.fingerprint === ''
  try {
    await upstream.subscriptions.subscribe(input.uri, { context, credentials, isShared })
  } catch (error) {
    throw toCallError(error, context.signal, false)
  }
  return {}
}

async function invoke(setting: CallSetting, invocation: Invocation): Promise<JsonObject> {
  const { upstream } = setting
  const { binding, context } = invocation
  const credentials = readCredentials(binding, context)
  const { session, signal } = context
  if (session instanceof SessionConnection) {
    const connection = await session.connect(credentials, signal)
    return await sendCall(setting, invocation, connection, credentials).catch((error: unknown) => {
      if (!(error instanceof StaleConnection)) throw error
      upstream.refused(connection)
      throw sessionLost()
    })
  }
  const kept = context.resumption?.isRepeated === true ? await findKeptTask(context) : undefined
  if (kept !== undefined) return await resumeTask(setting, invocation, kept, credentials)
  for (let isAgain = false; ; isAgain = true) {
    const { connection, release } = await leaseFor(upstream, context, credentials)
    try {
      return await sendCall(setting, invocation, connection, credentials)
    } catch (error) {
      if (!(error instanceof StaleConnection)) throw error
      upstream.refused(connection)
      if (isAgain) throw toCallError(error.cause, signal, false)
    } finally {
      release()
    }
  }
}

/** Continues to follow a task that the server began for an earlier, interrupted attempt. */
async function resumeTask(
  setting: CallSetting,
  { context }: Invocation,
  taskId: string,
  credentials: Credentials,
): Promise<JsonObject> {
  const { signal } = context
  const options = { signal, caller: context, credentials }
  const answer = (questions: KeyedQuestions) => answerAll(questions, { context, setting })
  const open = () => leaseFor(setting.upstream, context, credentials)
  try {
    return await followKeptTask(taskId, context, open, ({ connection }) => ({
      ...{ connection, context, options, answer },
    }))
  } catch (error) {
    throw afterTask(toCallError(error, signal, true))
  }
}

/** The server has accepted the call, so a refused credential must not make it repeatable (rule 9). */
function afterTask(error: unknown): unknown {
  if (!isToolError(error) || !isCredentialRefusal(error.cause)) return error
  const { code, message, developerMessage } = error
  return fault(code, message, developerMessage === undefined ? {} : { developerMessage })
}

async function leaseFor(upstream: Upstream, context: ToolContext, credentials: Credentials): Promise<Lease> {
  try {
    return await upstream.leaseFor(context, credentials)
  } catch (error) {
    throw isToolError(error) ? error : toCallError(error, context.signal, false)
  }
}

/**
 * Tells the broker that the server refused the caller's token, so that the next call gets a renewed token or one with the missing
 * scopes (MCP-160). The server did not process the call, so it may be repeated (rule 9).
 */
function reportToken(
  { services }: CallSetting,
  { binding, toolId, context }: Invocation,
  error: unknown,
): unknown {
  const provider = textOf(binding.authorization)
  const refusal = isToolError(error) ? error.cause : undefined
  if (provider === undefined || !isToolError(error) || !isCredentialRefusal(refusal)) return error
  const { status, requiredScope } = refusal.details
  const scopes = requiredScope?.split(' ').filter((scope) => scope !== '') ?? []
  if (status === 403 && scopes.length === 0) return error
  const token = context.token(provider)
  const advice = services.tokenRefused?.({ provider, tool: toolId, token, scopes })
  if (advice === undefined) return error
  const { code, message, developerMessage } = error
  return fault(code, `${message} ${advice}`, {
    ...{ cause: refusal, canRetry: true },
    ...(developerMessage === undefined ? {} : { developerMessage }),
  })
}

function movedAway(): ToolError {
  return unreachable({
    developerMessage:
      'The address of the source has changed since this definition was accepted: accept the change (collet pins).',
  })
}

async function sendCall(
  setting: CallSetting,
  invocation: Invocation,
  connection: McpConnection,
  credentials: Credentials,
): Promise<JsonObject> {
  const { nativeName, input, binding, context } = invocation
  await checkProgram(setting, connection, invocation)
  const levelSet = lowerMessageLevel(connection, context, credentials)
  if (levelSet !== undefined) await levelSet
  const { method, params: asked } = entryRequest(invocation, connection) ?? {
    method: 'tools/call',
    params: { name: nativeName, arguments: input },
  }
  const params = {
    ...asked,
    ...(binding.task === 'required' && !connection.isModern ? TASK_PARAMS : {}),
    _meta: {
      // Rule 27. Servers that do not know the key ignore it.
      [META.idempotencyKey]: context.effectKey(),
      // Asks another Collet for the whole result, which this server records and shortens for its own callers (MCP-181).
      [META.modelBytes]: 0,
      ...context.traceHeaders,
      ...messageMeta(connection, context),
    },
  }
  const headers = connection.isModern ? headersFor(headerParams(binding), input) : undefined
  const endListening = connection.onStderr((stderr) =>
    context.log.debug({ stderr }, 'The MCP server wrote to its standard error during this call'),
  )
  try {
    return await runRounds({ setting, connection, context, method, params, credentials, headers })
  } catch (error) {
    if (isToolError(error) && isOutdated(error.cause)) setting.upstream.outdated()
    throw error
  } finally {
    // Standard error is another pipe, so lines that the program wrote before its answer may arrive after it.
    setTimeout(endListening, LATE_STDERR_MS).unref()
  }
}

const LATE_STDERR_MS = 100

function headerParams({ headers }: JsonObject): readonly HeaderParam[] {
  if (!isWireArray(headers)) return []
  return headers.flatMap((entry) => {
    if (!isWireObject(entry) || !isWireArray(entry.path)) return []
    const header = textOf(entry.header)
    const path = entry.path.flatMap((name) => (typeof name === 'string' ? [name] : []))
    return header === undefined ? [] : [{ header, path }]
  })
}

interface ToolCall {
  readonly setting: CallSetting
  readonly connection: McpConnection
  readonly context: ToolContext
  readonly method: string
  readonly params: JsonObject
  readonly credentials: Credentials
  readonly headers: HeaderFields | undefined
}

/** Sends the call, and repeats it with answers for as long as the server asks questions (MCP-73). */
async function runRounds(call: ToolCall): Promise<JsonObject> {
  const { connection, context, headers } = call
  const { signal } = context
  const options = {
    ...{ signal, headers, caller: context, credentials: call.credentials },
    onProgress: (progress: JsonObject) => reportProgress(context, progress),
  }
  let params = call.params
  let rounds = 0
  let waits = 0
  for (;;) {
    const isFirst = rounds + waits === 0
    let result: JsonObject
    try {
      result = await connection.call(call.method, params, options)
    } catch (error) {
      if (await hasVisitedPages(error, call)) {
        rounds += 1
        if (rounds > MAX_ROUNDS) throw tooManyRounds()
        continue
      }
      if (isFirst && isStale(error, connection) && !signal.aborted)
        throw new StaleConnection('the connection was refused', { cause: error })
      throw toCallError(explainLoss(error, connection), signal, !isFirst)
    }
    const task = call.method === 'tools/call' ? createdTask(result, connection) : undefined
    if (task !== undefined) {
      const answer = (questions: KeyedQuestions) => answerAll(questions, call)
      if (call.setting.endpoint.transport === 'http') await keepTask(context, task)
      return await followTask({ connection, context, options, answer }, task).catch((error: unknown) => {
        throw afterTask(toCallError(explainLoss(error, connection), signal, true))
      })
    }
    if (result.resultType !== 'input_required') return result
    const questions = isWireObject(result.inputRequests) ? Object.entries(result.inputRequests) : []
    const state = textOf(result.requestState)
    if (questions.length === 0) {
      waits += 1
      if (waits > MAX_WAITS) throw tooManyRounds()
      const waitMs = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(waits - 1, 8))
      await pause(waitMs, undefined, { signal }).catch((error: unknown) => {
        throw toCallError(error, signal, true)
      })
    } else {
      rounds += 1
      if (rounds > MAX_ROUNDS || questions.length > MAX_QUESTIONS) throw tooManyRounds()
    }
    params = {
      ...call.params,
      ...(questions.length === 0 ? {} : { inputResponses: await answerAll(questions, call) }),
      ...(state === undefined ? {} : { requestState: state }),
    }
  }
}

function reportProgress(context: ToolContext, { progress, total, message }: JsonObject): void {
  if (typeof progress !== 'number') return
  context.progress(progress, typeof total === 'number' ? total : undefined, textOf(message))
}

/** Pairs of a key and a question from the server. */
type KeyedQuestions = readonly (readonly [string, JsonValue])[]

/** Asks all questions at once, with the server's keys, so that a caller of the newest revision gets them in one round (MCP-173). */
async function answerAll(
  questions: KeyedQuestions,
  { context, setting }: Pick<ToolCall, 'context' | 'setting'>,
): Promise<JsonObject> {
  const ask = async ([key, question]: KeyedQuestions[number]): Promise<[string, JsonValue]> => {
    const method = isWireObject(question) ? textOf(question.method) : undefined
    const { params } = isWireObject(question) ? question : {}
    const answer =
      method === 'elicitation/create'
        ? await askCaller(context, params, setting.key, key)
        : await requestCaller(context, method ?? '', params, key).catch((error: unknown) => {
            throw error instanceof RpcError ? fault('tool_failed', error.message, { cause: error }) : error
          })
    if (answer === undefined)
      throw fault(
        'upstream_failed',
        'The MCP server behind the tool sent a request that callers cannot answer.',
        { developerMessage: `The method of the request is ${method ?? 'unreadable'}.` },
      )
    return [key, answer]
  }
  return Object.fromEntries(await Promise.all(questions.map(ask)))
}

/** For 2025-11-25: true if the server refused the call until a person visits pages, and the person has visited them (MCP-80). */
async function hasVisitedPages(error: unknown, { context, setting }: ToolCall): Promise<boolean> {
  if (!(error instanceof RpcError) || error.code !== MCP_CODES.urlElicitationRequired) return false
  const { data } = error
  const visits = isWireObject(data) && isWireArray(data.elicitations) ? data.elicitations : []
  if (visits.length === 0 || visits.length > MAX_QUESTIONS) return false
  for (const visit of visits) {
    if (!isWireObject(visit)) return false
    const id = textOf(visit.elicitationId) ?? ''
    const declined = new AbortController()
    // The wait begins before the question, because the person may finish before the answer arrives.
    const signal = AbortSignal.any([context.signal, declined.signal])
    const done = setting.upstream.completions.wait(id, MAX_VISIT_MS, signal)
    done.catch(() => undefined)
    const answer = await askCaller(context, { ...visit, mode: 'url' }, setting.key)
    if (answer.action !== 'accept') {
      declined.abort()
      return false
    }
    await done
  }
  return true
}

function tooManyRounds() {
  return fault('upstream_failed', 'The MCP server behind the tool asked too many questions.', {
    developerMessage: `More than ${MAX_ROUNDS} rounds of questions, ${MAX_QUESTIONS} in one, or ${MAX_WAITS} of waiting.`,
  })
}

const MAX_ERROR_LENGTH = 8000

/**
 * The value of a result: the structured content if the definition declares it, otherwise the content blocks. The other
 * members are kept for MCP callers.
 */
export function readOutput(result: JsonObject, isStructured: boolean): JsonValue | ShownValue {
  const content = isWireArray(result.content) ? result.content : undefined
  const { structuredContent } = result
  const meta = metaOf(result)
  if (result.isError === true)
    throw fault('tool_failed', failureText(content ?? []), {
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
    throw fault(
      'output_invalid',
      'The tool returned no structured result, although its definition declares one.',
      {
        developerMessage: 'The result has no structuredContent, but the tool has an outputSchema.',
      },
    )
  if (content === undefined) return structuredContent
  return new ShownValue(structuredContent, { content, ...meta })
}

function metaOf({ _meta }: JsonObject): { readonly meta?: JsonObject } {
  const meta = passedOnMeta(_meta)
  return meta === undefined ? {} : { meta }
}

/** The content blocks of a failure as one text. */
function failureText(content: JsonArray): string {
  const texts = content.flatMap((block) => {
    if (!isWireObject(block)) return []
    return [textOf(block.text) ?? `[${textOf(block.type) ?? 'unknown'}]`]
  })
  const text = texts.join('\n').trim()
  if (text === '') return 'The tool failed without an error message.'
  return text.length > MAX_ERROR_LENGTH ? `${text.slice(0, MAX_ERROR_LENGTH)}…` : text
}

/** The tools that one program offers, and the results of comparing accepted definitions with them. */
interface ProgramCheck {
  /** `listChanges` of the connection when the tools were listed; if it has grown, they are listed again. */
  readonly listChanges: number
  readonly offers: Promise<Discovery>
  /** By accepted definition: why the program no longer offers it; `undefined` if it does. */
  readonly found: WeakMap<OfferedTool, string | undefined>
}

const CHECKS = new WeakMap<McpConnection, ProgramCheck>()

/**
 * A program may be started long after its tools were listed, and may be another version by then (`npx` fetches the newest one).
 * So its tools are listed again before its first call, and a call that the pins refuse is not sent (rule 32). This
 * process does not start HTTP servers, so they are not checked.
 */
async function checkProgram(
  setting: CallSetting,
  connection: McpConnection,
  { accepted, nativeName, context }: Invocation,
): Promise<void> {
  if (setting.endpoint.transport !== 'stdio' || accepted === undefined) return
  const known = CHECKS.get(connection)
  const check = known?.listChanges === connection.listChanges ? known : beginCheck(setting, connection)
  if (!check.found.has(accepted.offered)) {
    const { identity, tools } = await untilAborted(check.offers, context.signal)
    const offered = tools.find((tool) => tool.nativeName === nativeName)
    const current = offered === undefined ? undefined : { offered, identity }
    check.found.set(accepted.offered, suspensionBy(accepted, current))
  }
  const why = check.found.get(accepted.offered)
  if (why === undefined) return
  setting.upstream.changed()
  throw fault(
    'upstream_failed',
    `The program behind this tool differs from the accepted one: ${why}. Nothing was sent. An operator must accept the change before the tool can be called again.`,
    {
      canRetry: true,
      developerMessage: 'Show the change with `collet pins diff`; accept it with `collet pins accept`.',
    },
  )
}

function beginCheck(setting: CallSetting, connection: McpConnection): ProgramCheck {
  const { listChanges } = connection
  const check = { listChanges, offers: listProgram(setting, connection), found: new WeakMap() }
  CHECKS.set(connection, check)
  // A failed listing is not kept, so the next call lists the tools again.
  check.offers.catch(() => CHECKS.delete(connection))
  return check
}

async function listProgram(setting: CallSetting, connection: McpConnection): Promise<Discovery> {
  try {
    const deadline = AbortSignal.timeout(setting.options.discoverTimeoutMs)
    return await readListing(setting, connection, await listAll(connection, deadline))
  } catch (error) {
    const developerMessage = `The tools of the program cannot be listed: ${errorText(error)}`
    throw unreachable({ developerMessage, cause: error })
  }
}
