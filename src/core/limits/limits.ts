import type { IdentifiedCall } from '#core/calls/identity'
import type { Principal } from '#core/principal'
import type { Clock } from '#core/runtime'
import type { Tool } from '#core/tool'
import {
  type Bucket,
  freeSlot,
  pairKey,
  RunningSlots,
  type Slot,
  subjectKey,
  TokenBuckets,
} from './counters.ts'
import {
  type CallLimit,
  type LimitName,
  type LimitSettings,
  limitRefusal,
  type ToolLimit,
} from './settings.ts'

/** When somebody who found every place taken may look again. */
const SLOT_RETRY_MS = 1_000
const OVERLOAD_RETRY_MS = 2_000
/** A loop that is late with so few runs has tools that compute, and not too many callers. */
const FEW_RUNS = 10
/** No tool has such a name. */
const ALL_TOOLS = '*'

/** What tells that the server is behind. */
interface LoadSigns {
  /** Runs that hold a place. */
  runs(): number
  pendingWrites(): number
  /** How late the event loop has been for some time. */
  delayMs(): number
}

interface CallLimitsOptions {
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
  readonly #principals = new TokenBuckets()
  readonly #tools = new TokenBuckets()
  /** By tool and principal (OWP-56). */
  readonly #pairs = new TokenBuckets()
  readonly #slots = new RunningSlots()
  /** Which of the settings are for a tool, by whichever of its names: looked for once. */
  readonly #byTool = new WeakMap<Tool, ToolLimit>()

  constructor(options: CallLimitsOptions) {
    this.#options = options
    this.#settings = options.settings
  }

  /** Before the tool is looked for: load, then the caller's own rate. Unknown tools count too. */
  checkCaller(principal: Principal): void {
    this.#checkLoad()
    const { rate } = this.#ofPrincipal(principal)
    if (rate === undefined) return
    const bucket = this.#principals.find(subjectKey(principal), rate, this.#options.clock.monotonicMs())
    this.#checkToken('principal_rate', bucket)
    bucket.take()
  }

  /** After the tool was found in the caller's own catalog. All buckets give a token, or none does. */
  checkTool(principal: Principal, tool: Tool): void {
    const { rate, perPrincipal } = this.#ofTool(tool)
    const { base } = tool.parts
    const { rate: total } = this.#settings.total
    if (rate === undefined && perPrincipal.rate === undefined && total === undefined) return
    const nowMs = this.#options.clock.monotonicMs()
    const ofPair = perPrincipal.rate && this.#pairs.find(pairKey(principal, base), perPrincipal.rate, nowMs)
    const ofTool = rate && this.#tools.find(base, rate, nowMs)
    const ofAll = total && this.#tools.find(ALL_TOOLS, total, nowMs)
    this.#checkToken('tool_rate', ofPair)
    this.#checkToken('tool_rate', ofTool)
    this.#checkToken('total_rate', ofAll)
    ofPair?.take()
    ofTool?.take()
    ofAll?.take()
  }

  /** The places of a run that begins now; whoever gets them gives them back. A step stands on its workflow's place. */
  enter({ principal, step }: Pick<IdentifiedCall, 'principal' | 'step'>, tool: Tool): Slot {
    if (step === undefined) this.#checkTotal()
    const ofPrincipal = step === undefined ? this.#ofPrincipal(principal).concurrent : undefined
    const { concurrent: ofTool, perPrincipal } = this.#ofTool(tool)
    const { base } = tool.parts
    const ofPair = perPrincipal.concurrent
    if (ofPrincipal === undefined && ofTool === undefined && ofPair === undefined) return freeSlot()
    const keys = {
      principal: ofPrincipal === undefined ? undefined : subjectKey(principal),
      tool: ofTool === undefined ? undefined : base,
      pair: ofPair === undefined ? undefined : pairKey(principal, base),
    }
    const { principals, tools, pairs } = this.#slots
    this.#checkPlace('principal_concurrency', principals.taken(keys.principal), ofPrincipal)
    this.#checkPlace('tool_concurrency', tools.taken(keys.tool), ofTool)
    this.#checkPlace('tool_concurrency', pairs.taken(keys.pair), ofPair)
    return this.#slots.enter(keys)
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

  #checkToken(name: LimitName, bucket: Bucket | undefined): void {
    if (bucket !== undefined && bucket.waitMs > 0) this.#refuse(name, bucket.waitMs)
  }

  #checkPlace(name: LimitName, taken: number, most: number | undefined): void {
    if (most !== undefined && taken >= most) this.#refuse(name, SLOT_RETRY_MS)
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
