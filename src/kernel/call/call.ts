import type { Elicit } from '#kernel/base/elicitation'
import type { ErrorCode, ErrorDetails } from '#kernel/base/errors'
import type { ToolRef } from '#kernel/base/ids'
import type { JsonValue } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import type { Tool } from '#kernel/tool/tool'

/**
 * `parked`: waits for approval. `running`: claimed by a writer. `released`: failed with the author's word that
 * nothing took effect, so the same request may run again. `ambiguous`: cut by a crash; only an operator ends it.
 */
export const CALL_STATES = ['parked', 'running', 'succeeded', 'failed', 'released', 'ambiguous'] as const
export type CallState = (typeof CALL_STATES)[number]

/** What a principal may see of its own call (rule 10). */
export interface CallView {
  readonly callId: string
  readonly record: string
  readonly runId: string
  readonly traceId: string
  readonly protocol: CallProtocol | undefined
  /** As its caller said it. */
  readonly userId: string | undefined
  readonly tool: string
  readonly state: CallState
  readonly attempt: number
  readonly createdAtMs: number
  readonly finishedAtMs: number | undefined
  readonly outcome: Outcome | undefined
  readonly expired: boolean
  /** A third party wrote what the outcome says. */
  readonly untrusted?: true
  /** What the tool last said of how far it is, while it runs in this process. */
  readonly progress?: Progress
}

export interface CallsQuery {
  /** What the page before gave; absent: from the newest on. */
  readonly cursor?: string
  readonly limit: number
}

export interface CallsPage {
  readonly calls: readonly CallView[]
  /** Where to go on; absent when there is nothing more. Pages may be short, or empty, and still have one. */
  readonly cursor?: string
}

export const CALL_PROTOCOLS = ['otc', 'opentool', 'openwop', 'mcp'] as const

export type CallProtocol = (typeof CALL_PROTOCOLS)[number]

/** One request to run one tool, as every protocol's codec gives it. */
export interface CallRequest {
  readonly tool: ToolRef
  /** Absent means `{}` (OTC-48). */
  readonly input: JsonValue | undefined
  /** The caller's idempotency key, already checked by `checkCallKey` (rule 4). */
  readonly key: string | undefined
  readonly traceId: string | undefined
  /** What it was asked over; absent = from code in this process. */
  readonly protocol?: CallProtocol
  /** W3C trace context of the request, for what the tool fetches. */
  readonly traceparent?: string | undefined
  /** Whom the caller says it acts for; what proves it is another matter (OTC/T-27). */
  readonly userId: string | undefined
  /** What the caller says about that user. Not stored, and no part of what the request stands for. */
  readonly userInfo?: JsonValue | undefined
  /** Tokens by authorization requirement id. Never stored. */
  readonly tokens: ReadonlyMap<string, Secret>
  /** Secrets by id. Never stored. */
  readonly secrets: ReadonlyMap<string, Secret>
  /** The run to belong to, already checked by `checkRunId`; absent = a run of its own. */
  readonly runId?: string | undefined
  /** The session whose state to use. */
  readonly sessionId?: string | undefined
  /** The input as the tool takes it, where a protocol has another form for it. The request stays what was asked. */
  readonly adapt?: (tool: Tool, input: JsonValue) => JsonValue
  /** The id to give a call without a key, when its head has to leave before it is recorded. */
  readonly freshId?: string
  /** How long to wait for the decision about a call that needs approval. */
  readonly waitMs?: number
  /** Aborted when nobody waits for the answer any more. The call itself goes on (rule 10). */
  readonly gone?: AbortSignal
  readonly onProgress?: (progress: Progress) => void
  /** Called just before the outcome of a run is written: what is written at once is in the same commit. */
  readonly onRecording?: () => void
  /** Present where the protocol can put a tool's question to the person behind the call. */
  readonly onElicit?: Elicit
  /** Its caller, where leaving means cancelling: what it began is then cancelled unless another caller joined (MCP-84). */
  readonly leaving?: Leaving | undefined
}

/** A caller who may leave; the signal is made for those who ask for it, because few runs take time. */
export interface Leaving {
  readonly left?: AbortSignal | undefined
  /** Where that is known without the signal. */
  readonly isGone?: boolean
}

export function hasLeft(leaving: Leaving | undefined): boolean {
  return leaving?.isGone ?? leaving?.left?.aborted ?? false
}

export interface Progress {
  readonly done: number
  readonly total: number | undefined
  readonly message: string | undefined
}

export const NO_SECRETS: ReadonlyMap<string, Secret> = new Map()

/** What goes back. A refusal is an outcome too: its code says that nothing ran. */
export interface CallReply {
  /** The caller's key, or the one made for it. */
  readonly callId: string
  readonly outcome: Outcome
  /** The run whose events tell of it; absent when nothing was recorded. */
  readonly runId?: string
  /** The outcome was recorded by an earlier request with this key. */
  readonly replayed: boolean
  /** A third party wrote what the outcome says. */
  readonly untrusted?: true
  /** Id of the tool that ran; absent when none did. */
  readonly tool?: string
}

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
  /** Ended before the tool began: no time was spent in it. */
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
  /** What the MCP server behind the tool said, where that is more than the message. */
  readonly shown?: Shown
}
