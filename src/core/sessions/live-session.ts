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
  readonly claimedUserId: string | undefined
  readonly tool: Tool
  readonly place: RunPlace
  readonly log: Logger
  readonly calls = new Set<RunningCall>()
  /** What `open` gave. */
  state: unknown
  /** Whether `open` has given it. */
  isOpen = false
  /** Set when it takes no calls any more. */
  closing: Promise<void> | undefined
  readonly #onOver: (why: 'idle' | 'too old') => void
  #idle: NodeJS.Timeout | undefined
  #age: NodeJS.Timeout | undefined

  constructor(parts: {
    readonly sessionId: string
    readonly principal: Principal
    readonly userId: string | undefined
    readonly claimedUserId: string | undefined
    readonly tool: Tool
    readonly place: RunPlace
    readonly log: Logger
    readonly onOver: (why: 'idle' | 'too old') => void
  }) {
    this.sessionId = parts.sessionId
    this.principal = parts.principal
    this.userId = parts.userId
    this.claimedUserId = parts.claimedUserId
    this.tool = parts.tool
    this.place = parts.place
    this.log = parts.log
    this.#onOver = parts.onOver
  }

  /** From now on it takes calls, and its time counts. */
  begin(state: unknown, longestMs: number): void {
    this.state = state
    this.isOpen = true
    this.#age = setTimeout(() => this.#onOver('too old'), longestMs).unref()
    this.rest()
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
    this.#idle = setTimeout(() => this.#onOver('idle'), this.tool.session?.idleMs ?? 0).unref()
  }

  stopCounting(): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#age)
  }
}
