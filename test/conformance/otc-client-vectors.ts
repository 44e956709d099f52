import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { CallFailure, type ColletClient, connect, type TriedCall } from '#client/index'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { RemoteTool } from '#protocols/otc/codec-client'

/** One `kind: "client"` line of `vectors/otc.jsonl`. */
export interface ClientVector {
  readonly id: string
  readonly desc: string
  readonly refs: readonly string[]
  readonly given: readonly JsonObject[]
  readonly expect: JsonObject
}

interface SentRequest {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: JsonValue
}

interface Played {
  readonly calls: readonly SentRequest[]
  readonly sent: number
  readonly waits: readonly number[]
  readonly result: TriedCall | undefined
  readonly tools?: readonly RemoteTool[]
  readonly healthy?: boolean
}

const TOOL_ID = 'A.B@1.0.0'

export function readClientVectors(file: URL): readonly ClientVector[] {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
  return lines.flatMap((line) => {
    const vector: JsonValue = JSON.parse(line)
    if (!isJsonObject(vector) || vector.kind !== 'client') return []
    return [
      {
        id: String(vector.id),
        desc: String(vector.desc),
        refs: listOf(vector.refs).map(String),
        given: listOf(vector.given).map(objectOf),
        expect: objectOf(vector.expect),
      },
    ]
  })
}

/** Plays one vector through the public API with an injected `fetch`, and throws where it differs. */
export async function checkClientVector(vector: ClientVector): Promise<void> {
  const played = await play(vector)
  for (const [key, wanted] of Object.entries(vector.expect)) {
    const check = CHECKS[key]
    assert.ok(check, `this runner does not know the expectation "${key}"`)
    check(played, wanted)
  }
}

async function play(vector: ClientVector): Promise<Played> {
  const [first = {}] = vector.given
  const calls: SentRequest[] = []
  const waits: number[] = []
  const answers = [...vector.given]
  let sent = 0
  const fetch = async (url: string, init: RequestInit) => {
    sent += 1
    const { pathname } = new URL(url)
    if (pathname === '/tools' && first.op !== 'list') return listAnswer(first)
    const body: JsonValue = typeof init.body === 'string' ? JSON.parse(init.body) : null
    const headers = new Headers(init.headers)
    calls.push({ method: String(init.method), path: pathname, headers, body })
    return first.op === 'build' ? json({ success: true }) : answer(answers.shift() ?? {})
  }
  const base = { calls, waits }
  const url = typeof first.url === 'string' ? new URL(first.url).origin : 'http://127.0.0.1:4100'
  const outcome = await attempt(() =>
    connect(url, {
      fetch,
      sleep: async (ms) => void waits.push(ms),
      requirements: resolvers(objectOf(first.resolver)),
      ...(typeof first.api_key === 'string' ? { apiKey: first.api_key } : {}),
      ...(typeof first.jwt === 'string' ? { jwt: first.jwt } : {}),
    }),
  )
  if (outcome instanceof CallFailure) return { ...base, sent, result: { ok: false, error: outcome } }
  return { ...base, ...(await operate(outcome, first)), sent }
}

async function operate(client: ColletClient, given: JsonObject) {
  switch (given.op) {
    case 'list':
      return { result: undefined, tools: await client.list() }
    case 'health':
      return { result: undefined, healthy: (await client.health()).healthy }
    case 'request': {
      const listed = await attempt(() => client.list())
      return { result: listed instanceof CallFailure ? { ok: false as const, error: listed } : undefined }
    }
    default: {
      const call = objectOf(given.call)
      const callId = typeof call.call_id === 'string' ? { callId: call.call_id } : {}
      const traceId = given.op === 'build' ? call.trace_id : 'trace-1'
      const options = { ...callId, ...(typeof traceId === 'string' ? { traceId } : {}) }
      return { result: await client.tryCall(toolIdOf(given), objectOf(call.input), options) }
    }
  }
}

const CHECKS: Readonly<Record<string, (played: Played, wanted: JsonValue) => void>> = {
  ok: ({ result }, wanted) => assert.equal(result?.ok, wanted),
  value: ({ result }, wanted) => assert.deepEqual(success(result).value, wanted),
  call_id: ({ result }, wanted) => assert.equal(success(result).callId, wanted),
  duration: ({ result }, wanted) => assert.equal(success(result).durationMs, wanted),
  class: ({ result }, wanted) => assert.equal(failure(result).class, wanted),
  message: ({ result }, wanted) => assert.equal(failure(result).message, wanted),
  can_retry: ({ result }, wanted) => assert.equal(failure(result).canRetry, wanted),
  challenges: ({ result }, wanted) => assert.equal(failure(result).challenges.length, wanted),
  parameter_errors: ({ result }, wanted) => assert.deepEqual(failure(result).parameterErrors, wanted),
  model_text_includes: ({ result }, wanted) =>
    assert.ok(failure(result).modelText.includes(String(wanted)), failure(result).modelText),
  model_text_excludes: ({ result }, wanted) =>
    assert.ok(!failure(result).modelText.includes(String(wanted)), failure(result).modelText),
  retries: ({ result, calls }, wanted) => {
    assert.equal(result?.ok ? result.retries : failure(result).retries, wanted)
    assert.equal(calls.length, Number(wanted) + 1)
  },
  min_wait_ms: ({ waits }, wanted) => assert.ok((waits[0] ?? 0) >= Number(wanted), `waited ${waits[0]} ms`),
  new_call_id: ({ calls }, wanted) => assert.equal(new Set(members(calls, 'call_id')).size > 1, wanted),
  same_call_id: ({ calls }, wanted) => assert.equal(new Set(members(calls, 'call_id')).size === 1, wanted),
  same_trace_id: ({ calls }, wanted) => {
    assert.ok(members(calls, 'trace_id').every((id) => typeof id === 'string'))
    assert.equal(new Set(members(calls, 'trace_id')).size === 1, wanted)
  },
  sent: ({ calls, result }, wanted) => {
    assert.equal(calls.length > 0, wanted)
    assert.equal(failure(result).callId, undefined)
  },
  healthy: ({ healthy }, wanted) => assert.equal(healthy, wanted),
  tools: ({ tools }, wanted) => {
    const shown = tools?.map(({ id, input, output }) => ({ id, input, output }))
    assert.deepEqual(shown, wanted)
  },
  request: ({ calls }, wanted) => {
    const [request] = calls
    assert.ok(request)
    const { method, path, body, headers } = objectOf(wanted)
    assert.deepEqual(
      { method: request.method, path: request.path, body: request.body },
      { method, path, body },
    )
    for (const [name, value] of Object.entries(objectOf(headers))) {
      assert.equal(request.headers.get(name), value, name)
    }
  },
}

/** The list a server of the described dialect gives, with the one tool the vector calls. */
function listAnswer(given: JsonObject): Response {
  const seen = objectOf(given.seen)
  const tool = {
    ...{ id: toolIdOf(given), name: 'a_tool', description: 'd', version: '1.0.0', input_schema: {} },
    ...(given.tool_requirements === undefined ? {} : { requirements: given.tool_requirements }),
  }
  const { $schema, list_key: key = 'items', headers } = seen
  const isBare = key === null || key === 'array'
  const body = isBare ? [tool] : { ...($schema === undefined ? {} : { $schema }), [String(key)]: [tool] }
  return json(body, { headers: stringsOf(headers) })
}

function answer(given: JsonObject): Response {
  if (typeof given.network_error === 'string') {
    throw new TypeError('fetch failed', { cause: new Error(given.network_error) })
  }
  const init = { status: Number(given.status), headers: stringsOf(given.headers) }
  if (given.body === undefined) return new Response(null, init)
  return typeof given.body === 'string' ? new Response(given.body, init) : json(given.body, init)
}

function json(body: unknown, init: ResponseInit = {}): Response {
  return Response.json(body, init)
}

function toolIdOf(given: JsonObject): string {
  const { tool_id: id } = objectOf(given.call)
  return typeof id === 'string' ? id : TOOL_ID
}

function resolvers(known: JsonObject) {
  const lookUp = (id: string) => {
    const value = known[id]
    return typeof value === 'string' ? value : undefined
  }
  return { authorization: lookUp, secrets: lookUp, userId: () => lookUp('user_id') }
}

async function attempt<T>(work: () => T | Promise<T>): Promise<T | CallFailure> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof CallFailure) return error
    throw error
  }
}

function success(result: TriedCall | undefined) {
  assert.ok(result?.ok, result === undefined ? 'no call was made' : JSON.stringify(result))
  return result
}

function failure(result: TriedCall | undefined): CallFailure {
  assert.ok(result?.ok === false, 'the call was expected to fail')
  return result.error
}

/** A member of each request, wrapped or bare. */
function members(calls: readonly SentRequest[], name: string): readonly JsonValue[] {
  return calls.map(({ body }) => {
    const request = isJsonObject(body) && isJsonObject(body.request) ? body.request : objectOf(body)
    return request[name] ?? null
  })
}

function stringsOf(value: JsonValue | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(objectOf(value)).map(([name, text]) => [name, String(text)]))
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {}
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  if (value === undefined) return []
  return Array.isArray(value) ? value : [value]
}
