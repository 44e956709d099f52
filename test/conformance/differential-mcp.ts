import assert from 'node:assert/strict'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallPlan } from './differential-calls.ts'
import {
  type Request,
  type Response,
  readHeaders,
  scopeHeaders,
  send,
  utf8Header,
  withoutSuggestion,
} from './differential-http.ts'
import type { Answer } from './differential-observation.ts'
import { requirementHeaders } from './differential-opentool.ts'

export const MCP_REVISIONS = ['2025-06-18', '2025-11-25', '2026-07-28'] as const
export type McpRevision = (typeof MCP_REVISIONS)[number]

const ID = 'req-1'
const META = 'io.modelcontextprotocol/'

/** Opens a session for one credential, as revisions before 2026-07-28 need one. */
export async function openMcpSession(
  url: string,
  revision: McpRevision,
  headers: Readonly<Record<string, string>>,
): Promise<string> {
  const params = { protocolVersion: revision, capabilities: {}, clientInfo: { name: 'c', version: '1' } }
  const body = { jsonrpc: '2.0', id: 0, method: 'initialize', params }
  const answer = await send(url, { path: '/mcp', headers, body })
  return `${answer.headers['mcp-session-id']}`
}

export function mcpRequest(
  revision: McpRevision,
  call: CallPlan,
  around: {
    readonly functionName: string
    readonly sessionId: string | undefined
    readonly mcpSession: string | undefined
  },
): Request {
  const { input, key } = call
  const { functionName, mcpSession } = around
  const isInMeta = call.spelling % 2 === 0
  const meta: JsonObject = {
    ...(isInMeta && key !== undefined ? { 'collet/idempotencyKey': key } : {}),
    ...(mcpSession === undefined
      ? { [`${META}protocolVersion`]: revision, [`${META}clientCapabilities`]: {} }
      : {}),
  }
  const args = input === undefined ? {} : { arguments: input }
  return {
    path: '/mcp',
    headers: {
      ...(isInMeta || key === undefined ? {} : { 'idempotency-key': utf8Header(key) }),
      ...requirementHeaders(call),
      ...scopeHeaders(call, around.sessionId),
      ...(mcpSession === undefined ? newHeaders(functionName) : { 'mcp-session-id': mcpSession }),
    },
    body: {
      jsonrpc: '2.0',
      id: ID,
      method: 'tools/call',
      params: { name: functionName, ...args, _meta: meta },
    },
  }
}

function newHeaders(name: string): Record<string, string> {
  const encoded = `=?base64?${Buffer.from(name).toString('base64')}?=`
  return { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': encoded }
}

/** Reads a result or an error. */
export function readMcp(revision: McpRevision, call: CallPlan, response: Response): Answer {
  const { observed, callId, runId } = readHeaders(response, call)
  const { jsonrpc, result, error, id, ...strangers } = response.json
  assert.deepEqual({ jsonrpc, id, ...strangers }, { jsonrpc: '2.0', id: ID })
  if (isJsonObject(error)) {
    const sort = `${response.status}/${JSON.stringify(error.code)}`
    return {
      observation: { ...observed, sort, error: { message: withoutSuggestion(`${error.message}`) } },
      callId,
      runId,
    }
  }
  assert.ok(isJsonObject(result))
  const { resultType, content, structuredContent = null, isError, _meta } = result
  assert.equal(resultType, revision === '2026-07-28' ? 'complete' : undefined)
  assert.ok(Array.isArray(content) && isJsonObject(_meta))
  assert.equal(_meta['collet/callId'], callId)
  const [block] = content
  const text = isJsonObject(block) ? block.text : undefined
  if (isError === true) {
    assert.equal(_meta['collet/errorCode'], observed.code)
    const sort = `${response.status}/isError`
    return { observation: { ...observed, sort, error: { message: `${text}` } }, callId, runId }
  }
  // MCP-66: the text is the value, in the revisions that wrap it too.
  const value: JsonValue = text === undefined ? null : JSON.parse(`${text}`)
  assert.deepEqual(structuredContent, text === undefined ? null : wrapped(revision, structuredContent, value))
  return { observation: { ...observed, sort: `${response.status}`, value }, callId, runId }
}

function wrapped(revision: McpRevision, structured: JsonValue, value: JsonValue): JsonValue {
  if (revision === '2026-07-28') return value
  // An object is wrapped too where its schema does not declare an object (MCP-53).
  const isWrapped = isJsonObject(structured) && Object.keys(structured).join() === 'result'
  return isJsonObject(value) && !isWrapped ? value : { result: value }
}
