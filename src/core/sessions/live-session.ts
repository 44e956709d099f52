import type { RunningCall } from '#core/call/running-calls'
import type { Logger } from '#core/ports/logger'
import type { RunPlace } from '#core/ports/run-store'
import type { Principal } from '#core/principal'
import type { Tool } from '#core/tool'
import type { SessionContext } from './session-context.ts'

/** A session whose state this process holds. */
export class LiveSession implements SessionContext {
  readonly sessionId: string
  readonly principal: Principal
  readonly userId: string | undefined
  readonly tool: Tool
  readonly place: RunPlace
  readonly log: Logger
  readonly calls = new Set<RunningCall>()
  /** What `open` gave. */
  state: unknown
  /** Whether there is state that nobody has let go yet. */
  hasState = false
  /** Set when it takes no calls any more. */
  closing: Promise<void> | undefined
  readonly #onIdle: () => void
  #idle: NodeJS.Timeout | undefined
  #oldest: NodeJS.Timeout | undefined

  constructor(parts: {
    readonly sessionId: string
    readonly principal: Principal
    readonly userId: string | undefined
    readonly tool: Tool
    readonly place: RunPlace
    readonly log: Logger
    readonly onIdle: () => void
  }) {
    this.sessionId = parts.sessionId
    this.principal = parts.principal
    this.userId = parts.userId
    this.tool = parts.tool
    this.place = parts.place
    this.log = parts.log
    this.#onIdle = parts.onIdle
  }

  enter(call: RunningCall): void {
    this.calls.add(call)
    clearTimeout(this.#idle)
  }

  leave(call: RunningCall): void {
    this.calls.delete(call)
    if (this.calls.size === 0) this.rest()
  }

  /** Starts counting idle time. */
  rest(): void {
    clearTimeout(this.#idle)
    if (this.closing !== undefined) return
    this.#idle = setTimeout(this.#onIdle, this.tool.session?.idleMs ?? 0).unref()
  }

  /** Ends it at this age, whatever happens in it. */
  limitAge(mostMs: number, onOld: () => void): void {
    this.#oldest = setTimeout(onOld, mostMs).unref()
  }

  /** A timer left behind would hold on to the state for as long as it runs. */
  stopCounting(): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#oldest)
  }
}
