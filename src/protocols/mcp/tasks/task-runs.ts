import { LATEST, parseToolName, type ToolRef } from '#kernel/base/ids'
import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { CallReply, CallView, Failure } from '#kernel/call/call'
import { decodeRequirements, readCallScope } from '#protocols/call-wire'
import { capabilitiesFromJson, capabilitiesToJson } from '#protocols/mcp/codec-message'
import { questionFromJson, readAnswer } from '#protocols/mcp/codec-question'
import type { McpExchange, McpServices } from '#protocols/mcp/exchange'
import {
  type AskedQuestion,
  askGuard,
  fitsQuestion,
  QUESTION_MS,
  type Questions,
} from '#protocols/mcp/questions'
import { describeFailure, MCP_ANSWERS, pagesOf, type ReplyTarget } from '#protocols/mcp/reply'
import { PendingCall, type PendingCalls } from '#protocols/mcp/revision-2026/pending-calls'
import type { TaskRecord } from '#store/tasks'
import { endOf, refusalFromJson, refusalToJson, type TaskState } from './codec-task.ts'

/*
 * The calls behind tasks: stores their requests, reads their state, continues them, answers their questions and cancels them.
 * `tool-calls.ts` turns a call into a task; the methods of `tasks.ts` use it later.
 * Invariant: a task has no state besides its call. A process that does not run the call sends the same request again with the same
 * call id. This joins, resumes or repeats the call by the rules of durable calls, so no effect starts twice.
 */

/** How long a request waits for a call that it continues, so that it can report questions. */
const CONTINUE_MS = 50
/** How often the store is read for cancellations that another process received. */
const POLL_MS = 1_000

/** A call that becomes a task. */
interface TaskCall {
  readonly exchange: McpExchange
  readonly asked: { readonly name: string; readonly input: JsonObject }
  readonly served: { readonly ref: ToolRef } | undefined
}

type TargetOf = (exchange: McpExchange, name: string, ref: ToolRef) => ReplyTarget

export class TaskRuns {
  readonly #services: McpServices
  readonly #pending: PendingCalls
  readonly #questions: Questions
  readonly #targetOf: TargetOf

  constructor(parts: {
    readonly services: McpServices
    readonly pending: PendingCalls
    readonly questions: Questions
    readonly targetOf: TargetOf
  }) {
    this.#services = parts.services
    this.#pending = parts.pending
    this.#questions = parts.questions
    this.#targetOf = parts.targetOf
  }

  /** Turns a running or refused call into a task, which is durable when this returns (MCP-121). */
  async create(call: TaskCall, pending: PendingCall): Promise<TaskState> {
    const { exchange } = call
    const { principal } = exchange
    const callId = pending.isDone ? (await pending.done).callId : pending.callId
    const atMs = this.#services.clock.nowMs()
    const address = { tenant: principal.tenant, principal: principal.id, callId }
    await this.#services.tasks.begin({ ...address, request: requestToJson(call), atMs })
    const task = (await this.#services.tasks.find(address)) ?? {
      ...{ ...address, request: requestToJson(call), createdAtMs: atMs, refusal: undefined },
    }
    if (pending.isDone) await this.#noteEnd(exchange, task, await pending.done)
    else this.#keep(exchange, task, pending)
    const { createdAtMs } = task
    return { taskId: callId, status: 'working', createdAtMs, updatedAtMs: Math.max(createdAtMs, atMs) }
  }

  /** `undefined` for a task that is unknown, deleted or belongs to another principal (MCP-123). */
  async find({ principal }: McpExchange, taskId: string): Promise<TaskRecord | undefined> {
    const task = await this.#services.tasks.find({
      tenant: principal.tenant,
      principal: principal.id,
      callId: taskId,
    })
    if (task === undefined) return undefined
    // A credential that may not see the tool may not see its tasks (rule 2).
    const ref = readRequest(task).tool
    return this.#services.gateway.catalogFor(principal).resolve(ref) === undefined &&
      (await this.#services.gateway.readCall(principal, taskId)) === undefined
      ? undefined
      : task
  }

  /** The state of the task. Unless `isListed`, a call that does not run in this process is continued first. */
  async state(
    exchange: McpExchange,
    task: TaskRecord,
    { isListed = false }: { readonly isListed?: boolean } = {},
  ): Promise<TaskState> {
    const { gateway } = this.#services
    const { principal } = exchange
    if (task.refusal !== undefined) return this.#ended(exchange, task, refusedReply(task))
    const view = await gateway.readCall(principal, task.callId)
    if (view?.outcome !== undefined) return this.#ended(exchange, task, replyOf(view), view)
    if (isListed) return await this.#open(task, view)
    const running = this.#pending.find(principal, task.callId)
    const pending = running ?? this.#continue(exchange, task)
    if (running === undefined) await pending.next(undefined, CONTINUE_MS)
    if (!pending.isDone) return await this.#open(task, view)
    return await this.#after(exchange, task, await pending.done)
  }

  /** Takes answers by question id, and ignores unknown ids. Returns the problem of an invalid answer. */
  async answer(
    exchange: McpExchange,
    task: TaskRecord,
    answers: ReadonlyMap<string, JsonObject>,
  ): Promise<string | undefined> {
    const { principal } = exchange
    const fitting: { readonly id: string; readonly sent: JsonObject }[] = []
    for (const { id, question } of await this.#openQuestions(task)) {
      const sent = answers.get(id)
      if (sent === undefined) continue
      const read = readAnswer(question, sent)
      if (read === undefined) return `Bad answer in params.inputResponses: ${id}`
      if (!fitsQuestion(question, read)) return `The answer does not match the schema of its question: ${id}`
      fitting.push({ id, sent })
    }
    for (const { id, sent } of fitting) {
      this.#pending.find(principal, task.callId)?.answered(id)
      await this.#questions.deliver(id, principal, sent)
      answers = new Map([...answers].filter(([known]) => known !== id))
    }
    await this.#answerPages(exchange, task, answers)
    return undefined
  }

  /** Cancels the call. If the call was never recorded, the cancellation is recorded in the task. */
  async cancel({ principal }: McpExchange, task: TaskRecord): Promise<void> {
    const { gateway, tasks, clock } = this.#services
    const view = await gateway.cancelCall(principal, task.callId)
    if (view !== undefined || task.refusal !== undefined) return
    const refusal = refusalToJson({ code: 'cancelled', message: 'The call was cancelled before it ran.' })
    await tasks.end(task, { refusal, atMs: clock.nowMs() })
  }

  targetOf(exchange: McpExchange, task: TaskRecord): ReplyTarget {
    const { name, tool } = readRequest(task)
    return this.#targetOf(exchange, name, tool)
  }

  #keep(exchange: McpExchange, task: TaskRecord, pending: PendingCall): void {
    const { principal } = exchange
    this.#pending.add(principal, pending)
    const timer = setInterval(() => void this.#stopIfCancelled(exchange, task), POLL_MS).unref()
    const end = async (): Promise<void> => {
      try {
        await this.#noteEnd(exchange, task, await pending.done)
      } finally {
        clearInterval(timer)
        this.#pending.remove(principal, pending)
      }
    }
    end().catch((err: unknown) => this.#services.log.warn({ err }, 'cannot record the end of a task'))
  }

  /** Another process may have cancelled the task before its call was recorded, but only this one can stop the call. */
  async #stopIfCancelled({ principal }: McpExchange, task: TaskRecord): Promise<void> {
    const { gateway, tasks, log } = this.#services
    try {
      if ((await tasks.find(task))?.refusal !== undefined) await gateway.cancelCall(principal, task.callId)
    } catch (err) {
      log.warn({ err }, 'cannot read the cancellation of a task')
    }
  }

  /** Sends the request of the task again under its call id. */
  #continue(exchange: McpExchange, task: TaskRecord): PendingCall {
    const { callId } = task
    const { principal } = exchange
    const { tool, input, capabilities, userId, runId, sessionId } = readRequest(task)
    const pending = new PendingCall({ callId, principal, questions: this.#questions, early: undefined })
    let cleaned: Promise<void> | undefined
    const ask = askGuard(
      async (question) => {
        cleaned ??= this.#endStaleQuestions(task)
        await cleaned
        return await pending.ask(question)
      },
      capabilities,
      { missing: undefined },
    )
    pending.start(
      this.#services.gateway.call(principal, {
        ...{ tool, input, key: callId, traceId: exchange.traceId, protocol: 'mcp', onElicit: ask },
        ...decodeRequirements(exchange.headers ?? {}),
        ...{ userId, runId, sessionId },
      }),
    )
    this.#keep(exchange, task, pending)
    return pending
  }

  /** Before the first question of a continued run, all open questions of the call belong to an interrupted run. */
  async #endStaleQuestions({ tenant, principal, callId }: TaskRecord): Promise<void> {
    const { callers } = this.#services
    for (const { id } of await callers.openQuestions(tenant, principal, callId))
      await callers.endQuestion({ tenant, id })
  }

  async #openQuestions({ tenant, principal, callId }: TaskRecord): Promise<readonly AskedQuestion[]> {
    const found = await this.#services.callers.openQuestions(tenant, principal, callId)
    return found.flatMap(({ id, question }) => {
      const read = questionFromJson(question)
      return read === undefined ? [] : [{ id, question: read }]
    })
  }

  #ended(exchange: McpExchange, task: TaskRecord, reply: CallReply, view?: CallView): TaskState {
    const { callId: taskId, createdAtMs } = task
    const updatedAtMs = Math.max(createdAtMs, view?.finishedAtMs ?? createdAtMs)
    return { taskId, createdAtMs, updatedAtMs, ...endOf(reply, this.targetOf(exchange, task)) }
  }

  async #open(task: TaskRecord, view: CallView | undefined): Promise<TaskState> {
    const questions = await this.#openQuestions(task)
    const message = view?.progress?.message
    const open = { ...this.#base(task), ...(message === undefined ? {} : { message }) }
    return questions.length === 0
      ? { ...open, status: 'working' }
      : { ...open, status: 'input_required', questions }
  }

  #base({ callId: taskId, createdAtMs }: TaskRecord) {
    return { taskId, createdAtMs, updatedAtMs: Math.max(createdAtMs, this.#services.clock.nowMs()) }
  }

  /** The state after a reply: an outcome, pages that a person has to open first, or a temporary obstacle. */
  async #after(exchange: McpExchange, task: TaskRecord, reply: CallReply): Promise<TaskState> {
    const { principal, capabilities } = exchange
    const view = await this.#services.gateway.readCall(principal, task.callId)
    if (view?.outcome !== undefined) return this.#ended(exchange, task, replyOf(view), view)
    const { outcome } = reply
    if (outcome.ok || (view === undefined && isFinalRefusal(outcome)))
      return this.#ended(exchange, task, reply)
    const message = describeFailure(outcome.error)
    const pages = pagesOf(outcome.error.details?.missing ?? {})
    const { name } = readRequest(task)
    const questions: AskedQuestion[] = []
    for (const { key, message: text, challenge } of capabilities.url ? pages : []) {
      const { id, url } = challenge
      const question = { mode: 'url', key, message: `${text}: ${name}`, url, id } as const
      if (!(await this.#services.callers.isSpent(task.tenant, pageMark(task, id))))
        questions.push({ id, question })
    }
    return questions.length === 0
      ? { ...this.#base(task), status: 'working', message }
      : { ...this.#base(task), status: 'input_required', message, questions }
  }

  /** `accept` means that the page was opened, so it is not asked again; any other action cancels the task. */
  async #answerPages(
    exchange: McpExchange,
    task: TaskRecord,
    answers: ReadonlyMap<string, JsonObject>,
  ): Promise<void> {
    if (answers.size === 0) return
    const { questions = [], status } = await this.state(exchange, task)
    if (status !== 'input_required') return
    for (const { id, question } of questions) {
      const action = question.mode === 'url' ? answers.get(id)?.action : undefined
      if (action === 'accept') {
        const untilMs = this.#services.clock.nowMs() + PAGE_MS
        await this.#services.callers.spend(task.tenant, pageMark(task, id), untilMs)
      } else if (action === 'decline' || action === 'cancel') await this.cancel(exchange, task)
    }
  }

  /** Records the end of the call, at which the retention of the task begins. */
  async #noteEnd({ principal }: McpExchange, task: TaskRecord, { outcome }: CallReply): Promise<void> {
    const { gateway, tasks, clock } = this.#services
    const atMs = clock.nowMs()
    const view = await gateway.readCall(principal, task.callId)
    if (view?.outcome !== undefined) await tasks.end(task, { atMs })
    else if (view === undefined && !outcome.ok && isFinalRefusal(outcome))
      await tasks.end(task, { refusal: refusalToJson(outcome.error), atMs })
  }
}

/** How long an opened page is remembered. */
const PAGE_MS = 6 * QUESTION_MS

function pageMark({ principal, callId }: TaskRecord, id: string): string {
  return JSON.stringify(['task page', principal, callId, id])
}

/** True if nothing ran and the same request would be refused again. */
function isFinalRefusal({ error: { code } }: Failure): boolean {
  const { kind } = MCP_ANSWERS[code]
  return kind !== 'ask' && kind !== 'later' && code !== 'outcome_unknown'
}

function refusedReply({ callId, refusal = {} }: TaskRecord): CallReply {
  return { callId, outcome: { ok: false, error: refusalFromJson(refusal) }, replayed: true }
}

function replyOf({ callId, outcome, runId, untrusted }: CallView): CallReply {
  const ended = outcome ?? { ok: false, error: refusalFromJson({}) }
  return { callId, outcome: ended, runId, replayed: true, ...(untrusted === undefined ? {} : { untrusted }) }
}

function requestToJson({ exchange, asked, served }: TaskCall): JsonObject {
  const headers = exchange.headers ?? {}
  const { runId, sessionId } = readCallScope(headers) ?? {}
  const { userId } = decodeRequirements(headers)
  const { base, version, isOtherName } = served?.ref ?? refOf(asked.name)
  return {
    name: asked.name,
    tool: { base, version, ...(isOtherName === undefined ? {} : { isOtherName }) },
    input: asked.input,
    capabilities: capabilitiesToJson(exchange.capabilities),
    ...(userId === undefined ? {} : { userId }),
    ...(runId === undefined ? {} : { runId }),
    ...(sessionId === undefined ? {} : { sessionId }),
  }
}

function refOf(name: string): ToolRef {
  return parseToolName(name) ?? { base: name, version: LATEST }
}

function readRequest({ request }: TaskRecord) {
  const { name, tool, input, capabilities, userId, runId, sessionId } = request
  const textOf = (value: JsonObject[string] | undefined) => (typeof value === 'string' ? value : undefined)
  const { base, version, isOtherName } = isJsonObject(tool) ? tool : {}
  const ref: ToolRef = {
    base: textOf(base) ?? '',
    version: textOf(version) ?? LATEST,
    ...(isOtherName === true ? { isOtherName } : {}),
  }
  return {
    name: textOf(name) ?? '',
    tool: ref,
    input: isJsonObject(input) ? input : {},
    capabilities: capabilitiesFromJson(capabilities),
    userId: textOf(userId),
    runId: textOf(runId),
    sessionId: textOf(sessionId),
  }
}
