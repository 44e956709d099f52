import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/client'
import { fault, isToolError, NOT_SHOWN_ADVICE, type ToolError } from '#kernel/base/errors'
import { type CallScope, type Connection, STREAM_ENDED } from './connection.ts'

const MAX_TEXT_LENGTH = 2000
const UNSUPPORTED_VERSION = -32_022
const HEADER_MISMATCH = -32_020

/** Statuses by which a server says that it did not take the request (rule 9). */
const REFUSALS: ReadonlySet<number> = new Set([429, 503])

/** How a call that could not be carried out ends. `wasAnswered`: an earlier round of it was processed. */
export function toCallError(
  error: unknown,
  { context, retryAfterMs }: CallScope,
  wasAnswered: boolean,
): unknown {
  if (context.signal.aborted) return context.signal.reason
  const explained = explainFault(error, retryAfterMs)
  if (!wasAnswered || !explained.canRetry) return explained
  const { code, message, developerMessage } = explained
  return fault(code, message, {
    cause: error,
    ...(developerMessage === undefined ? {} : { developerMessage }),
  })
}

function explainFault(error: unknown, retryAfterMs: number | undefined): ToolError {
  if (isToolError(error)) return error
  if (error instanceof SdkHttpError) return explainStatus(error, retryAfterMs)
  if (error instanceof ProtocolError) return explainAnswer(error)
  if (isNotSent(error)) return unreachable({ cause: error })
  const developerMessage = reasonOf(error)
  if (isLoss(error))
    return failed('The MCP server behind the tool went away during the call.', {
      developerMessage,
      cause: error,
    })
  if (isForbidden(error)) return refused({ developerMessage: lackOf(error), cause: error })
  return failed('The MCP server behind the tool gave no usable answer.', { developerMessage, cause: error })
}

function isLoss(error: unknown): boolean {
  return error instanceof SdkError && error.code === SdkErrorCode.ConnectionClosed
}

/** A program that was ended because of its answer did what the call asked for, which the text must not hide (rule 9). */
export function explainLoss(error: unknown, { unread }: Connection): unknown {
  if (unread === undefined || !isLoss(error)) return error
  const { message, isOfOneCall } = unread
  const setting = message.endsWith('bytes') ? ' An operator can raise `maxMessageBytes` of the source.' : ''
  return fault(
    isOfOneCall ? 'result_too_large' : 'upstream_failed',
    `The MCP server behind the tool sent ${message}, so the answer is not shown. ${NOT_SHOWN_ADVICE}${setting}`,
    { cause: error },
  )
}

function explainStatus(error: SdkHttpError, retryAfterMs: number | undefined): ToolError {
  const { status } = error
  const developerMessage = `HTTP ${status}: ${reasonOf(error)}`
  if (REFUSALS.has(status))
    return unreachable({
      developerMessage,
      cause: error,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    })
  if (isRefusal(error)) return refused({ developerMessage, cause: error })
  return failed(`The MCP server behind the tool answered with HTTP ${status}.`, {
    developerMessage,
    cause: error,
  })
}

function explainAnswer(error: ProtocolError): ToolError {
  if (error.code === STREAM_ENDED)
    return failed('The MCP server behind the tool broke off before its answer.', { cause: error })
  const text = error.message.slice(0, MAX_TEXT_LENGTH)
  return failed(`The MCP server behind the tool answered with error ${error.code}: ${text}`, {
    cause: error,
    errorNumber: error.code,
  })
}

type Details = Parameters<typeof fault>[2]

function failed(message: string, details: Details): ToolError {
  return fault('upstream_failed', message, details)
}

function refused(details: Details): ToolError {
  return failed('The MCP server behind the tool refused the credential it was given.', details)
}

/** Whether the upstream did not take the credential. */
export function isRefusal(error: unknown): error is SdkHttpError {
  return error instanceof SdkHttpError && (error.status === 401 || error.status === 403)
}

function isForbidden(error: unknown): error is Error {
  return error instanceof Error && /^(?:UnauthorizedError|InsufficientScopeError)$/.test(error.name)
}

/** What to ask for next time, as far as the upstream says it. */
function lackOf(error: Error): string {
  const scope = 'requiredScope' in error ? error.requiredScope : undefined
  return typeof scope === 'string'
    ? `It needs the scope "${scope.slice(0, MAX_TEXT_LENGTH)}".`
    : reasonOf(error)
}

/** Whether the client had no connection to send on. */
function isNotSent(error: unknown): boolean {
  if (error instanceof SdkError) return error.code === SdkErrorCode.NotConnected
  return error instanceof Error && error.message === 'Not connected'
}

/** Short and for developers. */
export function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, MAX_TEXT_LENGTH)
}

/**
 * Whether the connection, and not the call, was refused: an ended session, another era, a process that is gone.
 * The upstream did not process the call, so that it may go over a new connection.
 */
export function isStale(error: unknown, connection: Connection): boolean {
  if (isNotSent(error)) return true
  if (error instanceof ProtocolError) return connection.isModern && error.code === UNSUPPORTED_VERSION
  if (!(error instanceof SdkHttpError)) return false
  const { status } = error
  if (connection.isModern) return status === 400 || status === 404 || status === 405
  if (!connection.hasSession) return false
  return status === 404 || (status === 400 && /session/i.test(error.message))
}

/** Whether the answer says that the accepted definition is not the upstream's any more. */
export function isOutdated(error: unknown): boolean {
  if (!(error instanceof ProtocolError)) return false
  return error.code === -32_602 || error.code === -32_601 || error.code === HEADER_MISMATCH
}

/** Thrown when a request was not processed because of the connection it went over. */
export class StaleConnection extends Error {
  override readonly name = 'StaleConnection'
}

const MESSAGE = 'The MCP server behind the tool cannot be reached right now; nothing was sent to it.'

/** Nothing was sent: the one case in which a call may be repeated (rule 9). */
export function unreachable(
  options: {
    readonly developerMessage?: string
    readonly retryAfterMs?: number
    readonly cause?: unknown
  } = {},
): ToolError {
  return fault('upstream_failed', MESSAGE, { ...options, canRetry: true })
}
