import type { Outcome } from '#core/call'
import type { Attempt } from '#core/ports/store'
import type { Tool } from '#core/tool'
import type { IdentifiedCall } from './identity.ts'
import type { CallScope } from './scope.ts'

/** A request that is on its way from the look-up to its answer. */
class StartingCall {
  readonly #leave: () => void
  #ended: PromiseWithResolvers<void> | undefined

  constructor(leave: () => void) {
    this.#leave = leave
  }

  get ended(): Promise<void> {
    this.#ended ??= Promise.withResolvers<void>()
    return this.#ended.promise
  }

  end(): void {
    this.#leave()
    this.#ended?.resolve()
  }
}

/** The first of several requests with one key, from before it runs: the others may wait for it instead of being refused. */
export class StartingCalls {
  readonly #byRecord = new Map<string, StartingCall>()

  /** `undefined` when there is a first one already. */
  begin(record: string): StartingCall | undefined {
    if (this.#byRecord.has(record)) return undefined
    const starting = new StartingCall(() => this.#byRecord.delete(record))
    this.#byRecord.set(record, starting)
    return starting
  }

  get(record: string): StartingCall | undefined {
    return this.#byRecord.get(record)
  }
}

/** Why a run is ended from outside. */
export type Interruption = 'timeout' | 'cancel' | 'shutdown'

/** An outage longer than this many claims forgets the oldest: their rows, if any, wait for a restart. */
const MOST_ABANDONED = 10_000

/** The claim went to somebody else's record: whoever joined looks there. */
export const LOST = 'lost'

/** One run of this process, from before its claim until its outcome is durable. */
export class RunningCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  readonly place: CallScope
  interruption: Interruption | undefined
  #interrupt: ((why: Interruption) => void) | undefined
  #done: PromiseWithResolvers<Outcome | typeof LOST> | undefined
  #outcome: Outcome | typeof LOST | undefined
  #questions = 0
  #onAsking: ((isAsking: boolean) => void) | undefined

  constructor(call: IdentifiedCall, tool: Tool, place: CallScope) {
    this.call = call
    this.tool = tool
    this.place = place
  }

  /** What a joining request waits for. A waiter that leaves detaches and aborts nobody (rule 10). */
  get done(): Promise<Outcome | typeof LOST> {
    if (this.#outcome !== undefined) return Promise.resolve(this.#outcome)
    this.#done ??= Promise.withResolvers<Outcome | typeof LOST>()
    return this.#done.promise
  }

  /** Whether another request waits for this run. */
  get isJoined(): boolean {
    return this.#done !== undefined
  }

  get isAsking(): boolean {
    return this.#questions > 0
  }

  /** The time a caller takes to answer is not run time. */
  async whileAsking<T>(ask: () => Promise<T>): Promise<T> {
    this.#questions += 1
    if (this.#questions === 1) this.#onAsking?.(true)
    try {
      return await ask()
    } finally {
      this.#questions -= 1
      if (this.#questions === 0) this.#onAsking?.(false)
    }
  }

  /** Told when the first question is open, and when the last is answered. */
  onAsking(listener: (isAsking: boolean) => void): void {
    this.#onAsking = listener
  }

  settle(outcome: Outcome | typeof LOST): void {
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

/** How a store names one attempt of a run. Only a first attempt outside every run and session is told by its record alone. */
export function attemptOf(running: RunningCall, attempt: number): Attempt {
  const { tenant, record, principal } = running.call
  const { place, session } = running.place
  const ownRun = attempt === 1 && session === undefined ? undefined : record
  const run = place?.run ?? ownRun
  return { tenant, record, principal: principal.id, tool: running.tool.id, attempt, run, session }
}

/** The runs of this process by record. A late run leaves this map but keeps its slot until it settles (rule 10). */
export class RunningCalls {
  readonly #byRecord = new Map<string, RunningCall>()
  readonly #idle = new Set<() => void>()
  readonly #abandoned = new Set<string>()
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

  start(call: IdentifiedCall, tool: Tool, place: CallScope): RunningCall {
    const running = new RunningCall(call, tool, place)
    this.#byRecord.set(call.record, running)
    return running
  }

  /** Only its own entry: another attempt of the same call may have taken its place. */
  end(running: RunningCall): void {
    if (this.#byRecord.get(running.call.record) === running) this.#byRecord.delete(running.call.record)
    if (this.#byRecord.size === 0 && this.#idle.size > 0) {
      for (const wake of this.#idle) wake()
      this.#idle.clear()
    }
  }

  /** Its claim's commit was reported as failed: if a row shows up after all, its run never started (rule 11). */
  noteAbandoned({ call }: RunningCall): void {
    if (!call.keyed) return
    this.#abandoned.add(call.record)
    if (this.#abandoned.size > MOST_ABANDONED)
      this.#abandoned.delete(this.#abandoned.values().next().value ?? '')
  }

  /** Whether a claim of ours under this record never started; true once. */
  takeAbandoned(record: string): boolean {
    return this.#abandoned.delete(record)
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
