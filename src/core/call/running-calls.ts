import type { Outcome } from '#core/outcome'
import type { Attempt } from '#core/ports/store'
import type { Tool } from '#core/tool'
import type { IdentifiedCall } from './identified-call.ts'

/** Why a run is ended from outside. */
export type Interruption = 'timeout' | 'cancel' | 'shutdown'

/** One run of this process, from before its claim until its outcome is durable. */
export class RunningCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  interruption: Interruption | undefined
  #interrupt: ((why: Interruption) => void) | undefined
  #done: PromiseWithResolvers<Outcome> | undefined
  #outcome: Outcome | undefined

  constructor(call: IdentifiedCall, tool: Tool) {
    this.call = call
    this.tool = tool
  }

  /** What a joining request waits for. A waiter that leaves detaches and aborts nobody (rule 10). */
  get done(): Promise<Outcome> {
    if (this.#outcome !== undefined) return Promise.resolve(this.#outcome)
    this.#done ??= Promise.withResolvers<Outcome>()
    return this.#done.promise
  }

  settle(outcome: Outcome): void {
    this.#outcome = outcome
    this.#done?.resolve(outcome)
  }

  /** Called by whoever executes the run; the last one set is told. */
  onInterrupt(listener: (why: Interruption) => void): void {
    this.#interrupt = listener
    if (this.interruption !== undefined) listener(this.interruption)
  }

  interrupt(why: Interruption): void {
    if (this.interruption !== undefined) return
    this.interruption = why
    this.#interrupt?.(why)
  }
}

/** How a store names one attempt of a run. */
export function attemptOf(running: RunningCall, attempt: number): Attempt {
  const { tenant, record, principal } = running.call
  return { tenant, record, principal: principal.id, tool: running.tool.id, attempt }
}

/** The runs of this process by record. A late run leaves this map but keeps its slot until it settles (rule 10). */
export class RunningCalls {
  readonly #byRecord = new Map<string, RunningCall>()
  readonly #idle = new Set<() => void>()
  #late = 0

  get size(): number {
    return this.#byRecord.size
  }

  /** Slots in use: running, and ended but not yet settled. */
  get slots(): number {
    return this.#byRecord.size + this.#late
  }

  get(record: string): RunningCall | undefined {
    return this.#byRecord.get(record)
  }

  start(call: IdentifiedCall, tool: Tool): RunningCall {
    const running = new RunningCall(call, tool)
    this.#byRecord.set(call.record, running)
    return running
  }

  /** Ending a run twice is harmless: a newer run of the same call keeps its entry. */
  end(running: RunningCall): void {
    const { record } = running.call
    if (this.#byRecord.get(record) === running) this.#byRecord.delete(record)
    if (this.#byRecord.size === 0 && this.#idle.size > 0) {
      for (const wake of this.#idle) wake()
      this.#idle.clear()
    }
  }

  holdSlotUntil(settled: Promise<unknown>): void {
    this.#late += 1
    const free = () => {
      this.#late -= 1
    }
    settled.then(free, free)
  }

  interruptAll(why: Interruption): void {
    for (const running of this.#byRecord.values()) running.interrupt(why)
  }

  /** Resolves when nothing runs, or after `timeoutMs`; tells which. */
  async waitUntilIdle(timeoutMs: number): Promise<boolean> {
    if (this.#byRecord.size === 0) return true
    return await new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        resolve(true)
      }
      const timer = setTimeout(() => {
        this.#idle.delete(wake)
        resolve(false)
      }, timeoutMs)
      this.#idle.add(wake)
    })
  }
}
