import { type ErrorCode, fault, isToolError, type ToolError } from '#core/errors'
import type { JsonObject, JsonValue } from '#core/json'
import type { Principal } from '#core/principal'
import type { Elicitation } from '#core/runtime'
import type { DescribedTool } from './offer-tools.ts'

/** One message of a pack's process, which is one line of JSON; longer ones are not taken. */
export const MOST_MESSAGE_BYTES = 8 * 1024 * 1024

/** What the server and the process of a pack say to each other, as JSON. */
export type ToChild =
  | { readonly type: 'load'; readonly entry: string; readonly mayStartPrograms: boolean }
  | { readonly type: 'invoke'; readonly id: number; readonly call: SentCall }
  | { readonly type: 'abort'; readonly id: number }
  | { readonly type: 'answer'; readonly id: number; readonly ask: number; readonly answer: Answer }

export type ToServer =
  | {
      readonly type: 'loaded'
      readonly tools: readonly DescribedTool[]
      readonly warnings: readonly string[]
    }
  | { readonly type: 'broken'; readonly message: string }
  | { readonly type: 'ended'; readonly id: number; readonly end: Answer }
  | { readonly type: 'ask'; readonly id: number; readonly ask: number; readonly question: Question }
  | {
      readonly type: 'progress'
      readonly id: number
      readonly done: number
      readonly total?: number | undefined
      readonly message?: string | undefined
    }
  | {
      readonly type: 'log'
      readonly id: number
      readonly level: LogLevel
      readonly fields: Readonly<Record<string, unknown>>
      readonly message: string
    }

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** One call with everything that its tool may ask for at once; credentials only those it declared. */
export interface SentCall {
  readonly nativeName: string
  readonly input: JsonObject
  readonly callId: string
  readonly traceId: string
  readonly principal: Principal
  readonly userId: string | undefined
  readonly claimedUserId: string | undefined
  readonly userInfo: JsonValue | undefined
  readonly tokens: Readonly<Record<string, string>>
  readonly secrets: Readonly<Record<string, string>>
  readonly effectKey: string
}

export type Question =
  | { readonly what: 'fetch'; readonly url: string; readonly init: SentRequest }
  | { readonly what: 'elicit'; readonly question: Elicitation }

export interface SentRequest {
  readonly method: string
  readonly headers: readonly (readonly [string, string])[]
  /** In base64. */
  readonly body?: string | undefined
  readonly redirect: Request['redirect']
}

export interface SentResponse {
  readonly status: number
  readonly statusText: string
  readonly headers: readonly (readonly [string, string])[]
  /** In base64. */
  readonly body: string
}

export type Answer =
  | { readonly ok: true; readonly value?: unknown }
  | { readonly ok: false; readonly error: SentError }

/** An error that can cross; `said` tells a `ToolError`, whose text is meant for callers, from anything else. */
export interface SentError {
  readonly said: boolean
  readonly code: ErrorCode
  readonly message: string
  readonly developerMessage?: string | undefined
  readonly canRetry: boolean
  readonly retryAfterMs?: number | undefined
  readonly additionalPromptContent?: string | undefined
  readonly errorNumber?: number | undefined
}

const LONGEST_TEXT = 20_000

export function sentError(error: unknown): SentError {
  const said = isToolError(error)
  const message = error instanceof Error ? error.message : String(error)
  const developerMessage = said ? error.developerMessage : error instanceof Error ? error.stack : undefined
  return {
    said,
    code: said ? error.code : 'tool_failed',
    message: String(message).slice(0, LONGEST_TEXT),
    developerMessage: developerMessage?.slice(0, LONGEST_TEXT),
    canRetry: said && error.canRetry,
    retryAfterMs: said && Number.isFinite(error.retryAfterMs) ? error.retryAfterMs : undefined,
    additionalPromptContent: said ? error.additionalPromptContent?.slice(0, LONGEST_TEXT) : undefined,
    errorNumber: said ? error.errorNumber : undefined,
  }
}

/** The same error on the other side. */
export function receivedError(sent: SentError): ToolError | Error {
  const { said, code, message, developerMessage, retryAfterMs, additionalPromptContent, errorNumber } = sent
  if (!said)
    return Object.assign(
      new Error(message),
      developerMessage === undefined ? {} : { stack: developerMessage },
    )
  return fault(code, message, {
    canRetry: sent.canRetry,
    ...(developerMessage === undefined ? {} : { developerMessage }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(additionalPromptContent === undefined ? {} : { additionalPromptContent }),
    ...(errorNumber === undefined ? {} : { errorNumber }),
  })
}
