import type { Elicit } from '#kernel/base/elicitation'
import type { ErrorCode, ErrorDetails } from '#kernel/base/errors'
import type { ToolRef } from '#kernel/base/ids'
import type { JsonValue } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import type { ClientMessage, MessageLevel, Tool } from '#kernel/tool/tool'

/**
 * Types of calls that cross the kernel's boundary: request, reply, outcome, error, and the view of a principal's own call.
 * Protocol codecs read and write them. Wire spelling stays in the codecs; credentials in a request are never stored.
 */

/**
 * `parked`: waits for approval, or is a suspended workflow. `running`: claimed by a writer (a server process). `released`:
 * failed without effect, as the tool states, so it may run again. `ambiguous`: interrupted by a crash; an operator must settle it.
 */
export const CALL_STATES = ['parked', 'running', 'succeeded', 'failed', 'released', 'ambiguous'] as const
export type CallState = (typeof CALL_STATES)[number]

/** The part of a call that its own principal may see (rule 10). */
export interface CallView {
  readonly callId: string
  readonly record: string
  readonly runId: string
  readonly traceId: string
  readonly protocol: CallProtocol | undefined
  /** The user id that the caller claimed. */
  readonly userId: string | undefined
  readonly tool: string
  readonly state: CallState
  readonly attempt: number
  readonly createdAtMs: number
  readonly finishedAtMs: number | undefined
  readonly outcome: Outcome | undefined
  readonly expired: boolean
  /** A third party wrote the content of the outcome. */
  readonly untrusted?: true
  /** The tool's last report of progress, while it runs in this process. */
  readonly progress?: Progress
}

export interface CallsQuery {
  /** Cursor returned with the previous page; absent for the first page. */
  readonly cursor?: string
  readonly limit: number
}

export interface CallsPage {
  readonly calls: readonly CallView[]
  /** Cursor for the next page; absent on the last page. A short or empty page may still have a cursor. */
  readonly cursor?: string
}

export const CALL_PROTOCOLS = ['otc', 'opentool', 'openwop', 'mcp'] as const

export type CallProtocol = (typeof CALL_PROTOCOLS)[number]

/** One request to run one tool, as decoded by a protocol's codec. */
export interface CallRequest {
  readonly tool: ToolRef
  /** The tool's input; absent means `{}` (OTC-48). */
  readonly input: JsonValue | undefined
  /** The caller's idempotency key, already checked by `checkCallKey` (rule 4). */
  readonly key: string | undefined
  readonly traceId: string | undefined
  /** Protocol of the request; absent for in-process calls. */
  readonly protocol?: CallProtocol
  /** W3C trace context of this request, passed on in requests that the tool makes. */
  readonly traceparent?: string | undefined
  /** `tracestate` and `baggage` of the caller's trace, passed on unchanged with `traceparent`. */
  readonly traceExtras?: Readonly<Record<string, string>> | undefined
  /** The user the caller claims to act for; `proveUser` decides whether that is proven (OTC/T-27). */
  readonly userId: string | undefined
  /** The caller's claims about that user. They are neither stored nor part of the fingerprint. */
  readonly userInfo?: JsonValue | undefined
  /** Tokens by authorization requirement id. Never stored. */
  readonly tokens: ReadonlyMap<string, Secret>
  /** Secrets by id. Never stored. */
  readonly secrets: ReadonlyMap<string, Secret>
  /** Run that the call belongs to, already checked by `checkRunId`; absent if the call has an implicit run. */
  readonly runId?: string | undefined
  /** Session whose state the tool uses. */
  readonly sessionId?: string | undefined
  /** Converts the input to the form that the tool expects, for protocols with a different form. */
  readonly adapt?: (tool: Tool, input: JsonValue) => JsonValue
  /** Id for a call without a key, if its response headers are sent before the call is recorded. */
  readonly freshId?: string
  /** How long to wait for the decision about a call that needs approval. */
  readonly waitMs?: number
  /** Aborted when no client waits for the reply any more. The call itself continues (rule 10). */
  readonly gone?: AbortSignal
  readonly onProgress?: (progress: Progress) => void
  /** Present where the protocol can pass a tool's messages to the caller's client. */
  readonly onMessage?: ((message: ClientMessage) => void) | undefined
  /** The lowest level of messages that the caller wants. */
  readonly messageLevel?: MessageLevel | 'any' | undefined
  /** Called with the id of an earlier call that a request without a key continues (rule 6). */
  readonly onAdopted?: (callId: string) => void
  /** Called just before the outcome of a run is written; anything it writes synchronously joins the same commit. */
  readonly onRecording?: () => void
  /** Present where the protocol can pass a tool's question to the person behind the call. */
  readonly onElicit?: Elicit
  /** A caller whose disconnection cancels its call, unless another caller joined it (MCP-84). */
  readonly leaving?: CallerDeparture | undefined
}

/** A caller that may disconnect. The signal is created only when it is read, because few runs take long. */
export interface CallerDeparture {
  readonly left?: AbortSignal | undefined
  /** Whether the caller has disconnected, if this is known without the signal. */
  readonly isGone?: boolean
}

export interface Progress {
  readonly done: number
  readonly total: number | undefined
  readonly message: string | undefined
}

export const NO_SECRETS: ReadonlyMap<string, Secret> = new Map()

/** The reply to a call. A refusal is an outcome too: its code says that nothing ran. */
export interface CallReply {
  /** The caller's key, or a call id made by the server. */
  readonly callId: string
  readonly outcome: Outcome
  /** Run whose events report the call; absent if nothing was recorded. */
  readonly runId?: string
  /** The outcome was recorded by an earlier request with this key. */
  readonly replayed: boolean
  /** A third party wrote the content of the outcome. */
  readonly untrusted?: true
  /** Id of the tool that ran; absent if no tool ran. */
  readonly tool?: string
}

/** How a call ended. `valueJson` is serialised once; these bytes are stored, journaled and sent. */
export type Outcome = Success | Failure

export interface Success {
  readonly ok: true
  readonly valueJson: string
  readonly shown?: Shown
  /** Run time; absent when it is unknown, as after a crash. */
  readonly durationMs?: number
}

/** The content that an MCP server returned besides the value, as JSON texts (`ShownContent`). */
export interface Shown {
  readonly contentJson?: string
  readonly structuredJson?: string
  readonly metaJson?: string
}

export interface Failure {
  readonly ok: false
  readonly error: CallError
  /** Run time; absent when it is unknown, as after a crash. */
  readonly durationMs?: number
  /** The call ended before its tool started. */
  readonly neverStarted?: true
}

export interface CallError {
  readonly code: ErrorCode
  /** Text for the user and the model. */
  readonly message: string
  /** Text for logs and developers only. */
  readonly developerMessage?: string
  readonly canRetry: boolean
  readonly retryAfterMs?: number
  readonly additionalPromptContent?: string
  /** The tool's own error number, for protocols whose error codes are numbers. */
  readonly errorNumber?: number
  /** `unknown` if a write was interrupted after it started: the caller must check before repeating it. */
  readonly effect?: 'unknown'
  readonly details?: ErrorDetails
  /** Content of the MCP server's failure, if it has more than the message. */
  readonly shown?: Shown
}
