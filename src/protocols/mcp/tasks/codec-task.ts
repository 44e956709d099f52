import type { JsonObject } from '#kernel/base/json'
import type { CallError, CallReply } from '#kernel/call/call'
import { toWireQuestion } from '#protocols/mcp/codec-question'
import type { AskedQuestion } from '#protocols/mcp/questions'
import { encodeReply, MCP_ANSWERS, type ReplyTarget } from '#protocols/mcp/reply'
import { META, type Revision, TRAITS } from '#protocols/mcp/wire'

/*
 * Writes tasks in both forms: in 2025-11-25 a separate method returns the result; in the extension the task itself contains its
 * result, its error or its questions. `tasks.ts` and `task-runs.ts` use it.
 * Invariant: a result in a task has the same bytes as the direct answer to the call.
 */

type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** The current state of a task, as its principal sees it. */
export interface TaskState {
  readonly taskId: string
  readonly status: TaskStatus
  readonly message?: string | undefined
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** Questions that wait for an answer. */
  readonly questions?: readonly AskedQuestion[]
  /** Present if it has ended. */
  readonly end?: TaskEnd
}

/** The result or error of the direct answer to the call, as JSON. */
interface TaskEnd {
  readonly kind: 'result' | 'error'
  readonly json: string
}

/** How often clients should poll. */
const POLL_INTERVAL_MS = 1_000

/** Members of a task without its result. */
export function taskMembers(
  { taskId, status, message, createdAtMs, updatedAtMs }: TaskState,
  { revision, resultsMs }: { readonly revision: Revision; readonly resultsMs: number | undefined },
): JsonObject {
  // Retention begins when the call ends (rule 13), so the time to live since the creation grows while the call runs.
  const ttlMs = resultsMs === undefined ? null : Math.round(updatedAtMs - createdAtMs + resultsMs)
  const times =
    TRAITS[revision].tasks === 'extension'
      ? { ttlMs, pollIntervalMs: POLL_INTERVAL_MS }
      : { ttl: ttlMs, pollInterval: POLL_INTERVAL_MS }
  return {
    taskId,
    status,
    ...(message === undefined ? {} : { statusMessage: message }),
    createdAt: new Date(createdAtMs).toISOString(),
    lastUpdatedAt: new Date(updatedAtMs).toISOString(),
    ...times,
  }
}

/** The task with its result, its error or its questions, as JSON without braces (MCP-122). */
export function detailedMembers(state: TaskState, members: JsonObject, target: ReplyTarget): string {
  const own = JSON.stringify(members).slice(1, -1)
  const { status, end, questions = [] } = state
  if (status === 'input_required')
    return `${own},"inputRequests":${JSON.stringify(toInputRequests(questions, target))}`
  return end === undefined || status === 'cancelled' ? own : `${own},"${end.kind}":${end.json}`
}

/** The key of a question is its id, so that no key is used twice in a task. */
function toInputRequests(questions: readonly AskedQuestion[], { revision }: ReplyTarget): JsonObject {
  return Object.fromEntries(
    questions.map(({ id, question }) => {
      const { method, params } = toWireQuestion(question, revision, id)
      return [id, { method, params }]
    }),
  )
}

const RESULT = '{"jsonrpc":"2.0","id":0,"result":'
const ERROR = '{"jsonrpc":"2.0","id":0,"error":'

/** How a call ended. `failed` is a failure of the protocol in the extension (MCP-122), and any failure in 2025-11-25 (MCP-125). */
export function endOf(
  reply: CallReply,
  target: ReplyTarget,
): Required<Pick<TaskState, 'status' | 'end'>> & Pick<TaskState, 'message'> {
  const { outcome, callId } = reply
  // Tools and upstreams may set a JSON-RPC error code. A task can return it, the direct answer to a call cannot.
  if (!outcome.ok && outcome.error.errorNumber !== undefined) {
    const { code, message, errorNumber } = outcome.error
    const json = JSON.stringify({ code: errorNumber, message, data: { call_id: callId, code } })
    return { status: 'failed', end: { kind: 'error', json }, message }
  }
  const { json = '' } = encodeReply(reply, { ...target, id: 0 })
  const end: TaskEnd = json.startsWith(RESULT)
    ? { kind: 'result', json: json.slice(RESULT.length, -1) }
    : { kind: 'error', json: json.slice(ERROR.length, -1) }
  if (outcome.ok) return { status: 'completed', end }
  const { code, message } = outcome.error
  if (code === 'cancelled') return { status: 'cancelled', end, message }
  const isCompleted = end.kind === 'result' && TRAITS[target.revision].tasks === 'extension'
  return isCompleted ? { status: 'completed', end } : { status: 'failed', end, message }
}

/** For 2025-11-25: adds the task id to the result. Results of calls end with a non-empty `_meta`, where the id is inserted. */
export function withRelatedTask({ json }: TaskEnd, taskId: string): string {
  return `${json.slice(0, -2)},${JSON.stringify(META.relatedTask)}:${JSON.stringify({ taskId })}}}`
}

export function refusalToJson({ code, message }: Pick<CallError, 'code' | 'message'>): JsonObject {
  return { code, message }
}

/** Reads a stored refusal; a code that another version wrote is `tool_failed`. */
export function refusalFromJson({ code, message }: JsonObject): CallError {
  const known = Object.keys(MCP_ANSWERS).find((name) => name === code)
  return {
    code: isErrorCode(known) ? known : 'tool_failed',
    message: typeof message === 'string' ? message : 'The call was refused.',
    canRetry: false,
  }
}

function isErrorCode(code: string | undefined): code is CallError['code'] {
  return code !== undefined && Object.hasOwn(MCP_ANSWERS, code)
}
