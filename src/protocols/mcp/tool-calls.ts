import type { Elicit, ElicitationAnswer, ElicitationMode } from '#kernel/base/elicitation'
import { type ErrorCode, isToolError, storeFault } from '#kernel/base/errors'
import { shortHash } from '#kernel/base/hash'
import { checkCallKey, LATEST, newCallId, parseToolName, type ToolRef } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallReply, CallRequest, Leaving } from '#kernel/call/call'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import {
  CALL_ID_HEADER,
  callIdToHeader,
  callReplyHeaders,
  decodeRequirements,
  ERROR_CODE_HEADER,
  readCallScope,
  readKeyHeader,
  readWait,
} from '#protocols/call-wire'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import {
  type Answer,
  errorAnswer,
  metaOf,
  REQUIRED_CAPABILITIES,
  type RequestHeaders,
} from './codec-message.ts'
import { mayAsk } from './codec-question.ts'
import { checkParameterHeaders, type HeaderParameter, headersAskedBy } from './codec-tool.ts'
import { type McpExchange, type McpServices, ProgressGate } from './exchange.ts'
import { type AskKeyed, Questions, StreamAsker, urlElicitationRequired } from './questions.ts'
import {
  type CallNoun,
  encodeFailure,
  encodeReply,
  pagesOf,
  type ReplyTarget,
  type ResultEnvelopes,
} from './reply.ts'
import { MultiRoundCalls } from './revision-2026/multi-round-calls.ts'
import { PendingCall, PendingCalls, type PendingStep } from './revision-2026/pending-calls.ts'
import { type ClientCapabilities, MCP_CODES, META, TRAITS, type WireError } from './wire.ts'

/*
 * `tools/call` in every revision: reads the params, finds the tool, runs the durable call and encodes its end.
 * The method table has one row for it.
 * Invariant: unknown, hidden and malformed tool names give the same answer (rule 2), and every answer carries a
 * call id (rule 6).
 */

/** Prefix of a name that no tool has, so that malformed names fail exactly like unknown tools (rule 2). */
const NO_TOOL = '/'
const NO_HEADERS: RequestHeaders = {}
const NOTHING_ELSE = {
  key: undefined,
  progressToken: undefined,
  traceparent: undefined,
  inputResponses: undefined,
  requestState: undefined,
}

/** One `tools/call` whose params are read and whose tool is looked up. */
export interface StartedCall {
  readonly exchange: McpExchange
  readonly asked: ToolCallRequest
  readonly served: ServedTool | undefined
  readonly target: ReplyTarget
}

interface BegunCall {
  readonly key: string | undefined
  readonly callId: string
  readonly waitMs: number | undefined
  readonly progress: ProgressGate | undefined
}

export class ToolCalls {
  readonly tables = new ToolTables()
  readonly questions: Questions
  readonly #services: McpServices
  readonly #envelopes: ResultEnvelopes
  readonly #pending = new PendingCalls()
  readonly #rounds: MultiRoundCalls
  readonly #tools: CallMethod = {
    noun: 'tool',
    resolve: (params, catalog) => resolveToolCall(params, (name) => this.tables.find(catalog, name)),
  }

  constructor(services: McpServices, envelopes: ResultEnvelopes) {
    this.#services = services
    this.#envelopes = envelopes
    this.questions = new Questions(services.callers, services.clock)
    this.#rounds = new MultiRoundCalls({ services, pending: this.#pending, questions: this.questions })
  }

  /** `tools/call`. */
  readonly handle = (params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> =>
    this.call(this.#tools, params, exchange)

  /** Any method whose request is a durable call. */
  async call(method: CallMethod, params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal, headers, revision } = exchange
    const { hasRounds, hasStandardHeaders } = TRAITS[revision]
    const catalog = this.#services.gateway.catalogFor(principal)
    const read = readCall(method, params, { catalog, headers, mayContinue: hasRounds })
    if (!read.ok) return errorAnswer(id, read.error, { headers: unreadHeaders(read.key) })
    const asked = read.call
    const { served } = asked
    if (hasStandardHeaders && headers !== undefined && served !== undefined && served.headers.length > 0) {
      const message = checkParameterHeaders(served.headers, asked.input, headers)
      if (message !== undefined)
        return errorAnswer(
          id,
          { code: MCP_CODES.headerMismatch, message },
          { status: 400, headers: unreadHeaders(asked.key) },
        )
    }
    const target = this.#targetOf(exchange, asked, served, method.noun)
    const call: StartedCall = { exchange, asked, served, target }
    try {
      return asked.requestState === undefined
        ? await this.#begin(call, asked.key)
        : await this.#continue(call, asked.requestState)
    } catch (error) {
      const known = isToolError(error) ? error : storeFault(error)
      if (known === undefined) throw error
      const { code, message, canRetry, details } = known
      const callId = asked.key ?? newCallId()
      const failed = { callId, headers: unreadHeaders(callId, code), target: call.target }
      return encodeFailure({ code, message, canRetry, details }, failed)
    }
  }

  /** A call that answers no request by itself and asks nothing. */
  plainCall(exchange: McpExchange, served: ServedTool, input: JsonObject): Promise<CallReply> {
    const asked = { name: served.name, input, served, ...NOTHING_ELSE }
    const call = { exchange, asked, served, target: this.#targetOf(exchange, asked, served, 'resource') }
    const begun = { key: undefined, callId: newCallId(), waitMs: undefined, progress: undefined }
    const { leaving } = exchange
    return this.#services.gateway.call(exchange.principal, this.#requestOf(call, begun, { leaving }))
  }

  /** Begins a call, or continues one under its id after a person has opened a page. */
  #begin(call: StartedCall, key: string | undefined, waitMs?: number): Promise<Answer> {
    const { exchange, asked } = call
    const callId = key ?? newCallId()
    const { principal, channel, onBegun } = exchange
    onBegun?.(() => void this.#services.gateway.cancelCall(principal, callId))
    if (asked.progressToken === undefined || !channel.canSend)
      return this.#run(call, { key, callId, waitMs, progress: undefined })
    const progress = new ProgressGate(asked.progressToken, channel)
    return this.#run(call, { key, callId, waitMs, progress }).finally(() => progress.end())
  }

  async #run(call: StartedCall, begun: BegunCall): Promise<Answer> {
    const { principal, capabilities, revision, leaving } = call.exchange
    const { gateway } = this.#services
    const canAsk = capabilities.form || capabilities.url || capabilities.sampling || capabilities.roots
    if (!TRAITS[revision].hasRounds)
      return this.#finish(call, await this.#runInSession(call, begun, canAsk), 1)
    const watch: CapabilityWatch = { missing: undefined }
    if (!canAsk) {
      const ask = askGuard(async () => DECLINED, capabilities, watch)
      const reply = await gateway.call(principal, this.#requestOf(call, begun, { ask, leaving }))
      return this.#answerOnce(call, reply, watch)
    }
    const { callId } = begun
    const early = call.asked.inputResponses
    const pending = new PendingCall({ callId, principal, questions: this.questions, early })
    const ask = askGuard(pending.ask, capabilities, watch)
    pending.start(gateway.call(principal, this.#requestOf(call, begun, { ask, leaving: pending })))
    return this.#answer(call, pending, await pending.next(leaving?.left), { round: 1, watch })
  }

  /** Revisions with sessions ask on the stream of the call while it runs. */
  async #runInSession(call: StartedCall, begun: BegunCall, canAsk: boolean): Promise<CallReply> {
    const { exchange } = call
    const { gateway } = this.#services
    if (!canAsk || !exchange.channel.canSend)
      return await gateway.call(exchange.principal, this.#requestOf(call, begun, {}))
    const asker = new StreamAsker({ exchange, callId: begun.callId, questions: this.questions })
    const ask = askGuard(asker.ask, exchange.capabilities, { missing: undefined })
    try {
      return await gateway.call(exchange.principal, this.#requestOf(call, begun, { ask }))
    } finally {
      asker.end()
    }
  }

  #answer(
    call: StartedCall,
    pending: PendingCall,
    step: PendingStep,
    { round, watch = { missing: undefined } }: { readonly round: number; readonly watch?: CapabilityWatch },
  ): Answer {
    const { principal } = call.exchange
    if (step.kind === 'asks') {
      this.#pending.add(principal, pending)
      return this.#rounds.ask(call, { callId: pending.callId, questions: step.questions, round })
    }
    this.#pending.remove(principal, pending)
    return this.#answerOnce(call, step.reply, watch, round)
  }

  /** Fails with `missingCapability` if the tool asked something that the client cannot answer (MCP-36). */
  #answerOnce(call: StartedCall, reply: CallReply, { missing }: CapabilityWatch, round = 1): Answer {
    if (missing === undefined || reply.outcome.ok) return this.#finish(call, reply, round)
    const data = { requiredCapabilities: REQUIRED_CAPABILITIES[missing] }
    const error = { code: MCP_CODES.missingCapability, message: 'Missing client capability', data }
    return errorAnswer(call.exchange.id, error, { status: 400, headers: callReplyHeaders(reply) })
  }

  /** Continues a call with a returned state, which is untrusted until its signature is checked (MCP-72 to MCP-74). */
  async #continue(call: StartedCall, sealed: string): Promise<Answer> {
    const state = await this.#rounds.open(call, sealed)
    if (state === undefined) {
      const message = 'params.requestState was not issued for this request, or was used before.'
      return errorAnswer(
        call.exchange.id,
        { code: JSON_RPC_CODES.badParams, message },
        { headers: unreadHeaders(call.asked.key) },
      )
    }
    const round = state.round + 1
    if (state.waitsFor === 'page') {
      const answered = await this.#rounds.waitForPages(call, state)
      if (answered === 'declined') return this.#rounds.declined(call, state.callId)
      return await this.#begin(call, state.callId, answered === 'accepted' ? this.#rounds.waitMs : 0)
    }
    const taken = await this.#rounds.deliver(call, state)
    if (taken !== undefined)
      return errorAnswer(call.exchange.id, taken, { headers: unreadHeaders(state.callId) })
    const pending = this.#pending.find(call.exchange.principal, state.callId)
    if (pending !== undefined)
      return this.#answer(call, pending, await pending.next(call.exchange.leaving?.left), { round })
    const step = await this.#rounds.nextStored(call, state)
    if (step.kind === 'asks')
      return this.#rounds.ask(call, { callId: state.callId, questions: step.questions, round })
    return this.#finish(call, step.reply, round)
  }

  /** Encodes the end of a call; pages that a person has to open first are asked for if the client can (MCP/T-11). */
  #finish(call: StartedCall, reply: CallReply, round: number): Answer {
    const { outcome } = reply
    const missing = outcome.ok ? undefined : outcome.error.details?.missing
    const pages = missing === undefined ? [] : pagesOf(missing)
    const { exchange, target } = call
    if (outcome.ok || pages.length === 0 || !exchange.capabilities.url) return encodeReply(reply, target)
    const questions = pages.map(({ key, message, challenge: { id, url } }) => ({
      id,
      question: { mode: 'url', key, message: `${message}: ${target.name}`, url, id } as const,
    }))
    return TRAITS[exchange.revision].hasRounds
      ? this.#rounds.askForPages(call, { reply, pages, questions, round })
      : urlElicitationRequired(exchange, questions, { reply, message: outcome.error.message })
  }

  #requestOf(
    { exchange, asked, served }: StartedCall,
    { key, callId, waitMs, progress }: BegunCall,
    { ask, leaving }: { readonly ask?: Elicit; readonly leaving?: Leaving | undefined },
  ): CallRequest {
    const headers = exchange.headers ?? NO_HEADERS
    const traceparent = asked.traceparent ?? exchange.traceparent
    return {
      tool: served?.ref ?? parseToolName(asked.name) ?? { base: NO_TOOL + asked.name, version: LATEST },
      input: asked.input,
      key,
      freshId: callId,
      traceId: asked.traceparent?.split('-')[1] ?? exchange.traceId,
      ...(traceparent === undefined ? undefined : { traceparent }),
      protocol: 'mcp',
      ...decodeRequirements(headers),
      ...readCallScope(headers),
      ...readWait({ headers }),
      ...(waitMs === undefined ? undefined : { waitMs }),
      ...(progress === undefined ? undefined : { onProgress: progress.send }),
      ...(ask === undefined ? undefined : { onElicit: ask }),
      ...(exchange.onRecording === undefined ? undefined : { onRecording: exchange.onRecording }),
      leaving,
    }
  }

  #targetOf(
    exchange: McpExchange,
    asked: ToolCallRequest,
    served: ServedTool | undefined,
    noun: CallNoun,
  ): ReplyTarget {
    const { id, revision, principal, headers } = exchange
    return {
      id,
      noun,
      name: asked.name,
      hasCallId: asked.key !== undefined,
      revision,
      principal,
      envelope: this.#envelopes.of(revision),
      tool: served?.tool,
      hasHttp: headers !== undefined,
      metadataUrl: this.#services.options.metadataUrl?.(),
    }
  }
}

/** The last question that the client had not declared (MCP-36). */
interface CapabilityWatch {
  missing: ElicitationMode | undefined
}

const DECLINED: ElicitationAnswer = { action: 'decline' }

/** Sends only questions that the client declared; others are declined (MCP/T-11). Questions without a key are numbered. */
function askGuard(ask: AskKeyed, capabilities: ClientCapabilities, watch: CapabilityWatch): Elicit {
  let asked = 0
  return async (question) => {
    asked += 1
    if (mayAsk(question, capabilities))
      return await ask({ ...question, key: question.key ?? `question_${asked}` })
    watch.missing = question.mode
    return DECLINED
  }
}

/** Every answer has a call id, also if no call was made (rule 6). */
function unreadHeaders(
  callId: string = newCallId(),
  code: ErrorCode = 'request_invalid',
): Record<string, string> {
  return { [CALL_ID_HEADER]: callIdToHeader(callId), [ERROR_CODE_HEADER]: code }
}

interface ToolCallRequest extends ResolvedCall {
  readonly key: string | undefined
  readonly progressToken: string | number | undefined
  /** W3C trace context, where the transport carries none. */
  readonly traceparent: string | undefined
  /** Answers by the key of their question. */
  readonly inputResponses: ReadonlyMap<string, JsonObject> | undefined
  readonly requestState: string | undefined
}

type ReadCall =
  | { readonly ok: true; readonly call: ToolCallRequest }
  /** `key` of the request, if it is valid. */
  | { readonly ok: false; readonly error: WireError; readonly key: string | undefined }

/** A method whose requests are durable calls: what its params name, and which tool or entry that is. */
export interface CallMethod {
  readonly noun: CallNoun
  /** Returns a text if the params are invalid. */
  resolve(params: JsonObject, catalog: Catalog): ResolvedCall | string
}

interface ResolvedCall {
  /** As the client wrote it. */
  readonly name: string
  readonly input: JsonObject
  /** `undefined` if the principal has nothing of this name. */
  readonly served: ServedTool | undefined
}

/** MCP-60. */
function resolveToolCall(
  { name, arguments: input = {} }: JsonObject,
  find: (name: string) => ServedTool | undefined,
): ResolvedCall | string {
  if (typeof name !== 'string') return 'params.name must be the name of a tool.'
  return isJsonObject(input) ? { name, input, served: find(name) } : 'params.arguments must be an object.'
}

/** MCP-68, MCP-74. `_meta` is never input (MCP-06); members of other revisions are ignored. */
function readCall(
  method: CallMethod,
  params: JsonValue | undefined,
  {
    catalog,
    headers,
    mayContinue,
  }: {
    readonly catalog: Catalog
    readonly headers: RequestHeaders | undefined
    readonly mayContinue: boolean
  },
): ReadCall {
  const meta = metaOf(params)
  const key = readKey(meta[META.idempotencyKey], headers)
  const bad = (message: string): ReadCall => ({ ...refuse(message), key: key.ok ? key.key : undefined })
  if (!isJsonObject(params)) return bad(`params must be an object that names a ${method.noun}.`)
  const named = method.resolve(params, catalog)
  if (typeof named === 'string') return bad(named)
  if (!key.ok) return { ...key, key: undefined }
  const progressToken = readProgressToken(meta.progressToken)
  const call = { ...named, key: key.key, progressToken, traceparent: readTraceparent(meta.traceparent) }
  if (!mayContinue) return { ok: true, call: { ...call, inputResponses: undefined, requestState: undefined } }
  const { requestState } = params
  if (requestState !== undefined && typeof requestState !== 'string')
    return bad('params.requestState must be the string that was sent.')
  const responses = readResponses(params.inputResponses)
  if (responses === 'bad') return bad('params.inputResponses must be an object of objects by key.')
  return { ok: true, call: { ...call, inputResponses: responses, requestState } }
}

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

function readTraceparent(sent: JsonValue | undefined): string | undefined {
  return typeof sent === 'string' && TRACEPARENT.test(sent) ? sent : undefined
}

function readResponses(given: JsonValue | undefined): ReadonlyMap<string, JsonObject> | undefined | 'bad' {
  if (given === undefined) return undefined
  if (!isJsonObject(given)) return 'bad'
  const found = new Map<string, JsonObject>()
  for (const [key, answer] of Object.entries(given)) {
    if (!isJsonObject(answer)) return 'bad'
    found.set(key, answer)
  }
  return found
}

type ReadKey =
  | { readonly ok: true; readonly key: string | undefined }
  | { readonly ok: false; readonly error: WireError }

/** The key is in `_meta`, in the header, or equal in both; it is never the JSON-RPC id (rule 4). */
function readKey(inMeta: JsonValue | undefined, headers: RequestHeaders | undefined): ReadKey {
  const inHeader = headers === undefined ? undefined : readKeyHeader(headers)
  if (inMeta !== undefined && typeof inMeta !== 'string')
    return refuse(`${META.idempotencyKey} must be a string.`)
  if (inMeta !== undefined && inHeader !== undefined && inMeta !== inHeader)
    return refuse(`${META.idempotencyKey} and Idempotency-Key differ; send one of them.`)
  const key = inMeta ?? inHeader
  try {
    return { ok: true, key: key === undefined ? undefined : checkCallKey(key) }
  } catch (error) {
    if (isToolError(error)) return refuse(error.message)
    throw error
  }
}

function refuse(message: string): { readonly ok: false; readonly error: WireError } {
  return { ok: false, error: { code: JSON_RPC_CODES.badParams, message } }
}

/** A string or an integer; any other token requests no progress. */
function readProgressToken(token: JsonValue | undefined): string | number | undefined {
  return typeof token === 'string' || (typeof token === 'number' && Number.isSafeInteger(token))
    ? token
    : undefined
}

/** The newest version of a tool or entry, under its name in the list. */
export interface ServedTool {
  readonly name: string
  readonly tool: Tool
  readonly ref: ToolRef
  readonly headers: readonly HeaderParameter[]
}

/** Names that every client accepts (MCP-50, MCP/T-13). */
const LEGAL = /^[A-Za-z0-9_-]{1,64}$/
const MAX_LENGTH = 64

export class ToolTables {
  readonly #byCatalog = new WeakMap<Catalog, ReadonlyMap<string, ServedTool>>()

  /** Finds a tool by its name in the list, or by any other of its names. */
  find(catalog: Catalog, name: string): ServedTool | undefined {
    return this.of(catalog).get(name) ?? byOtherName(catalog, name)
  }

  /** Sorted by name, so that two reads are equal (MCP-42). */
  of(catalog: Catalog): ReadonlyMap<string, ServedTool> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const table = makeTable(catalog.latest())
    this.#byCatalog.set(catalog, table)
    return table
  }
}

function byOtherName(catalog: Catalog, name: string): ServedTool | undefined {
  const ref = parseToolName(name)
  const tool = ref === undefined ? undefined : catalog.resolve(ref)
  if (ref === undefined || tool === undefined) return undefined
  const { base } = tool.parts
  return { name, tool, ref: { base, version: ref.version }, headers: headersAskedBy(tool) }
}

function makeTable(tools: readonly Tool[]): ReadonlyMap<string, ServedTool> {
  const named = new Map<string, Tool>()
  const sorted = [...tools].sort((left, right) => compare(left.parts.base, right.parts.base))
  for (const tool of sorted) if (LEGAL.test(tool.name) && !named.has(tool.name)) named.set(tool.name, tool)
  for (const tool of sorted) if (named.get(tool.name) !== tool) named.set(freeName(tool), tool)
  const entries = [...named].sort(([left], [right]) => compare(left, right))
  return new Map(
    entries.map(([name, tool]) => {
      const ref = { base: tool.parts.base, version: LATEST }
      return [name, { name, tool, ref, headers: headersAskedBy(tool) }]
    }),
  )
}

/** A name with a digest, for a tool whose own name is taken or not accepted by clients. */
function freeName({ name, parts }: Tool): string {
  const digest = shortHash(parts.base)
  return `${name.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, MAX_LENGTH - digest.length - 1)}_${digest}`
}

function compare(left: string, right: string): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}
