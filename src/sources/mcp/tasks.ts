import { setTimeout as pause } from 'node:timers/promises'
import { fault, isToolError } from '#kernel/base/errors'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { ToolContext } from '#kernel/tool/tool'
import { isWireObject, type McpConnection, type RequestOptions, textOf } from './connection.ts'
import { errorText, HttpRefusal, isCredentialRefusal, NotConnected, RpcError, StreamEnded } from './errors.ts'
import type { Lease } from './pool.ts'

/**
 * Calls that a server answers with a task: polls until the task has ended, answers its questions, reports its messages as progress
 * and cancels it with the call (MCP-119). `call-tool.ts` sends the call and reads the result.
 * The id of a task is stored with its call, and after a crash the next attempt continues to follow the task (rules 8 and 10).
 * Invariant: a task is created once; an attempt that finds a stored task never reports that nothing took effect; every wait ends with
 * the signal of the call.
 */

/** Params for calling a tool that runs only as a task, in 2025-11-25. */
export const TASK_PARAMS = { task: {} } as const

const MIN_POLL_MS = 100
const MAX_POLL_MS = 5_000
const DEFAULT_POLL_MS = 1_000
/** Number of consecutive polls that may fail. */
const MAX_FAILURES = 5
const CANCEL_MS = 5_000

type KeyedQuestions = readonly (readonly [string, JsonValue])[]

interface TaskCall {
  readonly connection: McpConnection
  readonly context: ToolContext
  readonly options: RequestOptions
  /** Asks the person behind the call. */
  answer(questions: KeyedQuestions): Promise<JsonObject>
}

/** The task that an answer to `tools/call` names, in either form; `undefined` for an ordinary result. */
export function createdTask(result: JsonObject, { isModern }: McpConnection): JsonObject | undefined {
  if (isModern) return result.resultType === 'task' ? result : undefined
  return isWireObject(result.task) && typeof result.task.taskId === 'string' ? result.task : undefined
}

/** Waits for the result of a task. Throws a JSON-RPC error of the task as `RpcError`. */
export async function followTask(call: TaskCall, created: JsonObject): Promise<JsonObject> {
  const taskId = textOf(created.taskId)
  if (taskId === undefined) throw broken('a task without an id')
  try {
    return await (call.connection.isModern ? followModern : followLegacy)(call, { created, taskId })
  } catch (error) {
    if (call.context.signal.aborted) await cancel(call, taskId)
    throw error
  }
}

interface Followed {
  readonly created: JsonObject
  readonly taskId: string
}

/** In 2026-07-28 the task itself contains its questions, its result or its error. */
async function followModern(call: TaskCall, { created, taskId }: Followed): Promise<JsonObject> {
  const reporter = new Reporter(call.context)
  const answered = new Set<string>()
  for (let task = created; ; task = await poll(call, taskId, task.pollIntervalMs)) {
    reporter.report(task.statusMessage)
    switch (task.status) {
      case 'completed':
        if (!isWireObject(task.result)) throw broken('a completed task without a result')
        return { ...task.result, resultType: 'complete' }
      case 'failed':
        throw errorOf(task.error)
      case 'cancelled':
        throw cancelledThere(task.statusMessage)
      case 'input_required': {
        const asked = isWireObject(task.inputRequests) ? Object.entries(task.inputRequests) : []
        // A server may repeat a question that was already answered.
        const fresh = asked.filter(([key]) => !answered.has(key))
        if (fresh.length === 0) break
        const inputResponses = await call.answer(fresh)
        for (const [key] of fresh) answered.add(key)
        await call.connection.call('tasks/update', { taskId, inputResponses }, plain(call))
      }
    }
  }
}

/** In 2025-11-25 `tasks/result` waits for the end, and the server asks its questions meanwhile. */
async function followLegacy(call: TaskCall, { created, taskId }: Followed): Promise<JsonObject> {
  const reporter = new Reporter(call.context)
  let task = created
  while (task.status === 'working') {
    reporter.report(task.statusMessage)
    task = await poll(call, taskId, task.pollInterval)
  }
  reporter.report(task.statusMessage)
  if (task.status === 'cancelled') throw cancelledThere(task.statusMessage)
  return await call.connection.call('tasks/result', { taskId }, { ...call.options, taskId })
}

/** Reads the task after a pause. Tolerates a few failures, because an unreachable server usually still has the task. */
async function poll(call: TaskCall, taskId: string, intervalMs: JsonValue | undefined): Promise<JsonObject> {
  const { signal } = call.context
  const waitMs =
    typeof intervalMs === 'number'
      ? Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, intervalMs))
      : DEFAULT_POLL_MS
  for (let failures = 0; ; ) {
    await pause(waitMs, undefined, { signal })
    try {
      return await call.connection.call('tasks/get', { taskId }, plain(call))
    } catch (error) {
      failures += 1
      if (!isTransient(error) || failures >= MAX_FAILURES || signal.aborted || !call.connection.isOpen)
        throw error
    }
  }
}

function isTransient(error: unknown): boolean {
  if (error instanceof HttpRefusal) return error.details.status >= 500 || error.details.status === 429
  return error instanceof StreamEnded || error instanceof NotConnected || error instanceof TypeError
}

/** Options without the headers that repeat arguments, which belong only to the call itself. */
function plain({ options }: TaskCall): RequestOptions {
  return { signal: options.signal, credentials: options.credentials, parentSpan: options.caller?.traceparent }
}

/** Ignores the answer, because the call has ended for its caller. The server may still finish the task. */
async function cancel({ connection, options }: TaskCall, taskId: string): Promise<void> {
  const { credentials } = options
  const signal = AbortSignal.timeout(CANCEL_MS)
  await connection.request('tasks/cancel', { taskId }, { signal, credentials }).catch(() => undefined)
}

/** Reports the messages of a task as progress. They have no progress value, so their count is used. */
class Reporter {
  readonly #context: ToolContext
  #last: string | undefined
  #count = 0

  constructor(context: ToolContext) {
    this.#context = context
  }

  report(statusMessage: JsonValue | undefined): void {
    const message = textOf(statusMessage)
    if (message === undefined || message === this.#last) return
    this.#last = message
    this.#count += 1
    this.#context.progress(this.#count, undefined, message)
  }
}

function errorOf(error: JsonValue | undefined): Error {
  if (!isWireObject(error)) return broken('a failed task without an error')
  return new RpcError(Number(error.code), textOf(error.message) ?? '', error.data)
}

function cancelledThere(message: JsonValue | undefined): Error {
  return fault('upstream_failed', 'The MCP server behind the tool cancelled the task.', {
    developerMessage: textOf(message) ?? 'The server gave no reason.',
  })
}

function broken(what: string): Error {
  return fault('upstream_failed', 'The MCP server behind the tool returned no usable answer.', {
    developerMessage: `It sent ${what}.`,
  })
}

/** How long the id of a task is stored if its server names no time. */
const DEFAULT_KEEP_MS = 3_600_000
const MAX_KEEP_MS = 24 * DEFAULT_KEEP_MS
const RETRY_MS = 1_000

/** Stores the id of a task with its call. Without a stored id, a crash leaves the call ambiguous. */
export async function keepTask({ resumption, log }: ToolContext, task: JsonObject): Promise<void> {
  const taskId = textOf(task.taskId)
  if (resumption === undefined || taskId === undefined) return
  const ttl = task.ttlMs ?? task.ttl
  const forMs = typeof ttl === 'number' && ttl > 0 ? Math.min(ttl, MAX_KEEP_MS) : DEFAULT_KEEP_MS
  try {
    await resumption.keep({ mcpTask: taskId }, forMs)
  } catch (err) {
    log.warn({ err }, 'the id of a task of an MCP server was not stored; a crash leaves the call ambiguous')
  }
}

/** The id of the task that an earlier attempt stored. */
export async function findKeptTask({ resumption }: ToolContext): Promise<string | undefined> {
  return textOf((await resumption?.find())?.mcpTask)
}

/** Waits for a stored task over any connection. Retries an unreachable server until the call's time limit. */
export async function followKeptTask(
  taskId: string,
  context: ToolContext,
  open: () => Promise<Lease>,
  callOf: (lease: Lease) => TaskCall,
): Promise<JsonObject> {
  const { signal } = context
  for (;;) {
    try {
      const lease = await open()
      try {
        const call = callOf(lease)
        const task = await call.connection
          .call('tasks/get', { taskId }, call.options)
          .catch((error: unknown) => {
            throw isLost(error) ? lostTask(error) : error
          })
        return await followTask(call, createdTask(task, call.connection) ?? { ...task, taskId })
      } finally {
        lease.release()
      }
    } catch (error) {
      const mayPass = isTransient(error) || (isToolError(error) && error.canRetry)
      if (!mayPass || signal.aborted) throw error
    }
    await pause(RETRY_MS, undefined, { signal })
  }
}

/** True if the server answers but no longer knows the task. */
function isLost(error: unknown): boolean {
  if (error instanceof RpcError) return true
  return (
    error instanceof HttpRefusal &&
    error.details.status < 500 &&
    error.details.status !== 429 &&
    !isCredentialRefusal(error)
  )
}

function lostTask(error: unknown): Error {
  return fault(
    'upstream_failed',
    'The server stopped while the tool was running, and the MCP server behind the tool no longer knows its task. It may or may not have taken effect. Check for its effect before repeating it.',
    { developerMessage: errorText(error) },
  )
}
