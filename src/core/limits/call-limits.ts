import type { Clock } from '#core/ports/clock'
import type { Principal } from '#core/principal'
import type { Tool } from '#core/tool'
import { type LimitName, limitRefusal } from './limit-refusal.ts'
import type { CallLimit, LimitSettings, TokenRate, ToolLimit } from './limit-settings.ts'
import { NO_SLOT, RunningSlots, type Slot } from './running-slots.ts'
import { subjectKey } from './subject-key.ts'
import { type Bucket, TokenBuckets } from './token-buckets.ts'

/** When somebody who found every place taken may look again. */
const SLOT_RETRY_MS = 1_000
const OVERLOAD_RETRY_MS = 2_000
/** A loop that is late with so few runs has tools that compute, and not too many callers. */
const FEW_RUNS = 10
const NOTHING_TAKEN: readonly string[] = []

/** What tells that the server is behind. */
export interface LoadSigns {
  /** Runs that hold a place. */
  runs(): number
  pendingWrites(): number
  /** How late the event loop has been for some time. */
  delayMs(): number
}

export interface CallLimitsOptions {
  readonly settings: LimitSettings
  readonly clock: Clock
  readonly signs: LoadSigns
  onRefused(name: LimitName): void
}

/**
 * What a new run must get past besides its own checks. Nothing here is asked of a replay or of a request that joins
 * a running call (rule 1), and a caller learns nothing about tools it cannot see: those are found missing first.
 */
export class CallLimits {
  readonly #options: CallLimitsOptions
  readonly #settings: LimitSettings
  readonly #principals: TokenBuckets
  readonly #tools: TokenBuckets
  /** By tool and principal (OWP-56). */
  readonly #pairs: TokenBuckets
  readonly #slots = new RunningSlots()

  constructor(options: CallLimitsOptions) {
    this.#options = options
    this.#settings = options.settings
    this.#principals = new TokenBuckets(options.clock)
    this.#tools = new TokenBuckets(options.clock)
    this.#pairs = new TokenBuckets(options.clock)
  }

  /** Before the tool is looked for: load, then the caller's own rate. Unknown tools count too. */
  checkCaller(principal: Principal): void {
    this.#checkLoad()
    const { rate } = this.#ofPrincipal(principal)
    if (rate !== undefined) {
      this.#take([['principal_rate', this.#principals.find(subjectKey(principal), rate)]])
    }
  }

  /** After the tool was found in the caller's own catalog. */
  checkTool(principal: Principal, { parts: { base } }: Tool): void {
    const { rate, perPrincipal } = this.#ofTool(base)
    const { rate: total } = this.#settings.total
    if (rate === undefined && perPrincipal.rate === undefined && total === undefined) return
    const find = (name: LimitName, buckets: TokenBuckets, key: string, of: TokenRate | undefined) =>
      of === undefined ? [] : [[name, buckets.find(key, of)] as const]
    this.#take([
      ...find('tool_rate', this.#pairs, pairKey(base, principal), perPrincipal.rate),
      ...find('tool_rate', this.#tools, base, rate),
      ...find('total_rate', this.#tools, '*', total),
    ])
  }

  /** The places of a run that begins now; whoever gets them gives them back. */
  enter(principal: Principal, { parts: { base } }: Tool): Slot {
    this.#checkTotal()
    const ofPrincipal = this.#ofPrincipal(principal).concurrent
    const { concurrent: ofTool, perPrincipal } = this.#ofTool(base)
    const ofPair = perPrincipal.concurrent
    if (ofPrincipal === undefined && ofTool === undefined && ofPair === undefined) return NO_SLOT
    return this.#slots.enter([
      ...this.#place('principal_concurrency', `p ${subjectKey(principal)}`, ofPrincipal),
      ...this.#place('tool_concurrency', `t ${base}`, ofTool),
      ...this.#place('tool_concurrency', `b ${pairKey(base, principal)}`, ofPair),
    ])
  }

  #checkLoad(): void {
    const { delayMs, pendingWrites } = this.#settings.total
    const { signs } = this.#options
    this.#checkTotal()
    if (pendingWrites !== undefined && signs.pendingWrites() >= pendingWrites) {
      this.#refuse('pending_writes', OVERLOAD_RETRY_MS)
    }
    if (delayMs === undefined || signs.runs() < FEW_RUNS || signs.delayMs() <= delayMs) return
    this.#refuse('delay', OVERLOAD_RETRY_MS)
  }

  #checkTotal(): void {
    const { concurrent } = this.#settings.total
    if (concurrent !== undefined && this.#options.signs.runs() >= concurrent) {
      this.#refuse('total_concurrency', SLOT_RETRY_MS)
    }
  }

  /** All or none: a refusal costs no token anywhere. */
  #take(buckets: readonly (readonly [LimitName, Bucket])[]): void {
    for (const [name, { waitMs }] of buckets) if (waitMs > 0) this.#refuse(name, waitMs)
    for (const [, bucket] of buckets) bucket.take()
  }

  #place(name: LimitName, key: string, most: number | undefined): readonly string[] {
    if (most === undefined) return NOTHING_TAKEN
    if (this.#slots.taken(key) >= most) this.#refuse(name, SLOT_RETRY_MS)
    return [key]
  }

  #refuse(name: LimitName, retryAfterMs: number): never {
    this.#options.onRefused(name)
    throw limitRefusal(name, retryAfterMs)
  }

  #ofPrincipal({ id }: Principal): CallLimit {
    const { byPrincipal, perPrincipal } = this.#settings
    return byPrincipal.size === 0 ? perPrincipal : (byPrincipal.get(id) ?? perPrincipal)
  }

  #ofTool(base: string): ToolLimit {
    const { byTool, perTool } = this.#settings
    return byTool.size === 0 ? perTool : (byTool.get(base) ?? perTool)
  }
}

function pairKey(base: string, principal: Principal): string {
  return `${base} ${subjectKey(principal)}`
}
