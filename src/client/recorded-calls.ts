import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { ERROR_CODE_HEADER } from '#protocols/call-headers'
import { readCallReply } from '#protocols/otc/codec-client-reply'
import { CallFailure } from './call-failure.ts'
import { type Asked, isSuccess, refused, type ServerResources, unreadable } from './server-resources.ts'

/** A call of one's own, as the server has it on record. */
export interface RecordedCall {
  readonly callId: string
  readonly toolId: string
  /** `running`, `succeeded`, `failed`, `ambiguous` … */
  readonly state: string
  readonly attempt: number
  /** The run whose events tell of it. */
  readonly runId?: string
  readonly traceId?: string
  readonly protocol?: string
  readonly userId?: string
  /** The result was longer ago than the server keeps results. */
  readonly isExpired: boolean
  /** What the call gave, once it has ended. */
  readonly outcome?:
    | { readonly ok: true; readonly value: JsonValue; readonly durationMs?: number }
    | { readonly ok: false; readonly error: CallFailure }
  /** The answer as it came: times, and whatever else the server tells. */
  readonly record: JsonObject
}

/** Calls that were made, by their ids. */
export class Calls {
  readonly #resources: ServerResources

  constructor(resources: ServerResources) {
    this.#resources = resources
  }

  /** Your own calls, the newest first, page after page for as long as the loop goes on. Outcomes are with `get`. */
  async *list({ signal }: Asked = {}): AsyncGenerator<RecordedCall> {
    for (let cursor: string | undefined = ''; cursor !== undefined; ) {
      const path: string = cursor === '' ? '/calls' : `/calls?cursor=${encodeURIComponent(cursor)}`
      const body = await this.#resources.demand('GET', path, { signal })
      if (!isJsonObject(body) || !Array.isArray(body.calls))
        throw unreadable(`GET ${path}`, 'a list of calls')
      const calls: readonly JsonValue[] = body.calls
      yield* calls.flatMap((call) => readRecorded(call) ?? [])
      cursor = typeof body.next_cursor === 'string' ? body.next_cursor : undefined
    }
  }

  /** `undefined` if you made no call with this id. */
  async get(callId: string, { signal }: Asked = {}): Promise<RecordedCall | undefined> {
    return await this.#read('GET', callId, signal)
  }

  /** Asks that a call stops, and gives what it is by then: the first end that was recorded counts. */
  async cancel(callId: string, { signal }: Asked = {}): Promise<RecordedCall | undefined> {
    return await this.#read('DELETE', callId, signal)
  }

  async #read(
    method: 'GET' | 'DELETE',
    callId: string,
    signal: AbortSignal | undefined,
  ): Promise<RecordedCall | undefined> {
    const path = `/calls/${encodeURIComponent(callId)}`
    const answer = await this.#resources.ask(method, path, { signal })
    if (answer.headers.get(ERROR_CODE_HEADER) === 'call_not_found') return undefined
    if (!isSuccess(answer)) throw refused(answer)
    const call = readRecorded(answer.body)
    if (call === undefined) throw unreadable(`${method} ${path}`, 'a call')
    return call
  }
}

function readRecorded(body: JsonValue | undefined): RecordedCall | undefined {
  if (!isJsonObject(body)) return undefined
  const {
    call_id: callId,
    tool_id: toolId,
    state,
    run_id: runId,
    trace_id: traceId,
    protocol,
    user_id: userId,
  } = body
  if (typeof callId !== 'string' || typeof toolId !== 'string' || typeof state !== 'string') return undefined
  return {
    ...{ callId, toolId, state },
    attempt: typeof body.attempt === 'number' ? body.attempt : 1,
    ...(typeof runId === 'string' ? { runId } : {}),
    ...(typeof traceId === 'string' ? { traceId } : {}),
    ...(typeof protocol === 'string' ? { protocol } : {}),
    ...(typeof userId === 'string' ? { userId } : {}),
    isExpired: body.expired === true,
    ...outcomeOf(body, callId),
    record: body,
  }
}

function outcomeOf(body: JsonObject, callId: string): Pick<RecordedCall, 'outcome'> {
  if (body.result === undefined) return {}
  const reading = readCallReply(200, body, { dialect: 'oxp-1.0' })
  if (reading.kind === 'unreadable') return {}
  if (reading.kind === 'failure') {
    const { class: kind, message } = reading.failure
    return { outcome: { ok: false, error: new CallFailure(kind, message, { callId, ...reading.failure }) } }
  }
  const { value, durationMs } = reading
  return { outcome: { ok: true, value, ...(durationMs === undefined ? {} : { durationMs }) } }
}
