import type { Principal } from '#kernel/base/principal'
import type { JsonRpcId } from '#protocols/json-rpc'
import type { OperationEnd, OperationLog } from '#protocols/protocol'
import type { TraceContext } from '#protocols/trace-context'
import type { CallNoun } from './codec-entry.ts'
import { type Answer, headerOf, type RequestHeaders, TOOL_ERROR_TYPE } from './codec-message.ts'
import { HEADERS, type Revision } from './wire.ts'

/*
 * Describes MCP requests for spans and duration metrics, by OpenTelemetry's semantic conventions. If telemetry is exported, the
 * transports run each request through `observeRequest`.
 * Invariant: names come from the method table and the caller's catalog, so callers cannot create new ones; arguments, resource
 * addresses and results are not recorded.
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

/** The tool or entry that a request names, as found in the caller's catalog. */
export interface FoundTarget {
  readonly noun: CallNoun
  readonly name: string
}

const EXECUTE = { 'gen_ai.operation.name': 'execute_tool' }
const HTTP = { 'network.transport': 'tcp', 'network.protocol.name': 'http' }
const STDIO = { 'network.transport': 'pipe' }
/** The name recorded for methods that do not exist. */
const OTHER = '_OTHER'
const MAX_ID_LENGTH = 256

/** Runs a request. `run` receives `onFound`, which it calls with the target of the request. */
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

/** `errorType` is absent if the request was answered with a result or was cancelled. */
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
