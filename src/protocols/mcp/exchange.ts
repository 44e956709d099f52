import type { Clock } from '#kernel/base/clock'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { CallerDeparture, Progress } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import type { MessageLevel } from '#kernel/tool/tool'
import type { Discovery } from '#kernel/tool/toolsets'
import type { JsonRpcId } from '#protocols/json-rpc'
import type { OperationLog, ProtocolServices } from '#protocols/protocol'
import type { TraceContext, TraceExtras } from '#protocols/trace-context'
import type { ToolSearch } from '#search/tool-search'
import type { ProtocolSessionStore } from '#store/protocol-state'
import type { TaskStore } from '#store/tasks'
import { type Answer, encodeNotification, type RequestHeaders } from './codec-message.ts'
import type { FoundTarget } from './operations.ts'
import { type ClientCapabilities, MCP_PATH, type Revision } from './wire.ts'

/*
 * The context of an MCP method: the services of the server, and one request with the channel to its client.
 * Both transports, HTTP and stdio, create these; every method takes them.
 * Invariant: an exchange knows nothing of other requests of its client (MCP-31).
 */

export interface McpOptions {
  /** `serverInfo.name` (MCP-08). */
  readonly name: string
  readonly serverVersion: string
  /** Text for models about the server as a whole. */
  readonly instructions?: string | undefined
  /** Tools on one page of a list; many clients read only the first page (MCP-44). */
  readonly pageSize?: number | undefined
  /** How clients find tools, unless their toolset sets it. */
  readonly discovery?: Discovery | undefined
  readonly favourites?: readonly string[] | undefined
  /** A call becomes a task after this time if its client supports tasks (MCP-121). */
  readonly taskAfterMs?: number | undefined
  /** Shortens the descriptions and schemas in lists, to save tokens (MCP-184). */
  readonly compact?: boolean | undefined
  /** Bytes of a result that a model gets at once; 0 or absent = all (MCP-180). */
  readonly modelBytes?: number | undefined
  /** How long results are kept (MCP-124). */
  readonly resultsMs?: number | undefined
  /** `resource_metadata` of a challenge; absent without an issuer (MCP-96). */
  readonly metadataUrl?: (() => string) | undefined
}

export interface McpServices {
  readonly gateway: Gateway
  readonly callers: ProtocolSessionStore
  readonly tasks: TaskStore
  readonly clock: Clock
  readonly log: Logger
  /** Without it every tool is listed. */
  readonly search: ToolSearch | undefined
  /** A keyed signature, which shows that a client returns a value exactly as the server sent it (MCP-72). */
  readonly sign: (text: string) => string
  /** Absent if no telemetry is exported. */
  readonly operations?: OperationLog | undefined
  readonly options: McpOptions
}

/** The services of MCP, from those of the server. */
export function mcpServices(
  given: Omit<McpOptions, 'serverVersion' | 'metadataUrl'>,
  server: Pick<
    ProtocolServices,
    'gateway' | 'store' | 'clock' | 'log' | 'serverVersion' | 'metadataUrl' | 'operations' | 'search'
  >,
): McpServices {
  const { gateway, store, clock, log, search, serverVersion, metadataUrl, operations } = server
  return {
    gateway,
    callers: store.callers,
    tasks: store.tasks,
    clock,
    log,
    operations,
    search,
    sign: (text) => store.sign('mcp', text),
    options: {
      ...given,
      serverVersion,
      metadataUrl: metadataUrl === undefined ? undefined : () => metadataUrl(MCP_PATH),
    },
  }
}

export interface McpExchange {
  readonly id: JsonRpcId
  readonly principal: Principal
  readonly revision: Revision
  readonly capabilities: ClientCapabilities
  readonly channel: Channel
  /** Minimum level of log messages for the client, set by the request or by its session (MCP-87). */
  readonly logLevel: MessageLevel | undefined
  /** The session, in revisions that have sessions. `hasStream`: its event stream is open in this process. */
  readonly session?: { readonly id: string; readonly hasStream: boolean } | undefined
  /** Sets the level of the session, in revisions with sessions. */
  setLogLevel?(level: MessageLevel): Promise<void>
  /** Absent on stdio. */
  readonly headers: RequestHeaders | undefined
  readonly traceId: string | undefined
  readonly traceparent: string | undefined
  readonly traceExtras?: TraceExtras | undefined
  /** The span of the request; absent if there is none. */
  readonly trace?: TraceContext | undefined
  /** Set where a disconnect cancels the call: the newest revision over HTTP (MCP-83). */
  readonly leaving: CallerDeparture | undefined
  /** Called with the tool, prompt or resource that the request names, if the caller may see it. Set if telemetry is exported. */
  onFound?: ((target: FoundTarget) => void) | undefined
  /** The name of the tool as the arguments of `call_tool` have it; the schema of that tool requires no headers. */
  readonly namedInArguments?: string
  /** Receives the function that cancels the call, once the call has begun (MCP-85). */
  onBegun?(cancel: () => void): void
  /** Called just before the outcome of the call is written. */
  onRecording?(): void
}

export type McpMethod = (params: JsonValue | undefined, exchange: McpExchange) => Answer | Promise<Answer>

/** Methods that are declared as one capability; `methods.ts` lists all features. */
export interface McpFeature {
  /** Its member of `capabilities`. */
  readonly capabilities: JsonObject
  /** Members that only some revisions have. */
  capabilitiesOf?(revision: Revision): JsonObject
  readonly methods: readonly (readonly [name: string, revisions: readonly Revision[], run: McpMethod])[]
}

/** Sends messages to the client before its request is answered. */
export interface Channel {
  /** False if the client accepts only the answer. */
  readonly canSend: boolean
  /** A `notification` may be dropped for a slow reader, a `question` never is. */
  send(json: string, what: 'notification' | 'question'): void
}

const PER_SECOND = 10

/** Sends progress: only rising values, ten per second after the first ten, and nothing after the end (MCP-82). */
export class ProgressGate {
  readonly #token: string | number
  readonly #channel: Channel
  #last = Number.NEGATIVE_INFINITY
  #left = PER_SECOND
  #filledAtMs = performance.now()
  #isEnded = false

  constructor(token: string | number, channel: Channel) {
    this.#token = token
    this.#channel = channel
  }

  readonly send = ({ done, total, message }: Progress): void => {
    if (this.#isEnded || !Number.isFinite(done) || done <= this.#last || !this.#take()) return
    this.#last = done
    const params = {
      progressToken: this.#token,
      progress: done,
      ...(total === undefined || !Number.isFinite(total) ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    }
    this.#channel.send(encodeNotification('notifications/progress', params), 'notification')
  }

  end(): void {
    this.#isEnded = true
  }

  #take(): boolean {
    const nowMs = performance.now()
    this.#left = Math.min(PER_SECOND, this.#left + ((nowMs - this.#filledAtMs) / 1_000) * PER_SECOND)
    this.#filledAtMs = nowMs
    if (this.#left < 1) return false
    this.#left -= 1
    return true
  }
}
