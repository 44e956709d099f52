import { randomUUID } from 'node:crypto'
import type { CallReply, CallRequest, Leaving } from '#core/call'
import { type ErrorCode, isToolError } from '#core/errors'
import { LATEST, parseToolName } from '#core/ids'
import type { JsonValue } from '#core/json'
import type { Elicit } from '#core/runtime'
import {
  CALL_ID_HEADER,
  callIdToHeader,
  callReplyHeaders,
  ERROR_CODE_HEADER,
  readCallPlace,
  readWait,
} from '#protocols/call-headers'
import { decodeRequirements } from '#protocols/call-requirements'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer } from './answer.ts'
import { askGuard, type CapabilityWatch, refuseToAsk } from './capability-watch.ts'
import { requiredFor } from './codec-capabilities.ts'
import type { RequestHeaders } from './codec-headers.ts'
import { checkParameterHeaders } from './codec-param-headers.ts'
import { ContinuedCalls } from './continued-calls.ts'
import { encodeFailure, encodeReply, type ReplyTarget } from './encode-reply.ts'
import type { McpExchange } from './exchange.ts'
import { pagesOf } from './failure-text.ts'
import { HeldCall, HeldCalls, type HeldStep } from './held-call.ts'
import { OldAsker } from './old-asker.ts'
import type { McpServices } from './options.ts'
import { ProgressGate } from './progress-gate.ts'
import { Questions } from './questions.ts'
import type { ResultFrames } from './result-frames.ts'
import { readToolCall, type ToolCallRequest } from './tool-call-request.ts'
import type { ServedTool, ToolTables } from './tool-table.ts'
import { MCP_CODES, NEW_REVISION } from './wire.ts'

/** No tool has such a name: what cannot be one walks the same way as unknown tools and hidden ones (rule 2). */
const NO_TOOL = '/'
const NO_HEADERS: RequestHeaders = {}

export interface ToolCallParts {
  readonly services: McpServices
  readonly tables: ToolTables
  readonly frames: ResultFrames
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
  readonly #held = new HeldCalls()
  readonly #continued: ContinuedCalls
  readonly questions: Questions

  constructor(parts: ToolCallParts) {
    this.#parts = parts
    const { callers, clock } = parts.services
    this.questions = new Questions(callers, clock)
    this.#continued = new ContinuedCalls({
      services: parts.services,
      held: this.#held,
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
      if (!isToolError(error)) throw error
      const { code, message, canRetry } = error
      const callId = asked.key ?? randomUUID()
      const failed = { callId, headers: unreadHeaders(callId, code), target: call.target }
      return encodeFailure({ code, message, canRetry }, failed)
    }
  }

  /** A call from the start, or one that goes on under its id after a person did something. */
  #begin(call: StartedCall, key: string | undefined, waitMs?: number): Promise<Answer> {
    const { exchange, asked } = call
    const callId = key ?? randomUUID()
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
      const held = new HeldCall({ callId, principal, questions: this.questions, early: asked.inputResponses })
      const ask = askGuard(held.ask, capabilities, watch)
      held.start(gateway.call(principal, this.#requestOf(call, begun, { ask, leaving: held })))
      return this.#answer(call, held, await held.next(exchange.leaving?.left), { round: 1, watch })
    }
    if (!canAsk || !channel.canSend)
      return this.#finish(call, await gateway.call(principal, this.#requestOf(call, begun, {})), 1)
    const asker = new OldAsker({ exchange, callId, questions: this.questions })
    try {
      const ask = askGuard(asker.ask, capabilities, watch)
      return this.#finish(call, await gateway.call(principal, this.#requestOf(call, begun, { ask })), 1)
    } finally {
      asker.end()
    }
  }

  #answer(
    call: StartedCall,
    held: HeldCall,
    step: HeldStep,
    { round, watch = { missing: undefined } }: { readonly round: number; readonly watch?: CapabilityWatch },
  ): Answer {
    const { principal } = call.exchange
    if (step.kind === 'asks') {
      this.#held.add(principal, held)
      return this.#continued.ask(call, { callId: held.callId, questions: step.questions, round })
    }
    this.#held.remove(principal, held)
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
    const state = await this.#continued.open(call, sealed)
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
      const answered = await this.#continued.waitForPages(call, state)
      if (answered === 'declined') return this.#continued.declined(call, state.callId)
      return await this.#begin(call, state.callId, answered === 'accepted' ? this.#continued.waitMs : 0)
    }
    const taken = await this.#continued.deliver(call, state)
    if (taken !== undefined)
      return errorAnswer(call.exchange.id, taken, { headers: unreadHeaders(state.callId) })
    const held = this.#held.find(call.exchange.principal, state.callId)
    if (held !== undefined)
      return this.#answer(call, held, await held.next(call.exchange.leaving?.left), { round })
    const step = await this.#continued.nextElsewhere(call, state)
    if (step.kind === 'asks')
      return this.#continued.ask(call, { callId: state.callId, questions: step.questions, round })
    return this.#finish(call, step.reply, round)
  }

  /** What needs a person first is asked for as this client can take it (T-11). */
  #finish(call: StartedCall, reply: CallReply, round: number): Answer {
    const { outcome } = reply
    const missing = outcome.ok ? undefined : outcome.error.details?.missing
    const pages = missing === undefined ? [] : pagesOf(missing)
    if (outcome.ok || pages.length === 0) return encodeReply(reply, call.target)
    return (
      this.#continued.askForPages(call, { reply, pages, message: outcome.error.message, round }) ??
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
      ...readCallPlace(headers),
      ...readWait({ headers }),
      ...(waitMs === undefined ? undefined : { waitMs }),
      ...(progress === undefined ? undefined : { onProgress: progress.tell }),
      ...(ask === undefined ? undefined : { onElicit: ask }),
      leaving,
    }
  }

  #targetOf(exchange: McpExchange, asked: ToolCallRequest, served: ServedTool | undefined): ReplyTarget {
    const { id, revision, principal, headers } = exchange
    return {
      id,
      name: asked.name,
      revision,
      principal,
      frame: this.#parts.frames.of(revision),
      tool: served?.tool,
      hasHttp: headers !== undefined,
      metadataUrl: this.#parts.services.options.metadataUrl?.(),
    }
  }
}

/** Rule 6: every reply to a call has an id, also one that was never made. */
function unreadHeaders(
  callId: string = randomUUID(),
  code: ErrorCode = 'request_invalid',
): Record<string, string> {
  return { [CALL_ID_HEADER]: callIdToHeader(callId), [ERROR_CODE_HEADER]: code }
}
