import { ADD_TOOL, API_KEY, NUMBER_DIGITS } from './servers/add-contract.ts'
import { principalKey } from './servers/principals.ts'

/** A request of the benchmark, in the protocol of its contender. */
export interface BenchRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

/** Placeholder for a number that differs in each request. */
export const NUMBER_MARK = '#'.repeat(NUMBER_DIGITS)
/** The placeholder, used as a call id. */
export const CALL_ID_MARK = NUMBER_MARK

function post(path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): BenchRequest {
  return {
    method: 'POST',
    path,
    headers: { 'x-api-key': API_KEY, 'content-type': 'application/json', ...headers },
    body,
  }
}

/** One OTC call of an add tool. */
export function addCall(toolId: string = ADD_TOOL, callId?: string): BenchRequest {
  return post('/tools/call', {
    $schema: 'urn:oxp:1.0',
    request: {
      tool_id: toolId,
      ...(callId === undefined ? {} : { call_id: callId }),
      input: { a: 2, b: 3 },
    },
  })
}

/** The add call over OpenTool. */
export function opentoolAddCall(): BenchRequest {
  return {
    method: 'POST',
    path: '/opentool/call',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: { jsonrpc: '2.0', method: 'Calculator_Add', params: { a: 2, b: 3 }, id: 'c1' },
  }
}

const MCP_REVISION = '2026-07-28'

/** The add call over MCP: the envelope in `_meta` and the mirrored headers make it stateless. */
export function mcpAddCall(): BenchRequest {
  return post(
    '/mcp',
    {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: 'Calculator_Add',
        arguments: { a: 2, b: 3 },
        _meta: {
          'io.modelcontextprotocol/protocolVersion': MCP_REVISION,
          'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    },
    {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': MCP_REVISION,
      'mcp-method': 'tools/call',
      'mcp-name': 'Calculator_Add',
    },
  )
}

/** The add call for FastMCP: an earlier revision without an envelope, stateless, so that it needs no handshake. */
export function fastmcpAddCall(): BenchRequest {
  const params = { name: 'Calculator_Add', arguments: { a: 2, b: 3 } }
  return post(
    '/mcp',
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
    { accept: 'application/json, text/event-stream' },
  )
}

/** The whole catalog. */
export function listTools(headers: Readonly<Record<string, string>> = {}): BenchRequest {
  return { method: 'GET', path: '/tools', headers: { 'x-api-key': API_KEY, ...headers }, body: undefined }
}

/** The whole openwop catalog, requested by a different caller each time. */
export function describeTools(headers: Readonly<Record<string, string>> = {}): BenchRequest {
  return {
    method: 'GET',
    path: '/v1/tools',
    headers: { 'x-api-key': principalKey(NUMBER_MARK), ...headers },
    body: undefined,
  }
}
