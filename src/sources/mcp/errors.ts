import { fault, isToolError, NOT_SHOWN_ADVICE, type ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import { MCP_CODES } from '#protocols/mcp/wire'
import type { McpConnection } from './connection.ts'

/**
 * The errors of requests to an MCP server, and their conversion to the errors of calls. The connection and its transports throw
 * them; calls and discovery convert them.
 * Invariant: `canRetry` is set only if the server did not process the call (rule 9).
 */

/** A JSON-RPC error: one that the server answered with, or one that this client answers with. */
export class RpcError extends Error {
  override readonly name = 'RpcError'
  readonly code: number
  readonly data: JsonValue | undefined

  constructor(code: number, message: string, data?: JsonValue) {
    super(message)
    this.code = code
    this.data = data
  }
}

interface RefusalDetails {
  readonly status: number
  /** The beginning of the body. */
  readonly text: string
  readonly retryAfterMs: number | undefined
  /** The scope that the credential lacks, if the server names it. */
  readonly requiredScope: string | undefined
}

/** The server answered with an HTTP status instead of accepting the message. */
export class HttpRefusal extends Error {
  override readonly name = 'HttpRefusal'
  readonly details: RefusalDetails

  constructor(message: string, details: RefusalDetails) {
    super(message)
    this.details = details
  }
}

/** Nothing was sent: the connection had ended. */
export class NotConnected extends Error {
  override readonly name = 'NotConnected'
  override readonly message = 'Not connected'
}

export class ConnectionClosed extends Error {
  override readonly name = 'ConnectionClosed'
  override readonly message = 'Connection closed'
}

/** The exchange of a request ended without an answer. */
export class StreamEnded extends Error {
  override readonly name = 'StreamEnded'
  override readonly message = 'the stream ended without an answer'
}

export class InvalidResult extends Error {
  override readonly name = 'InvalidResult'

  constructor(method: string, problem: string) {
    super(`Invalid result for ${method}: ${problem}`)
  }
}

/** The connection was refused and not the call, so the call may be sent over a new connection. */
export class StaleConnection extends Error {
  override readonly name = 'StaleConnection'
}

const MAX_TEXT_LENGTH = 2000
const RPC_CODES = { methodNotFound: -32_601, badParams: -32_602 }
/** Statuses with which a server refuses a request without processing it (rule 9). */
const NOT_TAKEN: ReadonlySet<number> = new Set([429, 503])

/** The error of a failed call. `wasAnswered`: the server has processed an earlier round of the call. */
export function toCallError(error: unknown, signal: AbortSignal, wasAnswered: boolean): unknown {
  if (signal.aborted) return signal.reason
  const explained = explainFault(error)
  if (!wasAnswered || !explained.canRetry) return explained
  const { code, message, developerMessage } = explained
  return fault(code, message, {
    cause: error,
    ...(developerMessage === undefined ? {} : { developerMessage }),
  })
}

function explainFault(error: unknown): ToolError {
  if (isToolError(error)) return error
  if (error instanceof HttpRefusal) return explainRefusal(error)
  if (error instanceof RpcError) {
    const text = error.message.slice(0, MAX_TEXT_LENGTH)
    const message = `The MCP server behind the tool answered with error ${error.code}: ${text}`
    return failed(message, { cause: error, errorNumber: error.code })
  }
  if (error instanceof StreamEnded)
    return failed('The MCP server behind the tool ended its stream without an answer.', { cause: error })
  if (error instanceof NotConnected) return unreachable({ cause: error })
  const details = { developerMessage: errorText(error), cause: error }
  return error instanceof ConnectionClosed
    ? failed('The connection to the MCP server behind the tool was closed during the call.', details)
    : failed('The MCP server behind the tool returned no usable answer.', details)
}

/** If the connection was closed because of a message that is too large, the call took effect, and the text must say so (rule 9). */
export function explainLoss(error: unknown, { excess }: McpConnection): unknown {
  if (excess === undefined || !(error instanceof ConnectionClosed)) return error
  const { message, isOfOneCall } = excess
  const setting = message.endsWith('bytes') ? ' An operator can raise `maxMessageBytes` of the source.' : ''
  return fault(
    isOfOneCall ? 'result_too_large' : 'upstream_failed',
    `The MCP server behind the tool sent ${message}, so the answer is not shown. ${NOT_SHOWN_ADVICE}${setting}`,
    { cause: error },
  )
}

function explainRefusal(error: HttpRefusal): ToolError {
  const { status, retryAfterMs, requiredScope } = error.details
  const developerMessage =
    requiredScope === undefined
      ? `HTTP ${status}: ${errorText(error)}`
      : `It needs the scope "${requiredScope.slice(0, MAX_TEXT_LENGTH)}".`
  const details = { developerMessage, cause: error }
  if (NOT_TAKEN.has(status))
    return unreachable({ ...details, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
  if (isCredentialRefusal(error))
    return failed('The MCP server behind the tool refused the credential.', details)
  return failed(`The MCP server behind the tool answered with HTTP ${status}.`, details)
}

function failed(message: string, details: Parameters<typeof fault>[2]): ToolError {
  return fault('upstream_failed', message, details)
}

export function isCredentialRefusal(error: unknown): error is HttpRefusal {
  return error instanceof HttpRefusal && (error.details.status === 401 || error.details.status === 403)
}

/** The message of an error, shortened for developers. */
export function errorText(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, MAX_TEXT_LENGTH)
}

/**
 * True if the connection was refused and not the call: the session or the process has ended, or the server now supports another
 * revision. The server did not process the call, so it may be sent over a new connection.
 */
export function isStale(error: unknown, { isModern, hasSession }: McpConnection): boolean {
  if (error instanceof NotConnected) return true
  if (error instanceof RpcError) return isModern && error.code === MCP_CODES.unsupportedVersion
  if (!(error instanceof HttpRefusal)) return false
  const { status } = error.details
  if (isModern) return status === 400 || status === 404 || status === 405
  return hasSession && (status === 404 || (status === 400 && /session/i.test(error.message)))
}

/** True if the answer shows that the server no longer has the accepted definition. */
export function isOutdated(error: unknown): boolean {
  if (!(error instanceof RpcError)) return false
  const { code } = error
  return (
    code === RPC_CODES.badParams || code === RPC_CODES.methodNotFound || code === MCP_CODES.headerMismatch
  )
}

const UNREACHABLE = 'The MCP server behind the tool cannot be reached right now; nothing was sent to it.'

/** Nothing was sent, so the call may be repeated (rule 9). */
export function unreachable(
  options: {
    readonly developerMessage?: string
    readonly retryAfterMs?: number
    readonly cause?: unknown
  } = {},
): ToolError {
  return fault('upstream_failed', UNREACHABLE, { ...options, canRetry: true })
}
