import type { Clock } from '#kernel/base/clock'
import type { ToolId } from '#kernel/base/ids'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { SessionDefinition } from '#kernel/tool/define'
import type {
  PolicyDefinition,
  ShownHints,
  ShownValue,
  SourceKind,
  StatefulContext,
  ToolRequirements,
} from '#kernel/tool/tool'

/** A request as it leaves; names of headers are in lower case. */
interface PlainRequest {
  readonly url: URL
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

/** An answer whose body is still to be read: to its end, or until its reader leaves the loop. */
export interface PlainAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: AsyncIterable<Uint8Array>
}

/** Sends one request, once, and follows no redirect. */
export type SendRequest = (request: PlainRequest) => Promise<PlainAnswer>

/** What a source gets when it is opened. */
export interface SourceServices {
  /** Guarded; may also reach the hosts that the source's options name, because the operator wrote them. */
  readonly fetch: typeof fetch
  /**
   * The same way out for what describes tools, which may be larger than what a call may bring back (64 MiB unless
   * `egress.maxResponseBytes` says more); absent = `fetch`.
   */
  readonly fetchDescription?: typeof fetch
  /** Guarded like `fetch`, without its objects, which cost more than a small call itself; absent = `fetch` only. */
  readonly send?: SendRequest
  readonly clock: Clock
  readonly log: Logger
  /** Relative paths in the options start here: the folder of the configuration. */
  readonly folder: string
  /** Keyed one-way digest of the store, for what pins must tell apart and may not hold; absent where nothing is pinned. */
  digest?(text: string): string
  /** Variables of our own process. A source hands on a few harmless ones and those its options name, nothing else. */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

/** What an upstream promises about a tool, for an operator who believes it. */
export interface ToolHints extends ShownHints {
  /** It changes nothing. */
  readonly readOnly: boolean
  /** A second run with the same input changes nothing more. */
  readonly idempotent: boolean
}

/** One tool as its source offers it right now; not believed, checked and pinned before any agent sees it. */
export interface OfferedTool {
  /** Its name where it lives; unique within the source. */
  readonly nativeName: string
  readonly title?: string
  readonly description: string
  /**
   * What the upstream files it under, for toolsets. Not part of the pin, and served as it was when the definition was
   * accepted: an upstream cannot put a tool before other people by filing it elsewhere.
   */
  readonly tags?: readonly string[]
  /** JSON Schema 2020-12 of an object, references and all: this one is enforced. */
  readonly inputSchema: JsonObject
  /** `null` = no output, `{}` = any value. */
  readonly outputSchema: JsonObject | null
  readonly requirements?: ToolRequirements
  /** Decided by us and the operator; of what the upstream says of itself, only `hints` are in it. */
  readonly policy: PolicyDefinition
  /** Present where the operator believes the upstream, and then part of the pin. */
  readonly hints?: ToolHints
  /**
   * What else decides what is sent where: base URL, method, path, placement, security, token endpoints.
   * Kept with the pin and handed to `invoke`, so that a call uses the accepted one.
   */
  readonly binding: JsonObject
}

export interface Discovery {
  /** Who the upstream is: origin, or argv and package version. Part of every pin. */
  readonly identity: JsonObject
  /** What the upstream calls itself, for the key of a new source; not believed, and not part of pins. */
  readonly name?: string
  readonly tools: readonly OfferedTool[]
  /** What was left out and why, for the operator. */
  readonly warnings: readonly string[]
  /** Native names that the operator's own filters leave out: what it says about them is not misspelt. */
  readonly leftOut?: readonly string[]
}

/** The accepted definition a call runs on. */
export interface Invocation {
  readonly nativeName: string
  readonly binding: JsonObject
  /** The whole of it and who offered it; absent where nothing is pinned. */
  readonly accepted?: { readonly offered: OfferedTool; readonly identity: JsonObject }
  readonly input: JsonObject
  readonly context: StatefulContext<unknown>
}

type SourceState = 'starting' | 'ready' | 'degraded' | 'down'

export interface SourceHealth {
  readonly state: SourceState
  /** Why, in words for the operator; absent when ready. */
  readonly reason?: string
}

/** Where tools come from. Its quirks are properties it declares; nothing else in the house knows its type. */
export interface Source {
  /** Key in the configuration: the toolkit of its tools. */
  readonly key: string
  /** `mcp`, `openapi`, … as the operator wrote it. */
  readonly type: string
  readonly kind: SourceKind
  /** Of a host extension: the middle of its catalog ids, `x-host-<vendor>-<tool>` (openwop §7.1); else its key. */
  readonly vendor?: string
  /**
   * Reads what is offered now; all pages. Throws a `ToolError` (`upstream_failed`) when it cannot tell: the last
   * good definitions then stay.
   */
  discover(signal: AbortSignal): Promise<Discovery>
  /**
   * Forgets what lives from before, so that the next reading starts from nothing: an operator asked for it, and the
   * program behind the source may be another one by now. Calls under way end as they are.
   */
  renew?(): void
  /** Calls back when the upstream says that its tools changed. Called at most once, before `discover`. */
  watch?(onChange: () => void): void
  /**
   * One call. Throws `ToolError`; `canRetry` only where the request provably was not processed.
   * `context.signal` ends it; `context.token`/`secret` give what `requirements` declared.
   */
  invoke(invocation: Invocation): Promise<JsonValue | ShownValue | undefined>
  /** For a tool that keeps state upstream between calls (openwop §7.3). */
  sessionOf?(tool: OfferedTool): SessionDefinition | undefined
  /**
   * The policy of a definition under the options of now, so that what an operator writes holds for accepted
   * definitions too, while the upstream is down or offers another one. Without it the policy last offered stays.
   */
  policyFor?(tool: OfferedTool): PolicyDefinition
  /** The id that a tool is served under, where it keeps that of its upstream. Without it the id is in the toolkit of the source. */
  keptId?(tool: OfferedTool): ToolId | undefined
  /** The believed promises of a definition that no policy holds, under the options of now. */
  shownHintsFor?(tool: OfferedTool): ShownHints
  /**
   * An accepted definition as this version of the server would offer it, where an earlier version read the same
   * upstream differently. When it equals what is offered now, the upstream has not changed and nothing waits.
   */
  asOfferedNow?(tool: OfferedTool): OfferedTool
  /**
   * Whether the operator still wants a tool under the options of now. One that is excluded is not served from then on,
   * whatever was accepted and whether or not the upstream answers. Without it all are wanted.
   */
  wants?(tool: OfferedTool): boolean
  health(): SourceHealth
  /** Ends connections and processes. */
  close(): Promise<void>
}

/** What an upstream that gives no tools would need from the operator. */
export type UpstreamLack = 'time' | 'program' | 'credential'

/** Why an upstream gives no tools, where the operator can do something about it: the cause of what a source throws. */
export class UpstreamLacks extends Error {
  override readonly name = 'UpstreamLacks'
  readonly lack: UpstreamLack

  constructor(lack: UpstreamLack, message: string, options: ErrorOptions) {
    super(message, options)
    this.lack = lack
  }
}
