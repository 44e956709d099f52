import type { Clock } from '#kernel/base/clock'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import {
  FREE_SLOT,
  type LimitStage,
  type Release,
  type Reservation,
  type Slot,
  type StageContext,
} from '#kernel/call/stages'
import type { Tool } from '#kernel/tool/tool'
import type { RefusalEvents } from '#stages/unstarted-events'
import type { RateStore } from '#store/limits'
import type { Budgets } from './budgets.ts'
import { type RateBook, SharedBuckets, TokenBuckets, type Tokens } from './rates.ts'
import {
  type CallLimit,
  type LimitName,
  type LimitSettings,
  limitRefusal,
  type ToolLimit,
} from './settings.ts'

/**
 * Rates, concurrency and load: limits that a new run must pass besides its own checks. The ladder checks them at fixed points;
 * the HTTP server counts streams and waiting requests here.
 * A replay, or a request that joins a running call, is never limited (rule 1), and a caller learns nothing about tools it
 * cannot see.
 */

/** When a caller that was refused for too many concurrent runs should try again. */
const SLOT_RETRY_MS = 1_000
/** When a caller with too many open requests should try again; these last longer than runs. */
const WAITING_RETRY_MS = 5_000
const OVERLOAD_RETRY_MS = 2_000
/** With fewer runs than this, a late event loop is caused by tools that compute, not by too many callers. */
const FEW_RUNS = 10
/** Key of the bucket for all tools; no tool has this name. */
const ALL_TOOLS = '*'

interface CallLimitsOptions {
  readonly settings: LimitSettings
  readonly clock: Clock
  /** Slots in use: runs, and ended runs whose tools have not returned. */
  readonly running: { readonly slots: number }
  readonly store: { readonly pendingWrites: number }
  /** How late the event loop has recently been. */
  delayMs(): number
  /** Set if processes share their rates; absent if this process counts only its own calls. */
  readonly sharedRates?: RateStore | undefined
  readonly budgets: Pick<Budgets, 'rules' | 'reserve' | 'close'>
  readonly refusals: Pick<RefusalEvents, 'add'>
  onRefused(name: LimitName): void
}

export class CallLimits implements LimitStage {
  readonly #options: CallLimitsOptions
  #settings: LimitSettings
  readonly #principals: RateBook
  readonly #tools: RateBook
  /** By tool and principal (OWP-56). */
  readonly #pairs: RateBook
  readonly #running = new RunCounters()
  readonly #waiting = new KeyedCounter()
  /** The settings of a tool, looked up once by its names. */
  #byTool = new WeakMap<Tool, ToolLimit>()

  constructor(options: CallLimitsOptions) {
    this.#options = options
    this.#settings = options.settings
    const { sharedRates, clock } = options
    const open = (kind: string): RateBook =>
      sharedRates === undefined ? new TokenBuckets() : new SharedBuckets({ store: sharedRates, clock, kind })
    this.#principals = open('principal')
    this.#tools = open('tool')
    this.#pairs = open('pair')
  }

  /** Applies to later checks; running calls are not checked again. */
  change(settings: LimitSettings): void {
    this.#settings = settings
    this.#byTool = new WeakMap()
  }

  /** A gateway without budgets reserves nothing. */
  reserve(principal: Principal, tool: Tool): MaybePromise<Reservation> | undefined {
    const { budgets } = this.#options
    return budgets.rules.length === 0 ? undefined : budgets.reserve(principal, tool)
  }

  noteRefusal(refused: Parameters<LimitStage['noteRefusal']>[0], error: unknown): Promise<void> {
    return this.#options.refusals.add(refused, error)
  }

  close(): Promise<void> {
    return this.#options.budgets.close()
  }

  /** Checks load and the caller's own rate, before the tool is resolved. Calls of unknown tools count too. */
  checkCaller(principal: Principal): MaybePromise<void> {
    this.#checkLoad()
    const { rate } = this.#ofPrincipal(principal)
    if (rate === undefined) return
    const bucket = this.#principals.find(subjectKey(principal), rate, this.#options.clock.monotonicMs())
    if (bucket.mustAsk) return this.#askAndTake([{ name: 'principal_rate', bucket }])
    this.#checkToken('principal_rate', bucket)
    bucket.take()
  }

  /** Checks the tool's rates, after the tool was found in the caller's catalog. Takes a token from all buckets, or from none. */
  checkTool(principal: Principal, tool: Tool): MaybePromise<void> {
    const { rate, perPrincipal } = this.#ofTool(tool)
    const { base } = tool.parts
    const { rate: total } = this.#settings.total
    if (rate === undefined && perPrincipal.rate === undefined && total === undefined) return
    const nowMs = this.#options.clock.monotonicMs()
    const ofPair = perPrincipal.rate && this.#pairs.find(pairKey(principal, base), perPrincipal.rate, nowMs)
    const ofTool = rate && this.#tools.find(base, rate, nowMs)
    const ofAll = total && this.#tools.find(ALL_TOOLS, total, nowMs)
    if (ofPair?.mustAsk === true || ofTool?.mustAsk === true || ofAll?.mustAsk === true) {
      return this.#askAndTake([
        { name: 'tool_rate', bucket: ofPair },
        { name: 'tool_rate', bucket: ofTool },
        { name: 'total_rate', bucket: ofAll },
      ])
    }
    this.#checkToken('tool_rate', ofPair)
    this.#checkToken('tool_rate', ofTool)
    this.#checkToken('total_rate', ofAll)
    ofPair?.take()
    ofTool?.take()
    ofAll?.take()
  }

  /** Counts a run until its slot is left. A step is counted with its workflow. */
  enter(principal: Principal, tool: Tool, isStep: boolean): Slot {
    if (!isStep) this.#checkTotal()
    const ofPrincipal = isStep ? undefined : this.#ofPrincipal(principal).concurrent
    const { concurrent: ofTool, perPrincipal } = this.#ofTool(tool)
    const { base } = tool.parts
    const ofPair = perPrincipal.concurrent
    if (ofPrincipal === undefined && ofTool === undefined && ofPair === undefined) return FREE_SLOT
    const keys = {
      principal: ofPrincipal === undefined ? undefined : subjectKey(principal),
      tool: ofTool === undefined ? undefined : base,
      pair: ofPair === undefined ? undefined : pairKey(principal, base),
    }
    const { principals, tools, pairs } = this.#running
    this.#checkConcurrency('principal_concurrency', principals.count(keys.principal), ofPrincipal)
    this.#checkConcurrency('tool_concurrency', tools.count(keys.tool), ofTool)
    this.#checkConcurrency('tool_concurrency', pairs.count(keys.pair), ofPair)
    this.#running.add(keys, 1)
    return new CountedSlot(this.#running, keys)
  }

  /** Counts a request that is held open, which costs a connection. */
  enterWaiting(principal: Principal): Release {
    const full = this.#fullFor(principal)
    if (full !== undefined) this.#refuse(full, WAITING_RETRY_MS)
    return this.#waiting.take(subjectKey(principal))
  }

  /** Returns `undefined` instead of refusing, because `Prefer: wait` is only a preference (RFC 7240). */
  tryEnterWaiting(principal: Principal): Release | undefined {
    return this.#fullFor(principal) === undefined ? this.#waiting.take(subjectKey(principal)) : undefined
  }

  shortenWait(waitMs: number): number {
    return Math.min(waitMs, this.#settings.waiting.maxMs ?? waitMs)
  }

  #fullFor(principal: Principal): 'principal_waiting' | 'total_waiting' | undefined {
    const { perPrincipal, total } = this.#settings.waiting
    if (perPrincipal !== undefined && this.#waiting.count(subjectKey(principal)) >= perPrincipal)
      return 'principal_waiting'
    return total !== undefined && this.#waiting.total >= total ? 'total_waiting' : undefined
  }

  #checkLoad(): void {
    const { delayMs, pendingWrites } = this.#settings.total
    const { running, store } = this.#options
    this.#checkTotal()
    if (pendingWrites !== undefined && store.pendingWrites >= pendingWrites) {
      this.#refuse('pending_writes', OVERLOAD_RETRY_MS)
    }
    if (delayMs === undefined || running.slots < FEW_RUNS || this.#options.delayMs() <= delayMs) return
    this.#refuse('delay', OVERLOAD_RETRY_MS)
  }

  #checkTotal(): void {
    const { concurrent } = this.#settings.total
    if (concurrent !== undefined && this.#options.running.slots >= concurrent) {
      this.#refuse('total_concurrency', SLOT_RETRY_MS)
    }
  }

  /**
   * Takes all tokens that a call needs, or throws the refusal of the limit whose token is missing. Each round asks for missing
   * tokens and learns whether there are any or when there will be, so the loop ends.
   */
  async #askAndTake(
    wanted: readonly { readonly name: LimitName; readonly bucket: Tokens | undefined }[],
  ): Promise<void> {
    for (;;) {
      for (const { name, bucket } of wanted) if (bucket?.mustAsk !== true) this.#checkToken(name, bucket)
      const unknown = wanted.filter(({ bucket }) => bucket?.mustAsk === true)
      if (unknown.length === 0) break
      await Promise.all(unknown.map(({ bucket }) => bucket?.ask()))
    }
    for (const { bucket } of wanted) bucket?.take()
  }

  #checkToken(name: LimitName, bucket: Tokens | undefined): void {
    if (bucket !== undefined && bucket.waitMs > 0) this.#refuse(name, bucket.waitMs)
  }

  #checkConcurrency(name: LimitName, taken: number, max: number | undefined): void {
    if (max !== undefined && taken >= max) this.#refuse(name, SLOT_RETRY_MS)
  }

  #refuse(name: LimitName, retryAfterMs: number): never {
    this.#options.onRefused(name)
    throw limitRefusal(name, retryAfterMs)
  }

  #ofPrincipal({ id }: Principal): CallLimit {
    const { byPrincipal, perPrincipal } = this.#settings
    return byPrincipal.size === 0 ? perPrincipal : (byPrincipal.get(id) ?? perPrincipal)
  }

  #ofTool(tool: Tool): ToolLimit {
    const { byTool, perTool } = this.#settings
    if (byTool.size === 0) return perTool
    const known = this.#byTool.get(tool)
    if (known !== undefined) return known
    const { parts, name, catalogId } = tool
    const limit = byTool.get(parts.base) ?? byTool.get(name) ?? byTool.get(catalogId) ?? perTool
    this.#byTool.set(tool, limit)
    return limit
  }
}

/** The keys under which one run is counted; `undefined` = not limited. */
interface RunKeys {
  readonly principal: string | undefined
  readonly tool: string | undefined
  readonly pair: string | undefined
}

/** Counts runs by principal, tool and pair until they have settled. */
class RunCounters {
  readonly principals = new KeyedCounter()
  readonly tools = new KeyedCounter()
  readonly pairs = new KeyedCounter()

  add({ principal, tool, pair }: RunKeys, amount: 1 | -1): void {
    if (principal !== undefined) this.principals.add(principal, amount)
    if (tool !== undefined) this.tools.add(tool, amount)
    if (pair !== undefined) this.pairs.add(pair, amount)
  }
}

class CountedSlot implements Slot {
  readonly #counters: RunCounters
  readonly #keys: RunKeys
  #isExtended = false

  constructor(counters: RunCounters, keys: RunKeys) {
    this.#counters = counters
    this.#keys = keys
  }

  /** A run that ended but has not settled counts until it settles (rule 10). */
  extend(settled: Promise<unknown>): void {
    this.#isExtended = true
    const free = () => this.#counters.add(this.#keys, -1)
    settled.then(free, free)
  }

  leave(): void {
    if (!this.#isExtended) this.#counters.add(this.#keys, -1)
  }
}

interface PrincipalKeys {
  readonly own: string
  readonly withTool: Map<string, string>
}

/** Keys are made once per principal object, which all calls with one credential share, because new strings are slow map keys. */
const known = new WeakMap<Principal, PrincipalKeys>()

/** Unique per principal, for any characters in tenant and principal. */
export function subjectKey(principal: Principal): string {
  return namesOf(principal).own
}

/** Unique per principal and tool; no base name contains a space. */
function pairKey(principal: Principal, base: string): string {
  const { own, withTool } = namesOf(principal)
  const pair = withTool.get(base)
  if (pair !== undefined) return pair
  const made = `${base} ${own}`
  withTool.set(base, made)
  return made
}

function namesOf(principal: Principal): PrincipalKeys {
  const names = known.get(principal)
  if (names !== undefined) return names
  const { tenant, id } = principal
  const made = { own: `${tenant.length}:${tenant}${id}`, withTool: new Map() }
  known.set(principal, made)
  return made
}

/** Counts by key. A key at zero is removed, so that the counter stays small. */
export class KeyedCounter {
  readonly #counts = new Map<string, number>()
  #total = 0

  get total(): number {
    return this.#total
  }

  count(key: string | undefined): number {
    return key === undefined ? 0 : (this.#counts.get(key) ?? 0)
  }

  add(key: string, amount = 1): void {
    const now = this.count(key) + amount
    if (now > 0) this.#counts.set(key, now)
    else this.#counts.delete(key)
    this.#total += amount
  }

  /** Counts one until the returned function is called. */
  take(key: string): Release {
    this.add(key)
    let isTaken = true
    return () => {
      if (isTaken) this.add(key, -1)
      isTaken = false
    }
  }
}

/** Admits a limited number of entrants at a time; others wait in order. The limit may change while they wait. */
export class Semaphore {
  readonly #limit: () => number
  readonly #waiting = new Set<() => void>()
  #taken = 0

  constructor(limit: () => number) {
    this.#limit = limit
  }

  get taken(): number {
    return this.#taken
  }

  /** Enters if the limit allows it. Each entry must be ended with `leave`. */
  tryEnter(): boolean {
    if (this.#taken >= this.#limit()) return false
    this.#taken += 1
    return true
  }

  /** Resolves once the limit allows an entry; rejects with the signal's reason. Each entry must be ended with `leave`. */
  async enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.tryEnter()) return
    await new Promise<void>((resolve, reject) => {
      const abandon = (): void => {
        this.#waiting.delete(go)
        reject(signal.reason)
      }
      const go = (): void => {
        signal.removeEventListener('abort', abandon)
        this.#taken += 1
        resolve()
      }
      signal.addEventListener('abort', abandon, { once: true })
      this.#waiting.add(go)
    })
  }

  leave(): void {
    this.#taken -= 1
    for (const go of this.#waiting) {
      if (this.#taken >= this.#limit()) return
      this.#waiting.delete(go)
      go()
    }
  }
}

const LOAD_POLL_MS = 100
/** One late timer is a garbage collection or a tool that computes; several in a row mean overload. */
const LATE_POLLS = 3

/** Measures the delay of the event loop. Returns the smallest of the last delays, so that a single long delay does not count. */
export function watchLoad(clock: Clock, every: StageContext['every']): () => number {
  const delays = Array<number>(LATE_POLLS).fill(0)
  let dueMs = clock.monotonicMs() + LOAD_POLL_MS
  every(LOAD_POLL_MS, 'measuring the delay of the event loop', async () => {
    const nowMs = clock.monotonicMs()
    delays.shift()
    delays.push(Math.max(0, nowMs - dueMs))
    dueMs = nowMs + LOAD_POLL_MS
  })
  return () => Math.min(...delays)
}
