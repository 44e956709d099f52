import type { Elicit } from '#kernel/base/elicitation'
import type { ErrorCode, ErrorDetails } from '#kernel/base/errors'
import type { ToolRef } from '#kernel/base/ids'
import type { JsonValue } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import type { Tool } from '#kernel/tool/tool'

/**
 * The types of a call that cross the kernel's border: request, reply, outcome, error, and the view of a principal's own call.
 * Protocol codecs read and write them. Wire spelling stays in the codecs; credentials in a request are never stored.
 */

/**
 * `parked`: waits for approval. `running`: claimed by a writer. `released`: failed, and the tool states that nothing
 * took effect, so the request may run again. `ambiguous`: cut by a crash; only an operator ends it.
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
  /** As the caller claimed it. */
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
  /** Cursor of the previous page; absent: the newest calls. */
  readonly cursor?: string
  readonly limit: number
}

export interface CallsPage {
  readonly calls: readonly CallView[]
  /** Cursor of the next page; absent on the last one. A page may be short or empty and still have one. */
  readonly cursor?: string
}

export const CALL_PROTOCOLS = ['otc', 'opentool', 'openwop', 'mcp'] as const

export type CallProtocol = (typeof CALL_PROTOCOLS)[number]

/** One request to run one tool, as the codec of a protocol decodes it. */
export interface CallRequest {
  readonly tool: ToolRef
  /** Absent means `{}` (OTC-48). */
  readonly input: JsonValue | undefined
  /** The caller's idempotency key, already checked by `checkCallKey` (rule 4). */
  readonly key: string | undefined
  readonly traceId: string | undefined
  /** Protocol of the request; absent for in-process calls. */
  readonly protocol?: CallProtocol
  /** W3C trace context of the request, for requests that the tool makes. */
  readonly traceparent?: string | undefined
  /** The user the caller claims to act for; `proveUser` decides whether that is proven (OTC/T-27). */
  readonly userId: string | undefined
  /** What the caller states about that user. Neither stored nor part of the fingerprint. */
  readonly userInfo?: JsonValue | undefined
  /** Tokens by authorization requirement id. Never stored. */
  readonly tokens: ReadonlyMap<string, Secret>
  /** Secrets by id. Never stored. */
  readonly secrets: ReadonlyMap<string, Secret>
  /** The run to belong to, already checked by `checkRunId`; absent = a run of its own. */
  readonly runId?: string | undefined
  /** The session whose state to use. */
  readonly sessionId?: string | undefined
  /** Converts the input to the tool's form, where a protocol has another one. The recorded request stays as sent. */
  readonly adapt?: (tool: Tool, input: JsonValue) => JsonValue
  /** The id for a call without a key, when its response headers are sent before it is recorded. */
  readonly freshId?: string
  /** How long to wait for the decision about a call that needs approval. */
  readonly waitMs?: number
  /** Aborted when no client waits for the answer any more. The call itself continues (rule 10). */
  readonly gone?: AbortSignal
  readonly onProgress?: (progress: Progress) => void
  /** Called just before the outcome of a run is written; what is written synchronously joins the same commit. */
  readonly onRecording?: () => void
  /** Present where the protocol can pass a tool's question to the person behind the call. */
  readonly onElicit?: Elicit
  /** A caller whose disconnection cancels its call, unless another caller joined it (MCP-84). */
  readonly leaving?: Leaving | undefined
}

/** A caller that may disconnect. The signal is created only when it is read, because few runs take long. */
export interface Leaving {
  readonly left?: AbortSignal | undefined
  /** Set where this is known without the signal. */
  readonly isGone?: boolean
}

export interface Progress {
  readonly done: number
  readonly total: number | undefined
  readonly message: string | undefined
}

export const NO_SECRETS: ReadonlyMap<string, Secret> = new Map()

/** A refusal is an outcome too: its code says that nothing ran. */
export interface CallReply {
  /** The caller's key, or the one the server made. */
  readonly callId: string
  readonly outcome: Outcome
  /** The run whose events report the call; absent when nothing was recorded. */
  readonly runId?: string
  /** The outcome was recorded by an earlier request with this key. */
  readonly replayed: boolean
  /** A third party wrote the content of the outcome. */
  readonly untrusted?: true
  /** Id of the tool that ran; absent when none did. */
  readonly tool?: string
}

/** `valueJson` is the value serialised once: stored, journaled and sent as these bytes. */
export type Outcome = Success | Failure

export interface Success {
  readonly ok: true
  readonly valueJson: string
  readonly shown?: Shown
  /** Run time; absent when it is unknown, as after a crash. */
  readonly durationMs?: number
}

/** What an MCP server answered besides the value, as JSON texts (`ShownContent`). */
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
  /** Ended before the tool started. */
  readonly neverStarted?: true
}

export interface CallError {
  readonly code: ErrorCode
  /** For the user and the model. */
  readonly message: string
  /** For logs and developers only. */
  readonly developerMessage?: string
  readonly canRetry: boolean
  readonly retryAfterMs?: number
  readonly additionalPromptContent?: string
  /** The tool's own number, for protocols whose error codes are numbers. */
  readonly errorNumber?: number
  /** `unknown` when a started write was cut short: check before repeating. */
  readonly effect?: 'unknown'
  readonly details?: ErrorDetails
  /** The content of the MCP server's failure, where it has more than the message. */
  readonly shown?: Shown
}
