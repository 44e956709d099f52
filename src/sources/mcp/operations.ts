import type { JsonObject } from '#kernel/base/json'
import type { SourceServices } from '#sources/kit/source'
import { HttpRefusal, RpcError } from './errors.ts'
import type { Endpoint } from './upstream.ts'

/**
 * Describes requests to an MCP server for CLIENT spans and duration metrics, by OpenTelemetry's semantic conventions. Connections
 * report each request; the server's telemetry records it.
 * Invariant: arguments, resource addresses and results are not recorded.
 */

/** One request that a connection sends. */
interface SentRequest {
  readonly id: number
  readonly method: string
  readonly params: JsonObject
  readonly revision: string | undefined
  readonly sessionId: string | undefined
  /** `traceparent` of the call behind the request. */
  readonly parent: string | undefined
}

interface ObservedRequest {
  /** The span of the request, which is sent to the server. */
  readonly traceparent: string | undefined
  answered(result: JsonObject): void
  failed(error: unknown): void
}

export type StartRequest = (request: SentRequest) => ObservedRequest

/** Returns `undefined` if no telemetry is exported. */
export function requestObserver(
  { telemetry }: SourceServices,
  key: string,
  endpoint: Endpoint,
): StartRequest | undefined {
  if (telemetry === undefined) return undefined
  const where = { ...placeOf(endpoint), 'collet.source': key }
  return ({ id, method, params, revision, sessionId, parent }) => {
    const target = targetOf(method, params)
    const started = telemetry.start({
      ...{ name: method, target: target?.name, parent },
      attributes: {
        'mcp.method.name': method,
        ...(revision === undefined ? {} : { 'mcp.protocol.version': revision }),
        ...where,
        ...target?.attributes,
      },
      details: {
        'jsonrpc.request.id': String(id),
        ...(sessionId === undefined ? {} : { 'mcp.session.id': sessionId }),
      },
    })
    return {
      traceparent: started.traceparent,
      answered: ({ isError }) => started.end(isError === true ? 'tool_error' : undefined),
      failed: (error) => started.end(errorTypeOf(error)),
    }
  }
}

function placeOf(endpoint: Endpoint): Readonly<Record<string, string | number>> {
  if (endpoint.transport === 'stdio') return { 'network.transport': 'pipe' }
  const { hostname, port, protocol } = new URL(endpoint.url)
  return {
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'server.address': hostname,
    'server.port': port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
  }
}

/** Names are safe to record, because they come from accepted definitions. */
function targetOf(method: string, { name }: JsonObject) {
  if (typeof name !== 'string') return undefined
  if (method === 'tools/call')
    return { name, attributes: { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': name } }
  return method === 'prompts/get' ? { name, attributes: { 'gen_ai.prompt.name': name } } : undefined
}

function errorTypeOf(error: unknown): string {
  if (error instanceof RpcError) return String(error.code)
  if (error instanceof HttpRefusal) return String(error.details.status)
  return error instanceof Error ? error.name : '_OTHER'
}
