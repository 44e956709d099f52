import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import {
  type Answer,
  encodeNotification,
  encodeRequest,
  errorAnswer,
  resultAnswer,
} from '#protocols/mcp/codec-message'
import { toWireQuestion } from '#protocols/mcp/codec-question'
import type { McpExchange, McpFeature, McpMethod, McpServices } from '#protocols/mcp/exchange'
import { QUESTION_MS } from '#protocols/mcp/questions'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { ListenTopic } from '#protocols/mcp/streams'
import { missingTasks, type ToolCalls } from '#protocols/mcp/tool-calls'
import { META, NEW_REVISION, type Revision, TASKS_EXTENSION, TRAITS } from '#protocols/mcp/wire'
import type { TaskRecord } from '#store/tasks'
import { detailedMembers, type TaskState, taskMembers, withRelatedTask } from './codec-task.ts'

/*
 * The methods of tasks: `tasks/get` and `tasks/cancel` in both forms; `tasks/update` and `notifications/tasks` of the extension
 * (MCP-120 to MCP-124); `tasks/result` and `tasks/list` of 2025-11-25 (MCP-125 to MCP-127). `methods.ts` lists the feature.
 * Invariant: to other principals a task is unknown (MCP-123).
 */

const REQUESTED: readonly Revision[] = ['2025-11-25']
const BOTH: readonly Revision[] = [...REQUESTED, NEW_REVISION]
const CAPABILITIES = {
  none: {},
  requested: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
  extension: { extensions: { [TASKS_EXTENSION]: {} } },
} satisfies Record<string, JsonObject>

/** How often a waiting request reads the state of its task. */
const POLL_MS = 250
/** Time limit of `tasks/result`. */
const MAX_WAIT_MS = QUESTION_MS
const PAGE_SIZE = 50
const MAX_FOLLOWED = 100
const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

export interface TaskFeature {
  readonly feature: McpFeature
  readonly topic: ListenTopic
}

export function taskFeature(
  services: McpServices,
  envelopes: ResultEnvelopes,
  calls: ToolCalls,
): TaskFeature {
  const methods = new TaskMethods(services, envelopes, calls)
  return {
    feature: {
      capabilities: {},
      capabilitiesOf: (revision) => CAPABILITIES[TRAITS[revision].tasks],
      methods: [
        ['tasks/get', BOTH, methods.onTask(methods.get)],
        ['tasks/cancel', BOTH, methods.onTask(methods.cancel)],
        ['tasks/update', [NEW_REVISION], methods.onTask(methods.update)],
        ['tasks/result', REQUESTED, methods.onTask(methods.result)],
        ['tasks/list', REQUESTED, methods.list],
      ],
    },
    topic: methods.topic,
  }
}

type TaskMethod = (exchange: McpExchange, task: TaskRecord, params: JsonObject) => Promise<Answer>

class TaskMethods {
  readonly #services: McpServices
  readonly #envelopes: ResultEnvelopes
  readonly #runs: ToolCalls['tasks']

  constructor(services: McpServices, envelopes: ResultEnvelopes, calls: ToolCalls) {
    this.#services = services
    this.#envelopes = envelopes
    this.#runs = calls.tasks
  }

  /** Wraps a method whose params name a task of the caller. */
  onTask(run: TaskMethod): McpMethod {
    return async (params, exchange) => {
      if (lacksExtension(exchange)) return missingTasks(exchange.id)
      const taskId = isJsonObject(params) ? params.taskId : undefined
      const task = typeof taskId === 'string' ? await this.#runs.find(exchange, taskId) : undefined
      return task === undefined || !isJsonObject(params)
        ? unknownTask(exchange)
        : await run(exchange, task, params)
    }
  }

  readonly get: TaskMethod = async (exchange, task) => {
    const state = await this.#runs.state(exchange, task)
    return this.#answer(exchange, this.#members(exchange, task, state))
  }

  readonly update: TaskMethod = async (exchange, task, { inputResponses }) => {
    const answers = readAnswers(inputResponses)
    const problem =
      answers === undefined
        ? 'params.inputResponses must be an object of objects by key.'
        : await this.#runs.answer(exchange, task, answers)
    return problem === undefined ? this.#acknowledge(exchange) : badParams(exchange, problem)
  }

  readonly cancel: TaskMethod = async (exchange, task) => {
    const isExtension = TRAITS[exchange.revision].tasks === 'extension'
    const before = isExtension ? undefined : await this.#runs.state(exchange, task, { isListed: true })
    if (before !== undefined && ENDED.has(before.status))
      return badParams(exchange, `The task has already ended: ${before.status}.`)
    await this.#runs.cancel(exchange, task)
    if (isExtension) return this.#acknowledge(exchange)
    return await this.get(exchange, (await this.#runs.find(exchange, task.callId)) ?? task, {})
  }

  /** Waits for the end of the task, and sends its questions meanwhile (MCP-127). */
  readonly result: TaskMethod = async (exchange, task) => {
    const { id, channel, leaving } = exchange
    const release = this.#services.gateway.enterWaiting(exchange.principal)
    const related = { [META.relatedTask]: { taskId: task.callId } }
    const sent = new Set<string>()
    let lastSent: string | undefined
    const endsAtMs = this.#services.clock.monotonicMs() + MAX_WAIT_MS
    try {
      while (leaving?.left?.aborted !== true && this.#services.clock.monotonicMs() < endsAtMs) {
        const now = (await this.#runs.find(exchange, task.callId)) ?? task
        const state = await this.#runs.state(exchange, now)
        if (state.end !== undefined) return endAnswer(id, state)
        for (const { id: questionId, question } of state.questions ?? []) {
          if (sent.has(questionId) || !channel.canSend) continue
          sent.add(questionId)
          const { method, params } = toWireQuestion(question, exchange.revision, questionId)
          channel.send(encodeRequest(questionId, method, { ...params, _meta: related }), 'question')
        }
        const shown = JSON.stringify([state.status, state.message])
        if (lastSent !== undefined && lastSent !== shown && channel.canSend)
          channel.send(
            encodeNotification('notifications/tasks/status', this.#plain(exchange, state)),
            'notification',
          )
        lastSent = shown
        await nextPoll()
      }
    } finally {
      release()
    }
    const message = 'The task has not ended yet. Send the request again.'
    return errorAnswer(id, { code: JSON_RPC_CODES.internal, message })
  }

  /** The caller's tasks, newest first (MCP-127). The cursor is the id of the last task. */
  readonly list: McpMethod = async (params, exchange) => {
    const { principal } = exchange
    const cursor = isJsonObject(params) ? params.cursor : undefined
    const before = typeof cursor === 'string' ? cursor : undefined
    if (
      cursor !== undefined &&
      (before === undefined || (await this.#runs.find(exchange, before)) === undefined)
    )
      return badParams(exchange, 'params.cursor is not a cursor of this list. List from the start.')
    const owner = { tenant: principal.tenant, principal: principal.id }
    const found = await this.#services.tasks.list(owner, { before, limit: PAGE_SIZE })
    const tasks: JsonObject[] = []
    for (const { callId } of found) {
      const task = await this.#runs.find(exchange, callId)
      if (task !== undefined)
        tasks.push(this.#plain(exchange, await this.#runs.state(exchange, task, { isListed: true })))
    }
    const last = found.length < PAGE_SIZE ? undefined : found.at(-1)?.callId
    const next = last === undefined ? '' : `,"nextCursor":${JSON.stringify(last)}`
    return this.#answer(exchange, `"tasks":${JSON.stringify(tasks)}${next}`)
  }

  /** `notifications/tasks` on `subscriptions/listen` (MCP-128). */
  readonly topic: ListenTopic = async ({ taskIds }, exchange) => {
    if (taskIds === undefined) return { granted: {}, follow: () => () => undefined }
    if (lacksExtension(exchange)) return missingTasks(exchange.id)
    if (!Array.isArray(taskIds) || taskIds.length > MAX_FOLLOWED)
      return badParams(
        exchange,
        `params.notifications.taskIds must be a list of at most ${MAX_FOLLOWED} ids.`,
      )
    const tasks: TaskRecord[] = []
    for (const id of taskIds) {
      const task = typeof id === 'string' ? await this.#runs.find(exchange, id) : undefined
      if (task !== undefined) tasks.push(task)
    }
    return {
      granted: { taskIds: tasks.map(({ callId }) => callId) },
      follow: (send) => {
        const ended = new AbortController()
        for (const task of tasks)
          this.#follow(exchange, task, { send, signal: ended.signal }).catch((err: unknown) =>
            this.#services.log.warn({ err }, 'cannot follow a task'),
          )
        return () => ended.abort()
      },
    }
  }

  /** Sends the task now, and whenever it changes, until it has ended. */
  async #follow(
    exchange: McpExchange,
    task: TaskRecord,
    {
      send,
      signal,
    }: { readonly send: (method: string, params: string) => void; readonly signal: AbortSignal },
  ): Promise<void> {
    let lastSent: string | undefined
    while (!signal.aborted) {
      const now = await this.#runs.find(exchange, task.callId)
      if (now === undefined) return
      const state = await this.#runs.state(exchange, now)
      const shown = JSON.stringify([state.status, state.message, state.questions])
      if (shown !== lastSent && !signal.aborted)
        send('notifications/tasks', this.#members(exchange, now, state))
      lastSent = shown
      if (state.end !== undefined) return
      await nextPoll()
    }
  }

  #members(exchange: McpExchange, task: TaskRecord, state: TaskState): string {
    const members = this.#plain(exchange, state)
    if (TRAITS[exchange.revision].tasks === 'requested') return JSON.stringify(members).slice(1, -1)
    return detailedMembers(state, members, this.#runs.targetOf(exchange, task))
  }

  #plain({ revision }: McpExchange, state: TaskState): JsonObject {
    return taskMembers(state, { revision, resultsMs: this.#services.options.resultsMs })
  }

  #acknowledge({ id, revision }: McpExchange): Answer {
    return resultAnswer(id, this.#envelopes.of(revision).empty())
  }

  #answer({ id, revision }: McpExchange, members: string): Answer {
    return resultAnswer(id, this.#envelopes.of(revision).complete(members))
  }
}

function endAnswer(id: McpExchange['id'], { end, taskId }: TaskState): Answer {
  if (end?.kind === 'result') return resultAnswer(id, withRelatedTask(end, taskId))
  return {
    status: 200,
    headers: {},
    json: `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":${end?.json ?? '{}'}}`,
  }
}

function lacksExtension({ revision, capabilities }: McpExchange): boolean {
  return TRAITS[revision].tasks === 'extension' && capabilities.tasks !== true
}

function unknownTask(exchange: McpExchange): Answer {
  return badParams(
    exchange,
    'There is no such task: its id is wrong, or its result has expired. Call the tool again.',
  )
}

function badParams({ id }: McpExchange, message: string): Answer {
  return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
}

function readAnswers(given: JsonValue | undefined): ReadonlyMap<string, JsonObject> | undefined {
  if (!isJsonObject(given)) return undefined
  const answers = new Map<string, JsonObject>()
  for (const [key, answer] of Object.entries(given)) {
    if (!isJsonObject(answer)) return undefined
    answers.set(key, answer)
  }
  return answers
}

function nextPoll(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS))
}
