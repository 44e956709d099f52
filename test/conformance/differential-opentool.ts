import assert from 'node:assert/strict'
import { isJsonObject } from '#kernel/base/json'
import type { CallPlan } from './differential-calls.ts'
import {
  type Request,
  type Response,
  readHeaders,
  scopeHeaders,
  utf8Header,
  withCoreNames,
  withoutSuggestion,
} from './differential-http.ts'
import type { Answer } from './differential-observation.ts'

const ID = 'req-1'

export function opentoolRequest(
  call: CallPlan,
  around: { readonly functionName: string; readonly sessionId: string | undefined },
): Request {
  const { input, key } = call
  return {
    path: '/opentool/call',
    headers: {
      ...(key === undefined ? {} : { 'idempotency-key': utf8Header(key) }),
      ...requirementHeaders(call),
      ...scopeHeaders(call, around.sessionId),
    },
    body: {
      jsonrpc: call.spelling % 2 === 0 ? '2.0' : '2.0.0',
      method: around.functionName,
      ...(input === undefined ? {} : { params: input }),
      id: ID,
    },
  }
}

/** The requirements of a call as headers, for protocols without members for them. */
export function requirementHeaders({ tokens, secrets, userId }: CallPlan): Record<string, string> {
  return {
    ...pairs('collet-authorization', tokens),
    ...pairs('collet-secret', secrets),
    ...(userId === undefined ? {} : { 'collet-user': encodeURIComponent(userId) }),
  }
}

function pairs(name: string, given: Readonly<Record<string, string>>): Record<string, string> {
  const all = Object.entries(given).map(
    ([id, text]) => `${encodeURIComponent(id)}=${Buffer.from(text).toString('base64url')}`,
  )
  return all.length === 0 ? {} : { [name]: all.join(', ') }
}

/** Reads the four keys (OTS-37); the error number follows the status. */
export function readOpentool(call: CallPlan, response: Response): Answer {
  const { observed, callId, runId } = readHeaders(response, call)
  const { jsonrpc, result = null, error = null, id, ...strangers } = response.json
  assert.deepEqual({ jsonrpc, id, ...strangers }, { jsonrpc: '2.0', id: ID })
  if (!isJsonObject(error)) {
    assert.equal(error, null)
    return { observation: { ...observed, sort: `${response.status}`, value: result }, callId, runId }
  }
  assert.deepEqual(result, {}, '`result` is {} beside an error (OTS-39)')
  const { code, data = {} } = error
  const message = withoutSuggestion(`${error.message}`)
  const { code: reportedCode, call_id: calledId, ...reported } = isJsonObject(data) ? data : {}
  if (reportedCode !== undefined) assert.deepEqual([reportedCode, calledId], [observed.code, callId])
  const sort = `${response.status}/${JSON.stringify(code)}`
  return { observation: { ...observed, sort, error: withCoreNames({ message, ...reported }) }, callId, runId }
}
