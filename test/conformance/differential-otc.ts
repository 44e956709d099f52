import assert from 'node:assert/strict'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Dialect } from '#protocols/otc/wire'
import type { CallPlan } from './differential-calls.ts'
import {
  type Request,
  type Response,
  readHeaders,
  scopeHeaders,
  utf8Header,
  withCoreNames,
} from './differential-http.ts'
import type { Answer } from './differential-observation.ts'
import type { ToolPlan } from './differential-tools.ts'

const OTC_ID = 'otc://1.0'
const OXP_ID = 'urn:oxp:1.0'
const ARCADE_ID = 'https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json'

interface Wire {
  readonly paths: readonly string[]
  readonly idName: 'call_id' | 'execution_id'
  /** The complete body around a call. */
  wrap(call: JsonObject): JsonObject
  /** The part of a 200 that has `success`, and `value` or `error`. */
  unwrap(body: JsonObject): JsonObject
}

const wrapped = (schema: string) => (request: JsonObject) => ({ $schema: schema, request })

/** Written from the ledger (§3.1), not from the codec. */
const WIRES = {
  proto: {
    paths: ['/tools/execute', '/execute'],
    idName: 'execution_id',
    wrap: (call) => ({ $schema: OXP_ID, run_id: 'trace', ...call }),
    unwrap: ({ success = null, execution_id = null, output }) => ({
      success,
      call_id: execution_id,
      ...objectOf(output),
    }),
  },
  execute: {
    paths: ['/tools/execute', '/execute'],
    idName: 'execution_id',
    wrap: wrapped(OTC_ID),
    unwrap: ({ $schema: _schema, response, ...top }) => {
      assert.deepEqual(response, top)
      const { success = null, execution_id = null, output } = top
      return { success, call_id: execution_id, ...outputOf(output) }
    },
  },
  'rfc-call': {
    paths: ['/call'],
    idName: 'call_id',
    wrap: wrapped(ARCADE_ID),
    unwrap: ({ success = null, call_id = null, duration, output, result }) => {
      const reported = { success, call_id, ...outputOf(output) }
      assert.deepEqual(result, { ...reported, duration })
      return reported
    },
  },
  'otc-1.0': {
    paths: ['/tools/call', '/call'],
    idName: 'call_id',
    wrap: wrapped(OTC_ID),
    unwrap: ({ result }) => objectOf(result),
  },
  'oxp-1.0': {
    paths: ['/tools/call', '/call'],
    idName: 'call_id',
    wrap: wrapped(OXP_ID),
    unwrap: ({ result }) => objectOf(result),
  },
  'oxp-header': {
    paths: ['/tools/call', '/call'],
    idName: 'call_id',
    wrap: (call) => call,
    unwrap: (body) => body,
  },
  uts: {
    paths: ['/uts/tools/call'],
    idName: 'call_id',
    wrap: (request) => ({ request }),
    unwrap: (body) => body,
  },
} satisfies Record<Dialect, Wire>

export const DIALECTS: readonly Dialect[] = [
  'proto',
  'execute',
  'rfc-call',
  'otc-1.0',
  'oxp-1.0',
  'oxp-header',
  'uts',
]

/** One of the encodings of a call; `tool` is the tool that it resolves to. */
export function otcRequest(
  dialect: Dialect,
  call: CallPlan,
  around: { readonly tool: ToolPlan | undefined; readonly sessionId: string | undefined },
): Request {
  const wire: Wire = WIRES[dialect]
  const has = (bit: number): boolean => ((call.spelling >> bit) & 1) === 1
  const inputName = has(0) && dialect !== 'oxp-header' && dialect !== 'uts' ? 'inputs' : 'input'
  // A header cannot begin or end with a space, and an empty one is still a key.
  const keyInHeader = has(1)
  const { key } = call
  const members: JsonObject = {
    ...toolOf(dialect, call),
    ...(call.input === undefined ? {} : { [inputName]: call.input }),
    ...(key === undefined || keyInHeader ? {} : { [wire.idName]: key }),
    ...contextOf(dialect, call, { tool: around.tool, has }),
  }
  const bare = dialect === 'uts' && has(2)
  return {
    path: wire.paths[has(3) ? wire.paths.length - 1 : 0] ?? '',
    headers: {
      ...(key !== undefined && keyInHeader ? { 'idempotency-key': utf8Header(key) } : {}),
      ...(dialect === 'oxp-header' || has(4) ? { 'oxp-version': has(5) ? '1.0' : '1.0.0' } : {}),
      ...scopeHeaders(call, around.sessionId),
    },
    body: bare ? members : wire.wrap(members),
  }
}

function toolOf(dialect: Dialect, { base, suffix }: CallPlan): JsonObject {
  if (dialect !== 'proto') return { tool_id: base + suffix }
  const [toolkit = '', name = ''] = base.split('.')
  return { tool: { toolkit, name, ...(suffix === '' ? {} : { version: suffix.slice(1) }) } }
}

interface Spelled {
  readonly tool: ToolPlan | undefined
  has(bit: number): boolean
}

/** C-26: the forms of the drafts mean the same. */
function contextOf(
  dialect: Dialect,
  { tokens, secrets, userId }: CallPlan,
  { tool, has }: Spelled,
): JsonObject {
  const pairs = Object.entries(tokens)
  const needed = tool?.requirements.authorization ?? []
  const isLone = has(6) && pairs.length === 1 && needed.length === 1 && pairs[0]?.[0] === needed[0]?.id
  const list = pairs.map(([id, token]) => ({ id, token }))
  const isBeside = dialect === 'uts' && has(7)
  const context: JsonObject = {
    ...(pairs.length === 0 && has(8)
      ? {}
      : { authorization: isLone ? { token: pairs[0]?.[1] ?? '' } : list }),
    ...(Object.keys(secrets).length === 0 && has(8)
      ? {}
      : { secrets: has(9) ? secrets : Object.entries(secrets).map(([id, value]) => ({ id, value })) }),
    ...(userId === undefined || isBeside ? {} : { user_id: userId }),
  }
  return {
    ...(Object.keys(context).length === 0 ? {} : { context }),
    ...(userId !== undefined && isBeside ? { user_id: userId } : {}),
  }
}

/** Reads an answer as the dialect's own clients do. */
export function readOtc(dialect: Dialect, call: CallPlan, response: Response): Answer {
  const { observed, callId, runId } = readHeaders(response, call)
  const sort = `${response.status}`
  if (response.status !== 200) {
    const { $schema: _schema, ...error } = response.json
    const { call_id: _repeated, ...reported } = error
    return { observation: { ...observed, sort, error: withCoreNames(reported) }, callId, runId }
  }
  const wire: Wire = WIRES[dialect]
  const { success, call_id, value, error } = wire.unwrap(response.json)
  assert.equal(call_id, callId, 'the id in the body is the id in the header (OTC-87)')
  assert.equal(success, error === undefined, '`error` is there exactly when `success` is false (OTC-92)')
  return {
    observation: {
      ...observed,
      sort,
      ...(value === undefined ? {} : { value }),
      ...(error === undefined ? {} : { error: withCoreNames(objectOf(error)) }),
    },
    callId,
    runId,
  }
}

/** C-19: a null, and only a null, has no `output` here. */
function outputOf(output: JsonValue | undefined): JsonObject {
  if (output === undefined) return { value: null }
  const reported = objectOf(output)
  assert.notEqual(reported.value, null, 'null has no `output` (C-19)')
  return reported
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : { malformed: value ?? null }
}
