// Declares what `await using` needs, for projects whose `lib` is older.
/// <reference lib="esnext.disposable" preserve="true" />
import { defined, isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import type { SourceKind } from '#kernel/tool/tool'
import { ERROR_CODE_HEADER, IDEMPOTENCY_KEY_HEADER } from '#protocols/call-wire'
import type { WireRunEvent, WireToolDescriptor } from '#protocols/openwop/wire'
import { readCallReply, readRefusal } from '#protocols/otc/codec-client-reply'
import type { CallOptions, CallResult } from './call.ts'
import { EVENT_STREAM, IdleTimeout, readEvents } from './event-stream.ts'
import { CallFailure } from './failure.ts'
import { type HttpAnswer, joinSignals, NoAnswer, readText } from './http.ts'
import type { ClientSettings } from './options.ts'
import { backoffMs, noAnswerFailure, pause, sendOrFail } from './retries.ts'

/**
 * Resources of Collet servers besides tool calls: recorded calls, the openwop catalog, sessions and runs.
 * `ColletClient` exposes them. Invariant: every request is safe to repeat, because each POST has an idempotency key.
 */

/** One of the caller's own calls, as the server recorded it. */
export interface RecordedCall {
  readonly callId: string
  readonly toolId: string
  /** `running`, `succeeded`, `failed`, `ambiguous` … */
  readonly state: string
  readonly attempt: number
  /** The run that records the call. */
  readonly runId?: string
  readonly traceId?: string
  readonly protocol?: string
  readonly userId?: string
  /** True if the server has already deleted the result because of its age. */
  readonly isExpired: boolean
  /** The outcome, once the call has ended. */
  readonly outcome?:
    | { readonly ok: true; readonly value: JsonValue; readonly durationMs?: number }
    | { readonly ok: false; readonly error: CallFailure }
  /** The whole answer, including times and further members. */
  readonly record: JsonObject
}

/** Selects the part of a result to read. */
export interface ReadResultOptions extends RequestOptions {
  /** JSON Pointer or dotted path; default the whole value. */
  readonly path?: string | undefined
  /** First item of an array, member of an object, character of a text or byte of a file. */
  readonly offset?: number | undefined
  readonly limit?: number | undefined
  /** Items of an array whose member has this value, or contains this text. */
  readonly where?:
    | { readonly member: string; readonly equals?: string; readonly contains?: string }
    | undefined
  /** The members of an object, or of each item, to return. */
  readonly select?: readonly string[] | undefined
  /** `text`: reads the JSON as plain text, by characters. */
  readonly format?: 'json' | 'text' | undefined
  /** `content`: the content blocks that an MCP server sent. */
  readonly part?: 'value' | 'content' | undefined
  /** Maximum bytes of the value; default 32 000, 0 = no limit. */
  readonly maxBytes?: number | undefined
}

/** A part of a recorded result. */
export interface ReadResult {
  /** JSON Pointer of the part. */
  readonly path: string
  readonly value: JsonValue
  /** What `offset`, `count` and `total` count. */
  readonly unit?: string
  readonly offset?: number
  readonly count?: number
  readonly total?: number
  /** Offset of the next part; absent at the end. */
  readonly nextOffset?: number
  /** The parts of the value that are shortened. */
  readonly leftOut: readonly JsonValue[]
}

export class Calls {
  readonly #resources: ServerResources

  constructor(resources: ServerResources) {
    this.#resources = resources
  }

  /** The caller's own calls, newest first; reads pages while the loop continues. `get` returns outcomes. */
  async *list({ signal }: RequestOptions = {}): AsyncGenerator<RecordedCall> {
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

  /** `undefined` if the caller made no call with this id. */
  async get(callId: string, options: RequestOptions = {}): Promise<RecordedCall | undefined> {
    return await this.#read('GET', callId, options)
  }

  /** Reads a part of the result of one of the caller's calls; throws `CallFailure` if there is no result. */
  async result(callId: string, { signal, ...asked }: ReadResultOptions = {}): Promise<ReadResult> {
    const path = `/calls/${encodeURIComponent(callId)}/result?${resultQuery(asked)}`
    const body = await this.#resources.demand('GET', path, { signal })
    if (!isJsonObject(body) || body.value === undefined || typeof body.path !== 'string')
      throw unreadable('GET /calls/{id}/result', 'a part of a result')
    return {
      ...{ path: body.path, value: body.value },
      ...defined({
        unit: textOf(body.unit),
        offset: numberOf(body.offset),
        count: numberOf(body.count),
        total: numberOf(body.total),
        nextOffset: numberOf(body.next_offset),
      }),
      leftOut: Array.isArray(body.left_out) ? body.left_out : [],
    }
  }

  /** Requests cancellation and returns the call, which may have ended before the request arrived. */
  async cancel(callId: string, options: RequestOptions = {}): Promise<RecordedCall | undefined> {
    return await this.#read('DELETE', callId, options)
  }

  async #read(method: 'GET' | 'DELETE', callId: string, { signal }: RequestOptions) {
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
  const { call_id: callId, tool_id: toolId, state } = body
  if (typeof callId !== 'string' || typeof toolId !== 'string' || typeof state !== 'string') return undefined
  return {
    ...{ callId, toolId, state },
    attempt: typeof body.attempt === 'number' ? body.attempt : 1,
    ...defined({
      runId: textOf(body.run_id),
      traceId: textOf(body.trace_id),
      protocol: textOf(body.protocol),
      userId: textOf(body.user_id),
    }),
    isExpired: body.expired === true,
    ...outcomeOf(body, callId),
    record: body,
  }
}

function resultQuery(asked: Omit<ReadResultOptions, 'signal'>): URLSearchParams {
  const { path, offset, limit, where, select, format, part, maxBytes } = asked
  const sign = where?.equals === undefined ? `~${where?.contains ?? ''}` : `=${where.equals}`
  const written = defined({
    ...{ path, format, part, offset: offset?.toString(), limit: limit?.toString() },
    where: where === undefined ? undefined : `${where.member}${sign}`,
    select: select?.join(','),
    max_bytes: maxBytes?.toString(),
  })
  return new URLSearchParams(written)
}

function numberOf(value: JsonValue | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined
}

function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined
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
  return { outcome: { ok: true, value, ...defined({ durationMs }) } }
}

/** A tool as the openwop catalog describes it. It does not state how to call the tool. */
export type CatalogEntry = WireToolDescriptor
/** One event of a run; `type` and `payload` describe it. */
export type RunEvent = WireRunEvent

interface RequestOptions {
  readonly signal?: AbortSignal | undefined
}

/** Requests to further resources of Collet servers. Each request is safe to repeat. */
export class ServerResources {
  readonly settings: ClientSettings

  constructor(settings: ClientSettings) {
    this.settings = settings
  }

  /** A server address may end with one protocol's path; these resources are next to that path. */
  urlOf(path: string): string {
    return this.settings.server.base.replace(/\/opentool$/, '') + path
  }

  async headers(): Promise<Readonly<Record<string, string>>> {
    return await this.settings.credentials.headers(undefined)
  }

  /** Returns the answer, whatever its status. */
  async ask(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    { signal, body }: RequestOptions & { readonly body?: JsonObject } = {},
  ): Promise<HttpAnswer> {
    const { settings } = this
    // The idempotency key makes a repeated POST safe.
    const key = body === undefined ? {} : { [IDEMPOTENCY_KEY_HEADER]: settings.randomId() }
    const request = {
      method,
      url: this.urlOf(path),
      headers: async () => ({ ...(await this.headers()), ...key }),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }
    const ended = joinSignals(settings.signal, signal)
    return await sendOrFail(request, { settings, signal: ended, dedupes: true, progress: { resent: 0 } })
  }

  /** Returns the body of a successful answer; throws on any other. */
  async demand(...request: Parameters<ServerResources['ask']>): Promise<JsonValue | undefined> {
    const answer = await this.ask(...request)
    if (isSuccess(answer)) return answer.body
    throw refused(answer)
  }

  /** Like `demand`; `undefined` if the server answers 404. */
  async find(...request: Parameters<ServerResources['ask']>): Promise<Pick<HttpAnswer, 'body'> | undefined> {
    const answer = await this.ask(...request)
    if (answer.status === 404) return undefined
    if (isSuccess(answer)) return answer
    throw refused(answer)
  }
}

/** Descriptions of tools as RFC 0078 defines them: safety, approval, requirements, cost. */
export class Catalog {
  readonly #resources: ServerResources

  constructor(resources: ServerResources) {
    this.#resources = resources
  }

  async list({
    source,
    signal,
  }: RequestOptions & { readonly source?: SourceKind } = {}): Promise<readonly CatalogEntry[]> {
    const query = source === undefined ? '' : `?source=${encodeURIComponent(source)}`
    const body = await this.#resources.demand('GET', `/v1/tools${query}`, { signal })
    if (!Array.isArray(body) || !body.every(isEntry)) throw unreadable('GET /v1/tools', 'a catalog')
    return body
  }

  /** Finds a tool by its catalog id (`openwop:Calculator.Add`); `undefined` for a tool that the caller does not see. */
  async get(toolId: string, { signal }: RequestOptions = {}): Promise<CatalogEntry | undefined> {
    const answer = await this.#resources.find('GET', `/v1/tools/${encodeURIComponent(toolId)}`, { signal })
    if (answer === undefined) return undefined
    if (!isEntry(answer.body)) throw unreadable(`GET /v1/tools/${toolId}`, 'a descriptor')
    return answer.body
  }
}

export interface SessionOptions extends RequestOptions {
  /** The run that its calls belong to. Default: a new run. */
  readonly runId?: string
  readonly userId?: string
}

/** State that a tool keeps between calls. Close it, or `await using` it. */
export class ToolSession {
  readonly id: string
  readonly runId: string
  readonly #resources: ServerResources
  readonly #call: (input: JsonObject, options: CallOptions) => Promise<CallResult>

  constructor(
    { id, runId }: { readonly id: string; readonly runId: string },
    resources: ServerResources,
    call: (input: JsonObject, options: CallOptions) => Promise<CallResult>,
  ) {
    this.id = id
    this.runId = runId
    this.#resources = resources
    this.#call = call
  }

  async call(input: JsonObject = {}, options: CallOptions = {}): Promise<CallResult> {
    return await this.#call(input, { ...options, sessionId: this.id })
  }

  /** `false` if the session had already ended. */
  async close({ signal }: RequestOptions = {}): Promise<boolean> {
    const path = `/v1/sessions/${encodeURIComponent(this.id)}`
    return (await this.#resources.find('DELETE', path, { signal })) !== undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

export async function openSession(
  resources: ServerResources,
  toolId: string,
  { runId, userId, signal }: SessionOptions,
): Promise<{ readonly id: string; readonly runId: string }> {
  const terms = defined({ toolId, runId, userId })
  const body = await resources.demand('POST', '/v1/sessions', { signal, body: terms })
  if (!isJsonObject(body) || typeof body.sessionId !== 'string' || typeof body.runId !== 'string') {
    throw unreadable('POST /v1/sessions', 'a session')
  }
  return { id: body.sessionId, runId: body.runId }
}

export class Runs {
  readonly #resources: ServerResources

  constructor(resources: ServerResources) {
    this.#resources = resources
  }

  /**
   * The events of a run as they happen, until it ends or the loop is left. A broken connection is reopened after the
   * last event; `after` resumes an earlier loop at its `sequence`.
   */
  async *events(
    runId: string,
    { after = -1, signal }: RequestOptions & { readonly after?: number } = {},
  ): AsyncGenerator<RunEvent> {
    const { settings } = this.#resources
    const ended = joinSignals(settings.signal, signal)
    let last = after
    for (let attempts = 0; ; attempts += 1) {
      try {
        if (attempts > 0) await pause(backoffMs(attempts - 1), settings, ended)
        for await (const event of this.#follow(runId, last, ended)) {
          attempts = 0
          last = event.sequence
          yield event
        }
        // The stream may also have ended because the server shuts down.
        const page = await this.#poll(runId, last, ended)
        for (const event of page.events) {
          last = event.sequence
          yield event
        }
        if (page.isComplete) return
        throw new NoAnswer('network', 'ended before the run did')
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error
        const mayFollow = error.reason === 'network' || error.reason === 'timeout'
        if (mayFollow && attempts < settings.maxRetries) continue
        const advice = `Continue with \`after: ${last}\`.`
        throw noAnswerFailure(error, `The stream of run ${runId}`, { advice })
      }
    }
  }

  /** Ends the run: it accepts no more calls, and its sessions close. `false` if the caller has no run with this id. */
  async end(runId: string, { signal }: RequestOptions = {}): Promise<boolean> {
    const path = `/v1/runs/${encodeURIComponent(runId)}`
    return (await this.#resources.find('DELETE', path, { signal })) !== undefined
  }

  async *#follow(runId: string, after: number, signal: AbortSignal | undefined): AsyncGenerator<RunEvent> {
    const { settings } = this.#resources
    const wait = new IdleTimeout(settings.timeoutMs, [signal])
    try {
      const response = await settings.fetch(
        this.#resources.urlOf(`/v1/runs/${encodeURIComponent(runId)}/events`),
        {
          method: 'GET',
          headers: {
            ...(await this.#resources.headers()),
            Accept: 'text/event-stream',
            ...(after < 0 ? {} : { 'Last-Event-ID': String(after) }),
          },
          ...{ redirect: 'manual', signal: wait.signal },
        },
      )
      const { status, headers } = response
      if (status !== 200 || !EVENT_STREAM.test(headers.get('content-type') ?? '')) {
        const text = await readText(response, settings.maxResponseBytes, wait.signal)
        throw refused({ status, headers, body: parseJson(text ?? '') })
      }
      for await (const { data } of readEvents(response, settings.maxResponseBytes, wait)) {
        const event = parseJson(data)
        if (isEvent(event)) yield event
      }
    } catch (error) {
      throw wait.reasonFor(error) ?? error
    } finally {
      wait.end()
    }
  }

  async #poll(runId: string, after: number, signal: AbortSignal | undefined) {
    const path = `/v1/runs/${encodeURIComponent(runId)}/events/poll?lastSequence=${after}`
    const body = await this.#resources.demand('GET', path, { signal })
    if (!isJsonObject(body) || !Array.isArray(body.events))
      throw unreadable(`GET ${path}`, 'a page of events')
    const events: readonly JsonValue[] = body.events
    return { events: events.filter(isEvent), isComplete: body.isComplete === true }
  }
}

function isSuccess({ status }: HttpAnswer): boolean {
  return status >= 200 && status < 300
}

/** A refusal in either protocol; for openwop the error name is used as the code. */
function refused({ status, headers, body }: HttpAnswer): CallFailure {
  const refusal = readRefusal(status, body)
  const name = isJsonObject(body) ? textOf(body.error) : undefined
  const code = headers.get(ERROR_CODE_HEADER) ?? name
  const after = Number(headers.get('retry-after') ?? Number.NaN)
  return new CallFailure(refusal.class, refusal.message, {
    ...refusal,
    ...defined({ status, code }),
    ...(Number.isFinite(after) ? { retryAfterMs: after * 1_000, canRetry: true } : {}),
  })
}

function unreadable(request: string, expected: string): CallFailure {
  return new CallFailure('transport', `The answer to ${request} is not ${expected}. Is this a Collet server?`)
}

function isEntry(value: JsonValue | undefined): value is JsonObject & CatalogEntry {
  return isJsonObject(value) && typeof value.toolId === 'string' && typeof value.safetyTier === 'string'
}

function isEvent(value: JsonValue | undefined): value is JsonObject & RunEvent {
  return isJsonObject(value) && typeof value.sequence === 'number' && typeof value.type === 'string'
}
