import type { Clock } from '#kernel/base/clock'
import type { EntryKind, ToolId } from '#kernel/base/ids'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { SessionDefinition } from '#kernel/tool/define'
import type {
  PolicyDefinition,
  ShownHints,
  ShownValue,
  SourceKind,
  StatefulContext,
  Tool,
  ToolRequirements,
} from '#kernel/tool/tool'

/**
 * The interface of a tool source, and its data: offered tools, invocations, health. Every source type
 * implements it; the kit runs it. Invariant: an offered tool is untrusted until it is pinned.
 */

/** A request as plain data, without a `Request` object. Header names are in lower case. */
export interface PlainRequest {
  readonly url: URL
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
  readonly signal: AbortSignal
}

/** The response to a `PlainRequest`. The body must be read to its end, or its iteration must be ended early. */
export interface PlainResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: AsyncIterable<Uint8Array>
}

/** Sends one request, once, and follows no redirect. */
export type SendRequest = (request: PlainRequest) => Promise<PlainResponse>

/** The services that a source gets when it is opened. */
export interface SourceServices {
  /** The guarded fetch, which may also reach the hosts that the operator named in the source's options. */
  readonly fetch: typeof fetch
  /**
   * Like `fetch`, for descriptions of tools, which may be larger than answers to calls (64 MiB, or
   * `egress.maxResponseBytes` if that is more); if absent, `fetch` is used.
   */
  readonly fetchDescription?: typeof fetch
  /** Guarded like `fetch`, but without `Request` and `Response`, which cost more time than a small call; if absent, `fetch` is used. */
  readonly send?: SendRequest
  readonly clock: Clock
  readonly log: Logger
  /** Absent if no telemetry is exported. */
  readonly telemetry?: RequestTelemetry | undefined
  /** The folder of the configuration; relative paths in the options are resolved against it. */
  readonly folder: string
  /** The store's keyed one-way digest, for values that pins compare but must not contain; absent if nothing is pinned. */
  digest?(text: string): string
  /**
   * A provider's token for listing tools, for which there is no caller: this server's own token, or the token of the principal
   * `as`; `undefined` if there is none.
   */
  listingToken?(need: ListingNeed): Promise<Secret | undefined>
  /** Called when the upstream refuses a token. Returns what the caller can do; `undefined` if a new token would not help. */
  tokenRefused?(refusal: TokenRefusal): string | undefined
  /** Environment variables of this process. A source passes on a few harmless variables and those that its options name. */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

/** Records requests to upstreams as spans and durations. */
export interface RequestTelemetry {
  start(request: UpstreamRequest): StartedRequest
}

interface UpstreamRequest {
  /** Name of the span, without the target. */
  readonly name: string
  readonly target: string | undefined
  /** `traceparent` of the call behind the request; without it there is no span. */
  readonly parent: string | undefined
  /** OpenTelemetry attributes of the span and of the duration metric, so each may have only a few different values. */
  readonly attributes: Readonly<Record<string, string | number>>
  /** Attributes of the span only. */
  readonly details: Readonly<Record<string, string | number>>
}

interface StartedRequest {
  /** The `traceparent` of this request's span, to send with the request. */
  readonly traceparent: string | undefined
  /** `errorType` is absent if the request succeeded. */
  end(errorType?: string): void
}

export interface ListingNeed {
  readonly provider: string
  readonly scopes: readonly string[]
  readonly as: string | undefined
}

interface TokenRefusal {
  readonly provider: string
  /** Id of the tool; absent for listing. */
  readonly tool: string | undefined
  readonly token: Secret
  /** The scopes that the token lacks; empty if the token itself is not valid. */
  readonly scopes: readonly string[]
}

/** An upstream's claims about a tool, used only if the operator trusts the upstream. */
export interface ToolHints extends ShownHints {
  readonly readOnly: boolean
  /** A second run with the same input has no further effect. */
  readonly idempotent: boolean
}

/** One tool as its source offers it now; untrusted, and checked and pinned before any agent sees it. */
export interface OfferedTool {
  /** The tool's name in the upstream; unique within the source. */
  readonly nativeName: string
  readonly title?: string
  readonly description: string
  /**
   * The categories that the upstream assigns to the tool, for toolsets. Not part of the pin, and served as they were when the
   * definition was accepted: an upstream cannot show a tool to other people by changing its category.
   */
  readonly tags?: readonly string[]
  /** JSON Schema 2020-12 for an object, with its `$ref`s and definitions in place. This schema is enforced. */
  readonly inputSchema: JsonObject
  /** `null` = no output, `{}` = any value. */
  readonly outputSchema: JsonObject | null
  readonly requirements?: ToolRequirements
  /** Decided by this server and the operator; of the upstream's claims, only `hints` influence it. */
  readonly policy: PolicyDefinition
  /** Present if the operator trusts the upstream, and then part of the pin. */
  readonly hints?: ToolHints
  /**
   * Everything else that decides which request is sent where: base URL, method, path, placement, security, token endpoints.
   * Kept with the pin and passed to `invoke`, so that a call uses the accepted binding.
   */
  readonly binding: JsonObject
  /** Present for a prompt or another entry that is not a tool; its native name begins with the kind: `prompt/summary`. */
  readonly entry?: OfferedEntry
  /** Members of an MCP server's definition that MCP callers get unchanged. */
  readonly passedOn?: JsonObject
}

/** A list that an upstream can report as changed. */
export type UpstreamList = 'tools' | 'prompts' | 'resources'

/** An entry as its upstream lists it. */
interface OfferedEntry {
  readonly kind: EntryKind
  /** Its members as the upstream wrote them. */
  readonly definition: JsonObject
}

export interface Discovery {
  /** The identity of the upstream: origin, or argv and package version. Part of every pin. */
  readonly identity: JsonObject
  /** The name that the upstream gives itself, to suggest the key of a new source; not part of pins. */
  readonly name?: string
  readonly tools: readonly OfferedTool[]
  /** Explains which tools were left out, and other problems that the operator should know about. */
  readonly warnings: readonly string[]
  /** Native names that the operator's filters exclude, so that overrides for them do not count as misspelled. */
  readonly leftOut?: readonly string[]
}

export interface Invocation {
  readonly nativeName: string
  /** Id of the tool as callers see it; absent outside of a server. */
  readonly toolId?: string
  readonly binding: JsonObject
  /** The accepted definition and its upstream; absent if nothing is pinned. */
  readonly accepted?: { readonly offered: OfferedTool; readonly identity: JsonObject }
  readonly input: JsonObject
  readonly context: StatefulContext<unknown>
}

export interface SourceHealth {
  readonly state: 'starting' | 'ready' | 'degraded' | 'down'
  /** Why the source is in this state, for the operator; absent if ready. */
  readonly reason?: string
}

/** A source of tools. Special cases are optional members, so the kit does not depend on the type of a source. */
export interface Source {
  /** Key in the configuration, and toolkit of its tools. */
  readonly key: string
  /** `mcp`, `openapi`, … as the operator wrote it. */
  readonly type: string
  readonly kind: SourceKind
  /** For a host extension: the middle of its catalog ids, `x-host-<vendor>-<tool>` (openwop §7.1); its key by default. */
  readonly vendor?: string
  /**
   * Reads all offered tools, from all pages. Throws a `ToolError` (`upstream_failed`) if it cannot: the accepted
   * definitions then stay in force.
   */
  discover(signal: AbortSignal): Promise<Discovery>
  /**
   * Drops connections and cached state, so that the next reading starts afresh. Called at an operator's request, because the
   * program behind the source may have been replaced. Calls in progress are not affected.
   */
  renew?(): void
  /** Registers the listener for changed tools. Called at most once, before `discover`. */
  watch?(onChange: (lists?: readonly UpstreamList[]) => void): void
  /**
   * Runs one call. Throws `ToolError`, with `canRetry` only if the request was certainly not processed.
   * `context.signal` ends the call; `context.token` and `secret` return the credentials that `requirements` declared.
   */
  invoke(invocation: Invocation): Promise<JsonValue | ShownValue | undefined>
  /**
   * Reports changes to a resource until the returned function is called. The principal has subscribed to the resource, or its call is
   * about to. The end of the last watch ends the subscription at the upstream.
   */
  watchResource?(uri: string, principal: Principal, onUpdated: (uri: string) => void): () => void
  /** The session of a tool that keeps state upstream between calls (openwop §7.3). */
  sessionOf?(tool: OfferedTool): SessionDefinition | undefined
  /**
   * The policy for an accepted definition under the current options, even while the upstream is down or offers another
   * definition. Without this method, the accepted definition's own policy applies.
   */
  policyFor?(tool: OfferedTool): PolicyDefinition
  /** The id of a tool that keeps its upstream's id. Without this method, the id is in the toolkit of the source. */
  keptId?(tool: OfferedTool): ToolId | undefined
  /** The trusted claims of a definition that are not part of its policy, under the current options. */
  shownHintsFor?(tool: OfferedTool): ShownHints
  /** The schemas for callers that accept references and definitions; without it, these callers get the same schemas as all others. */
  authoredFor?(tool: OfferedTool): Tool['authored']
  /**
   * False for a tool that the current options exclude: it is not served, even if it was accepted. Without this method, all tools
   * are wanted.
   */
  wants?(tool: OfferedTool): boolean
  health(): SourceHealth
  close(): Promise<void>
}

/** What the operator must supply before the tools can be read: more time, the program, or a credential. */
export type MissingPrerequisite = 'time' | 'program' | 'credential'

/** The cause of a failed discovery if the operator can fix it. */
export class MissingPrerequisiteError extends Error {
  override readonly name = 'MissingPrerequisiteError'
  readonly missing: MissingPrerequisite

  constructor(missing: MissingPrerequisite, message: string, options: ErrorOptions) {
    super(message, options)
    this.missing = missing
  }
}
