import type { ErrorCode, ErrorDetails } from './errors.ts'

/** How a call ended. `valueJson` is the value serialised once: stored, journaled and sent as these bytes. */
export type Outcome = Success | Failure

export interface Success {
  readonly ok: true
  readonly valueJson: string
  readonly shown?: Shown
  /** Run time; absent when nobody knows it, as after a crash. */
  readonly durationMs?: number
}

/** What another MCP server answered besides the value, as JSON texts (`ShownContent`). */
export interface Shown {
  readonly contentJson?: string
  readonly structuredJson?: string
  readonly metaJson?: string
}

export interface Failure {
  readonly ok: false
  readonly error: CallError
  /** Run time; absent when nobody knows it, as after a crash. */
  readonly durationMs?: number
  /** Ended before the tool began: no time was spent in it (OWP-53). */
  readonly neverStarted?: true
}

export interface CallError {
  readonly code: ErrorCode
  /** For the user and the model. */
  readonly message: string
  /** For logs and developers only (OTC-86). */
  readonly developerMessage?: string
  readonly canRetry: boolean
  readonly retryAfterMs?: number
  readonly additionalPromptContent?: string
  /** The tool's own number, for protocols whose error codes are numbers (OTS-40). */
  readonly errorNumber?: number
  /** `unknown` when a started write was cut short: check before repeating (rule 10). */
  readonly effect?: 'unknown'
  readonly details?: ErrorDetails
  /** What the MCP server behind the tool said, where that is more than the message. */
  readonly shown?: Shown
}
