import type { Principal } from '#kernel/base/principal'
import type { JsonRpcId } from '#protocols/json-rpc'
import type { OperationEnd, OperationLog } from '#protocols/protocol'
import type { TraceContext } from '#protocols/trace-context'
import type { CallNoun } from './codec-entry.ts'
import { type Answer, headerOf, type RequestHeaders, TOOL_ERROR_TYPE } from './codec-message.ts'
import { HEADERS, type Revision } from './wire.ts'

/*
 * Describes MCP requests by the semantic conventions of OpenTelemetry, for spans and durations. The transports run each request
 * through `observeRequest`.
 * Invariant: names come from the method table and the caller's catalog, so that callers cannot create new ones; arguments,
 * addresses of resources and results are not recorded.
 */

interface ObservedRequest {
  readonly id: JsonRpcId
  readonly method: string
  readonly principal: Principal
  readonly trace: TraceContext
  /** Absent before a revision was agreed on. */
  readonly revision: Revision | undefined
  /** Absent on stdio. */
  readonly headers: RequestHeaders | undefined
  /** False for a method that the revision does not have. */
  readonly isKnown: boolean
}

/** What a request named, once it was found in the caller's catalog. */
export interface FoundTarget {
  readonly noun: CallNoun
  readonly name: string
}

const EXECUTE = { 'gen_ai.operation.name': 'execute_tool' }
const HTTP = { 'network.transport': 'tcp', 'network.protocol.name': 'http' }
const STDIO = { 'network.transport': 'pipe' }
/** Stands for methods that do not exist. */
const OTHER = '_OTHER'
const MAX_ID_LENGTH = 256

/** `run` gets the function that takes the target of the request. */
export function observeRequest(
  operations: OperationLog,
  request: ObservedRequest,
  run: (onFound: (target: FoundTarget) => void) => Promise<Answer>,
): Promise<Answer> {
  const { id, revision, headers, principal, trace } = request
  const method = request.isKnown ? request.method : OTHER
  let found: FoundTarget | undefined
  return operations.serve(
    {
      ...{ name: method, principal, trace },
      attributes: {
        'mcp.method.name': method,
        ...(revision === undefined ? {} : { 'mcp.protocol.version': revision }),
        ...(headers === undefined ? STDIO : HTTP),
        ...(method === 'tools/call' ? EXECUTE : {}),
      },
      details: { 'jsonrpc.request.id': String(id).slice(0, MAX_ID_LENGTH) },
    },
    () =>
      run((target) => {
        found = target
      }),
    (answer) => endOf(answer, found, headers),
  )
}

/** An absent error means that the request was answered with a result, or cancelled. */
function endOf(
  { errorType, headers: answered }: Answer,
  found: FoundTarget | undefined,
  headers: RequestHeaders | undefined,
): OperationEnd {
  const session =
    answered[HEADERS.session] ?? (headers === undefined ? undefined : headerOf(headers, HEADERS.session))
  const isNamed = found?.noun === 'tool' || found?.noun === 'prompt'
  return {
    errorType,
    target: isNamed ? found.name : undefined,
    attributes: {
      ...(isNamed ? { [`gen_ai.${found.noun}.name`]: found.name } : {}),
      ...(errorType === undefined || errorType === TOOL_ERROR_TYPE
        ? {}
        : { 'rpc.response.status_code': errorType }),
    },
    details: session === undefined ? {} : { 'mcp.session.id': session.slice(0, MAX_ID_LENGTH) },
  }
}
