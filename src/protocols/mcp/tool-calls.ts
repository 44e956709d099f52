import type { Elicit, ElicitationAnswer, ElicitationMode } from '#kernel/base/elicitation'
import { type ErrorCode, isToolError, storeFault } from '#kernel/base/errors'
import { checkCallKey, LATEST, newCallId, parseToolName } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallReply, CallRequest, Leaving, Progress } from '#kernel/call/call'
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
  encodeNotification,
  errorAnswer,
  metaOf,
  type RequestHeaders,
  requiredFor,
} from './codec-message.ts'
import { mayAsk } from './codec-question.ts'
import { checkParameterHeaders } from './codec-tool.ts'
import type { Channel, McpExchange, McpServices } from './exchange.ts'
import type { ServedTool, ToolTables } from './methods.ts'
import { MultiRoundCalls } from './multi-round-calls.ts'
import {
  type AskKeyed,
  LegacyAsker,
  PendingCall,
  PendingCalls,
  type PendingStep,
  Questions,
} from './questions.ts'
import { encodeFailure, encodeReply, pagesOf, type ReplyTarget, type ResultEnvelopes } from './reply.ts'
import { type ClientCapabilities, MCP_CODES, META, NEW_REVISION, type WireError } from './wire.ts'

/** No tool has such a name: what cannot be one walks the same way as unknown tools and hidden ones (rule 2). */
const NO_TOOL = '/'
const NO_HEADERS: RequestHeaders = {}

interface ToolCallParts {
  readonly services: McpServices
  readonly tables: ToolTables
  readonly envelopes: ResultEnvelopes
}

/** One `tools/call`, read and looked up. */
export interface StartedCall {
  readonly exchange: McpExchange
  readonly asked: ToolCallRequest
  readonly served: ServedTool | undefined
  readonly target: ReplyTarget
}

/** How one call goes about it. */
interface BegunCall {
  readonly key: string | undefined
  readonly callId: string
  readonly waitMs: number | undefined
  readonly progress: ProgressGate | undefined
}

/** `tools/call` in every revision: the one durable call behind it, and what its caller may be asked meanwhile. */
export class ToolCalls {
  readonly #parts: ToolCallParts
  readonly #pending = new PendingCalls()
  readonly #rounds: MultiRoundCalls
  readonly questions: Questions

  constructor(parts: ToolCallParts) {
    this.#parts = parts
    const { callers, clock } = parts.services
    this.questions = new Questions(callers, clock)
    this.#rounds = new MultiRoundCalls({
      services: parts.services,
      pending: this.#pending,
      questions: this.questions,
    })
  }

  async handle(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal, headers, revision } = exchange
    const isNew = revision === NEW_REVISION
    const read = readToolCall(params, { headers, mayContinue: isNew })
    if (!read.ok) return errorAnswer(id, read.error, { headers: unreadHeaders(read.key) })
    const asked = read.call
    const { gateway } = this.#parts.services
    const served = this.#parts.tables.find(gateway.catalogFor(principal), asked.name)
    if (isNew && headers !== undefined && served !== undefined && served.headers.length > 0) {
      const message = checkParameterHeaders(served.headers, asked.input, headers)
      if (message !== undefined)
        return errorAnswer(
          id,
          { code: MCP_CODES.headerMismatch, message },
          { status: 400, headers: unreadHeaders(asked.key) },
        )
    }
    const call: StartedCall = { exchange, asked, served, target: this.#targetOf(exchange, asked, served) }
    try {
      return asked.requestState === undefined
        ? await this.#begin(call, asked.key)
        : await this.#continue(call, asked.requestState)
    } catch (error) {
      const shown = isToolError(error) ? error : storeFault(error)
      if (shown === undefined) throw error
      const { code, message, canRetry, details } = shown
      const callId = asked.key ?? newCallId()
      const failed = { callId, headers: unreadHeaders(callId, code), target: call.target }
      return encodeFailure({ code, message, canRetry, details }, failed)
    }
  }

  /** A call from the start, or one that goes on under its id after a person did something. */
  #begin(call: StartedCall, key: string | undefined, waitMs?: number): Promise<Answer> {
    const { exchange, asked } = call
    const callId = key ?? newCallId()
    const { principal, channel, onBegun } = exchange
    onBegun?.(() => void this.#parts.services.gateway.cancelCall(principal, callId))
    if (asked.progressToken === undefined || !channel.canSend)
      return this.#run(call, { key, callId, waitMs, progress: undefined })
    const progress = new ProgressGate(asked.progressToken, channel)
    return this.#run(call, { key, callId, waitMs, progress }).finally(() => progress.end())
  }

  async #run(call: StartedCall, begun: BegunCall): Promise<Answer> {
    const { exchange, asked } = call
    const { gateway } = this.#parts.services
    const { principal, capabilities, revision, channel } = exchange
    const { callId } = begun
    const canAsk = capabilities.form || capabilities.url || capabilities.sampling || capabilities.roots
    const watch: CapabilityWatch = { missing: undefined }
    if (revision === NEW_REVISION && !canAsk) {
      const ask = askGuard(refuseToAsk, capabilities, watch)
      const reply = await gateway.call(
        principal,
        this.#requestOf(call, begun, { ask, leaving: exchange.leaving }),
      )
      return this.#answerOnce(call, reply, watch)
    }
    if (revision === NEW_REVISION) {
      const pending = new PendingCall({
        callId,
        principal,
        questions: this.questions,
        early: asked.inputResponses,
      })
      const ask = askGuard(pending.ask, capabilities, watch)
      pending.start(gateway.call(principal, this.#requestOf(call, begun, { ask, leaving: pending })))
      return this.#answer(call, pending, await pending.next(exchange.leaving?.left), { round: 1, watch })
    }
    if (!canAsk || !channel.canSend)
      return this.#finish(call, await gateway.call(principal, this.#requestOf(call, begun, {})), 1)
    const asker = new LegacyAsker({ exchange, callId, questions: this.questions })
    try {
      const ask = askGuard(asker.ask, capabilities, watch)
      return this.#finish(call, await gateway.call(principal, this.#requestOf(call, begun, { ask })), 1)
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

  /** MCP-36: a tool that could not go on without asking. */
  #answerOnce(call: StartedCall, reply: CallReply, { missing }: CapabilityWatch, round = 1): Answer {
    if (missing === undefined || reply.outcome.ok) return this.#finish(call, reply, round)
    const data = { requiredCapabilities: requiredFor(missing) }
    const error = { code: MCP_CODES.missingCapability, message: 'Missing client capability', data }
    return errorAnswer(call.exchange.id, error, { status: 400, headers: callReplyHeaders(reply) })
  }

  /** MCP-72 to MCP-74: what a request goes on with is hostile until it proves to be ours. */
  async #continue(call: StartedCall, sealed: string): Promise<Answer> {
    const state = await this.#rounds.open(call, sealed)
    if (state === undefined) {
      const message = 'params.requestState is not one that this request was given, or was used before.'
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
    const step = await this.#rounds.nextElsewhere(call, state)
    if (step.kind === 'asks')
      return this.#rounds.ask(call, { callId: state.callId, questions: step.questions, round })
    return this.#finish(call, step.reply, round)
  }

  /** What needs a person first is asked for as this client can take it (MCP/T-11). */
  #finish(call: StartedCall, reply: CallReply, round: number): Answer {
    const { outcome } = reply
    const missing = outcome.ok ? undefined : outcome.error.details?.missing
    const pages = missing === undefined ? [] : pagesOf(missing)
    if (outcome.ok || pages.length === 0) return encodeReply(reply, call.target)
    return (
      this.#rounds.askForPages(call, { reply, pages, message: outcome.error.message, round }) ??
      encodeReply(reply, call.target)
    )
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
      ...(progress === undefined ? undefined : { onProgress: progress.tell }),
      ...(ask === undefined ? undefined : { onElicit: ask }),
      ...(exchange.onRecording === undefined ? undefined : { onRecording: exchange.onRecording }),
      leaving,
    }
  }

  #targetOf(exchange: McpExchange, asked: ToolCallRequest, served: ServedTool | undefined): ReplyTarget {
    const { id, revision, principal, headers } = exchange
    return {
      id,
      name: asked.name,
      hasCallId: asked.key !== undefined,
      revision,
      principal,
      envelope: this.#parts.envelopes.of(revision),
      tool: served?.tool,
      hasHttp: headers !== undefined,
      metadataUrl: this.#parts.services.options.metadataUrl?.(),
    }
  }
}

/** What a run asked although its client had not declared it (MCP-36). */
interface CapabilityWatch {
  missing: ElicitationMode | undefined
}

const DECLINED: ElicitationAnswer = { action: 'decline' }

/** Asks only what was declared; a tool that can go on without goes on declined (MCP/T-11). Questions without a key are numbered. */
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

/** For clients that declared nothing. */
const refuseToAsk: AskKeyed = async () => DECLINED

/** Rule 6: every reply to a call has an id, also one that was never made. */
function unreadHeaders(
  callId: string = newCallId(),
  code: ErrorCode = 'request_invalid',
): Record<string, string> {
  return { [CALL_ID_HEADER]: callIdToHeader(callId), [ERROR_CODE_HEADER]: code }
}

/** The params of `tools/call`, read. */
interface ToolCallRequest {
  readonly name: string
  readonly input: JsonObject
  readonly key: string | undefined
  readonly progressToken: string | number | undefined
  /** W3C trace context, where the transport carries none. */
  readonly traceparent: string | undefined
  /** By the key of the question they answer. */
  readonly inputResponses: ReadonlyMap<string, JsonObject> | undefined
  readonly requestState: string | undefined
}

type ReadCall =
  | { readonly ok: true; readonly call: ToolCallRequest }
  /** `key` is the request's own, if it is a usable one. */
  | { readonly ok: false; readonly error: WireError; readonly key: string | undefined }

/** MCP-60, MCP-68, MCP-74. `_meta` is never tool input (MCP-06); members of other revisions are unknown, so ignored. */
function readToolCall(
  params: JsonValue | undefined,
  { headers, mayContinue }: { readonly headers: RequestHeaders | undefined; readonly mayContinue: boolean },
): ReadCall {
  const meta = metaOf(params)
  const key = readKey(meta[META.idempotencyKey], headers)
  const bad = (message: string): ReadCall => ({ ...refuse(message), key: key.ok ? key.key : undefined })
  if (!isJsonObject(params)) return bad('params must be an object with the name of a tool.')
  const { name, arguments: input = {} } = params
  if (typeof name !== 'string') return bad('params.name must be the name of a tool.')
  if (!isJsonObject(input)) return bad('params.arguments must be an object.')
  if (!key.ok) return { ...key, key: undefined }
  const progressToken = readProgressToken(meta.progressToken)
  const call = { name, input, key: key.key, progressToken, traceparent: readTraceparent(meta.traceparent) }
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

/** Rule 4: in `_meta` or in the header, the same in both; never the JSON-RPC id. */
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

const PER_SECOND = 10

/** MCP-82: only with a token, only rising, ten a second after the first ten, and nothing after the end. */
class ProgressGate {
  readonly #token: string | number
  readonly #channel: Channel
  #last = Number.NEGATIVE_INFINITY
  #left = PER_SECOND
  #filledAtMs = performance.now()
  #isEnded = false

  constructor(token: string | number, channel: Channel) {
    this.#token = token
    this.#channel = channel
  }

  readonly tell = ({ done, total, message }: Progress): void => {
    if (this.#isEnded || !Number.isFinite(done) || done <= this.#last || !this.#take()) return
    this.#last = done
    const params = {
      progressToken: this.#token,
      progress: done,
      ...(total === undefined || !Number.isFinite(total) ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    }
    this.#channel.send(encodeNotification('notifications/progress', params), 'news')
  }

  end(): void {
    this.#isEnded = true
  }

  #take(): boolean {
    const nowMs = performance.now()
    this.#left = Math.min(PER_SECOND, this.#left + ((nowMs - this.#filledAtMs) / 1_000) * PER_SECOND)
    this.#filledAtMs = nowMs
    if (this.#left < 1) return false
    this.#left -= 1
    return true
  }
}

/** A string or a whole number; anything else asks for no progress. */
function readProgressToken(token: JsonValue | undefined): string | number | undefined {
  return typeof token === 'string' || (typeof token === 'number' && Number.isSafeInteger(token))
    ? token
    : undefined
}
