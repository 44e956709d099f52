import type { Elicit } from '#kernel/base/elicitation'
import { type ErrorCode, isToolError, storeFault } from '#kernel/base/errors'
import { LATEST, newCallId, parseToolName, type ToolRef } from '#kernel/base/ids'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { CallerDeparture, CallReply, CallRequest } from '#kernel/call/call'
import { hasLeft } from '#kernel/call/running'
import type { Tool } from '#kernel/tool/tool'
import {
  CALL_ID_HEADER,
  callIdToHeader,
  callReplyHeaders,
  decodeRequirements,
  ERROR_CODE_HEADER,
  readCallScope,
  readWait,
} from '#protocols/call-wire'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type CallMethod, readCall, resolveToolCall, type ToolCallRequest } from './call-params.ts'
import type { CallNoun } from './codec-entry.ts'
import {
  type Answer,
  errorAnswer,
  REQUIRED_CAPABILITIES,
  type RequestHeaders,
  resultAnswer,
} from './codec-message.ts'
import { checkParameterHeaders } from './codec-tool.ts'
import { type McpExchange, type McpServices, ProgressGate } from './exchange.ts'
import { messagesFor } from './features/logging.ts'
import {
  askGuard,
  type CapabilityWatch,
  DECLINED,
  Questions,
  StreamAsker,
  urlElicitationRequired,
} from './questions.ts'
import {
  encodeFailure,
  encodeReply,
  MCP_ANSWERS,
  pagesOf,
  type ReplyTarget,
  type ResultEnvelopes,
} from './reply.ts'
import { readToolName } from './results/read-result.ts'
import { MultiRoundCalls } from './revision-2026/multi-round-calls.ts'
import { PendingCall, PendingCalls, type PendingStep } from './revision-2026/pending-calls.ts'
import { taskMembers } from './tasks/codec-task.ts'
import { TaskRuns } from './tasks/task-runs.ts'
import { type ServedTool, ToolTables } from './tool-tables.ts'
import { MCP_CODES, TASKS_EXTENSION, TRAITS } from './wire.ts'

/*
 * Runs the requests that are durable calls, such as `tools/call`, in every revision: reads the params, finds the tool or entry,
 * runs the call and encodes its outcome. The features of `methods.ts` use it.
 * Invariant: unknown, hidden and malformed tool names get the same answer (rule 2), and every answer has a call id (rule 6).
 */

/** Prefix of a name that no tool has, so that malformed names fail exactly like unknown tools (rule 2). */
const NO_TOOL = '/'
const NO_HEADERS: RequestHeaders = {}
/** Default of `taskAfterMs`. */
const TASK_AFTER_MS = 800
const NO_CALL_OPTIONS = {
  key: undefined,
  progressToken: undefined,
  inputResponses: undefined,
  requestState: undefined,
  asksTask: false,
  modelBytes: undefined,
}

/** A call whose params were read and whose tool or entry was looked up. */
export interface ResolvedCall {
  readonly exchange: McpExchange
  readonly asked: ToolCallRequest
  readonly served: ServedTool | undefined
  readonly target: ReplyTarget
}

interface RunOptions {
  readonly key: string | undefined
  readonly callId: string
  readonly waitMs: number | undefined
  readonly progress: ProgressGate | undefined
}

export class ToolCalls {
  readonly tables = new ToolTables()
  readonly questions: Questions
  readonly tasks: TaskRuns
  readonly #services: McpServices
  readonly #envelopes: ResultEnvelopes
  readonly #pending = new PendingCalls()
  readonly #rounds: MultiRoundCalls
  readonly #tools: CallMethod = {
    noun: 'tool',
    resolve: (params, catalog, showsApps) =>
      resolveToolCall(params, (name) => this.tables.find(catalog, name, showsApps)),
  }

  constructor(services: McpServices, envelopes: ResultEnvelopes) {
    this.#services = services
    this.#envelopes = envelopes
    this.questions = new Questions(services.callers, services.clock)
    const parts = { services, pending: this.#pending, questions: this.questions }
    this.#rounds = new MultiRoundCalls(parts)
    this.tasks = new TaskRuns({
      ...parts,
      targetOf: (exchange, name, ref) =>
        this.#targetOf(exchange, { name, ...NO_CALL_OPTIONS }, this.#toolOf(exchange, ref)),
    })
  }

  /** `tools/call`. */
  readonly handle = (params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> =>
    this.call(this.#tools, params, exchange)

  /** Runs any method whose request is a durable call. */
  async call(method: CallMethod, params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal, headers, revision } = exchange
    const { hasRounds, hasStandardHeaders, tasks } = TRAITS[revision]
    const catalog = this.#services.gateway.catalogFor(principal)
    const read = readCall(method, params, {
      ...{ catalog, showsApps: exchange.capabilities.apps, headers, mayContinue: hasRounds },
      mayAskTask: tasks === 'requested' && method.noun === 'tool',
    })
    if (!read.ok) return errorAnswer(id, read.error, { headers: unreadHeaders(read.key) })
    const asked = read.call
    const { served } = asked
    if (served !== undefined) exchange.onFound?.({ noun: method.noun, name: asked.name })
    const repeatsParameters = hasStandardHeaders && exchange.namedInArguments === undefined
    if (repeatsParameters && headers !== undefined && served !== undefined && served.headers.length > 0) {
      const message = checkParameterHeaders(served.headers, asked.input, headers)
      if (message !== undefined)
        return errorAnswer(
          id,
          { code: MCP_CODES.headerMismatch, message },
          { status: 400, headers: unreadHeaders(asked.key) },
        )
    }
    if (served?.tool.task === 'required' && !this.#mayBeTask(exchange, asked))
      return taskRequired(exchange, unreadHeaders(asked.key))
    const target = this.#targetOf(exchange, asked, served?.tool, method.noun)
    const call: ResolvedCall = { exchange, asked, served, target }
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

  /** A call for a part of the answer to a request. It asks no questions, and the caller encodes the reply. */
  plainCall(exchange: McpExchange, served: ServedTool, input: JsonObject): Promise<CallReply> {
    const asked = { name: served.name, input, served, ...NO_CALL_OPTIONS }
    const call = { exchange, asked, served, target: this.#targetOf(exchange, asked, served.tool, 'resource') }
    const begun = { key: undefined, callId: newCallId(), waitMs: undefined, progress: undefined }
    const { leaving } = exchange
    return this.#services.gateway.call(exchange.principal, this.#requestOf(call, begun, { leaving }))
  }

  /** Begins a call, or repeats one with its id after a person has opened a page. */
  #begin(call: ResolvedCall, key: string | undefined, waitMs?: number): Promise<Answer> {
    const { exchange, asked } = call
    const callId = key ?? newCallId()
    const { principal, channel, onBegun } = exchange
    onBegun?.(() => void this.#services.gateway.cancelCall(principal, callId))
    if (asked.progressToken === undefined || !channel.canSend)
      return this.#run(call, { key, callId, waitMs, progress: undefined })
    const progress = new ProgressGate(asked.progressToken, channel)
    return this.#run(call, { key, callId, waitMs, progress }).finally(() => progress.end())
  }

  async #run(call: ResolvedCall, begun: RunOptions): Promise<Answer> {
    const { principal, capabilities, revision, leaving } = call.exchange
    const { gateway } = this.#services
    const canAsk = capabilities.form || capabilities.url || capabilities.sampling || capabilities.roots
    const maxMs = this.#taskAfterMs(call)
    if (!TRAITS[revision].hasRounds && maxMs === undefined)
      return this.#finish(call, await this.#runInSession(call, begun, canAsk), 1)
    const watch: CapabilityWatch = { missing: undefined }
    if (!canAsk && maxMs === undefined) {
      const ask = askGuard(async () => DECLINED, capabilities, watch)
      const reply = await gateway.call(principal, this.#requestOf(call, begun, { ask, leaving }))
      return this.#answerOnce(call, reply, watch)
    }
    const { callId } = begun
    const early = call.asked.inputResponses
    const pending = new PendingCall({ callId, principal, questions: this.questions, early })
    const ask = askGuard(pending.ask, capabilities, watch)
    const request = this.#requestOf(call, begun, { ask, leaving: pending })
    pending.start(gateway.call(principal, { ...request, onAdopted: pending.adopt }))
    return await this.#answer(call, pending, await pending.next(leaving?.left, maxMs), { round: 1, watch })
  }

  /** In revisions with sessions questions are sent on the stream of the call while it runs. */
  async #runInSession(call: ResolvedCall, begun: RunOptions, canAsk: boolean): Promise<CallReply> {
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

  async #answer(
    call: ResolvedCall,
    pending: PendingCall,
    step: PendingStep,
    { round, watch = { missing: undefined } }: { readonly round: number; readonly watch?: CapabilityWatch },
  ): Promise<Answer> {
    const { principal } = call.exchange
    if (this.#becomesTask(call, step)) return await this.#answerWithTask(call, pending)
    if (step.kind === 'late')
      throw new Error('only a call that becomes a task may be answered before it ends')
    if (step.kind === 'asks') {
      this.#pending.add(principal, pending)
      return this.#rounds.ask(call, { callId: pending.callId, questions: step.questions, round })
    }
    this.#pending.remove(principal, pending)
    return this.#answerOnce(call, step.reply, watch, round)
  }

  #mayBeTask({ revision, capabilities }: McpExchange, { asksTask }: ToolCallRequest): boolean {
    const { tasks } = TRAITS[revision]
    // The first revision has no tasks, so its clients wait for the call.
    return tasks === 'none' || (tasks === 'extension' ? capabilities.tasks === true : asksTask)
  }

  /** After this time the call is answered with a task; `undefined` if it cannot become one (MCP-121, MCP-125). */
  #taskAfterMs({ exchange, asked, target }: ResolvedCall): number | undefined {
    if (TRAITS[exchange.revision].tasks === 'none' || target.noun !== 'tool') return undefined
    return this.#mayBeTask(exchange, asked)
      ? (this.#services.options.taskAfterMs ?? TASK_AFTER_MS)
      : undefined
  }

  /**
   * A client that asked for a task gets one, unless the call could not begin. Another client gets one if the call takes long or a
   * person has to act first; questions of a call that has just begun are sent without a task (MCP-121).
   */
  #becomesTask(call: ResolvedCall, step: PendingStep): boolean {
    if (step.kind === 'late') return true
    if (this.#taskAfterMs(call) === undefined) return false
    if (step.kind === 'asks') return call.asked.asksTask
    const { outcome } = step.reply
    if (outcome.ok) return call.asked.asksTask
    const { kind } = MCP_ANSWERS[outcome.error.code]
    const waits = pagesOf(outcome.error.details?.missing ?? {}).length > 0
    return waits || (call.asked.asksTask && (kind === 'tool error' || kind === 'ask'))
  }

  async #answerWithTask(call: ResolvedCall, pending: PendingCall): Promise<Answer> {
    const { exchange, target } = call
    const { id, revision } = exchange
    const state = await this.tasks.create(call, pending)
    // A client that disconnected before it got the task cannot read it, and its disconnect cancels the call (MCP-83).
    if (hasLeft(exchange.leaving)) void this.#services.gateway.cancelCall(exchange.principal, state.taskId)
    const members = taskMembers(state, { revision, resultsMs: this.#services.options.resultsMs })
    const result =
      TRAITS[revision].tasks === 'extension'
        ? target.envelope.task(members, state.taskId)
        : target.envelope.complete(`"task":${JSON.stringify(members)}`, { callId: state.taskId })
    return resultAnswer(id, result, { [CALL_ID_HEADER]: callIdToHeader(state.taskId) })
  }

  #toolOf({ principal }: McpExchange, ref: ToolRef) {
    return this.#services.gateway.catalogFor(principal).resolve(ref)
  }

  /** Fails with `missingCapability` if the tool asked something that the client cannot answer (MCP-36). */
  #answerOnce(call: ResolvedCall, reply: CallReply, { missing }: CapabilityWatch, round = 1): Answer {
    if (missing === undefined || reply.outcome.ok) return this.#finish(call, reply, round)
    const data = { requiredCapabilities: REQUIRED_CAPABILITIES[missing] }
    const error = { code: MCP_CODES.missingCapability, message: 'Missing client capability', data }
    return errorAnswer(call.exchange.id, error, { status: 400, headers: callReplyHeaders(reply) })
  }

  /** Continues a call with a returned state, which is untrusted until its signature is checked (MCP-72 to MCP-74). */
  async #continue(call: ResolvedCall, sealed: string): Promise<Answer> {
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
    if (pending !== undefined) {
      const step = await pending.next(call.exchange.leaving?.left, this.#taskAfterMs(call))
      return await this.#answer(call, pending, step, { round })
    }
    const step = await this.#rounds.nextStored(call, state)
    if (step.kind === 'asks')
      return this.#rounds.ask(call, { callId: state.callId, questions: step.questions, round })
    return this.#finish(call, step.reply, round)
  }

  /** Encodes the outcome of a call. If a person has to open pages first, asks for them if the client supports that (MCP/T-11). */
  #finish(call: ResolvedCall, reply: CallReply, round: number): Answer {
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
    { exchange, asked, served }: ResolvedCall,
    { key, callId, waitMs, progress }: RunOptions,
    { ask, leaving }: { readonly ask?: Elicit; readonly leaving?: CallerDeparture | undefined },
  ): CallRequest {
    const headers = exchange.headers ?? NO_HEADERS
    const { traceparent, traceExtras } = exchange
    return {
      tool: served?.ref ?? parseToolName(asked.name) ?? { base: NO_TOOL + asked.name, version: LATEST },
      input: asked.input,
      key,
      freshId: callId,
      traceId: exchange.traceId,
      ...(traceparent === undefined ? undefined : { traceparent, traceExtras }),
      protocol: 'mcp',
      ...decodeRequirements(headers),
      ...readCallScope(headers),
      ...readWait({ headers }),
      ...(waitMs === undefined ? undefined : { waitMs }),
      ...(progress === undefined ? undefined : { onProgress: progress.send }),
      ...messagesFor(exchange),
      ...(ask === undefined ? undefined : { onElicit: ask }),
      ...(exchange.onRecording === undefined ? undefined : { onRecording: exchange.onRecording }),
      leaving,
    }
  }

  #targetOf(
    exchange: McpExchange,
    asked: Pick<ToolCallRequest, 'name' | 'key' | 'modelBytes'>,
    tool: Tool | undefined,
    noun: CallNoun = 'tool',
  ): ReplyTarget {
    const { id, revision, principal, headers } = exchange
    const { options, gateway } = this.#services
    return {
      id,
      noun,
      name: asked.name,
      hasCallId: asked.key !== undefined,
      revision,
      principal,
      envelope: this.#envelopes.of(revision),
      tool,
      modelBytes: asked.modelBytes ?? tool?.policy.modelBytes ?? options.modelBytes ?? 0,
      readToolName: () => readToolName(this.tables.of(gateway.catalogFor(principal))),
      hasHttp: headers !== undefined,
      namedInArguments: exchange.namedInArguments,
      metadataUrl: options.metadataUrl?.(),
    }
  }
}

/** A client without tasks cannot call a tool that runs only as one (MCP-126). */
function taskRequired({ id, revision }: McpExchange, headers: Answer['headers']): Answer {
  if (TRAITS[revision].tasks === 'requested') {
    const message = 'This tool runs only as a task. Send params.task with the call, for example {}.'
    return errorAnswer(id, { code: JSON_RPC_CODES.unknownMethod, message }, { headers })
  }
  return missingTasks(id, headers)
}

/** The client did not declare the extension (MCP-120). */
export function missingTasks(id: McpExchange['id'], headers: Answer['headers'] = {}): Answer {
  const data = { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } }
  const error = { code: MCP_CODES.missingCapability, message: 'Missing client capability', data }
  return errorAnswer(id, error, { status: 400, headers })
}

/** Every answer has a call id, even if no call was made (rule 6). */
function unreadHeaders(
  callId: string = newCallId(),
  code: ErrorCode = 'request_invalid',
): Record<string, string> {
  return { [CALL_ID_HEADER]: callIdToHeader(callId), [ERROR_CODE_HEADER]: code }
}
