import { argsHash, type IdentifiedCall } from '#core/calls/identity'
import type { CallScope } from '#core/calls/scope'
import { type ErrorCode, isToolError } from '#core/errors'
import { subjectKey, TokenBuckets } from '#core/limits/counters'
import type { Store } from '#core/ports/store'
import type { Principal } from '#core/principal'
import type { Clock, Logger } from '#core/runtime'
import { type Tool, transportOf } from '#core/tool'
import type { RunFeed } from './feed.ts'

const LIMITED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'budget_exceeded'])

interface RefusedAttempt {
  readonly call: IdentifiedCall
  readonly tool: Tool
  readonly place: CallScope
}

/**
 * C10: a limit that refuses a call inside a run leaves a pair of events there. Only in runs that exist, and only so
 * many: a flood of refused calls must not fill the disk.
 */
export class RefusalEvents {
  readonly #services: {
    readonly store: Store
    readonly clock: Clock
    readonly log: Logger
    readonly feed: RunFeed
  }
  readonly #rate: EventRate

  constructor(services: {
    readonly store: Store
    readonly clock: Clock
    readonly log: Logger
    readonly feed: RunFeed
  }) {
    this.#services = services
    this.#rate = new EventRate(services.clock)
  }

  /** Never throws: the refusal itself is what the caller must hear. */
  async tell({ call, tool, place }: RefusedAttempt, error: unknown): Promise<void> {
    if (place.place === undefined || !isToolError(error) || !LIMITED.has(error.code)) return
    if (error.details.scope === undefined || !this.#rate.mayTell(call.principal)) return
    const { store, clock, log, feed } = this.#services
    const { request } = call
    try {
      const isTold = await store.noteRefusal({
        tenant: call.tenant,
        record: call.record,
        principal: call.principal.id,
        callId: call.callId,
        toolId: tool.catalogId,
        transport: transportOf(tool),
        argsHash: argsHash(call),
        place: place.place,
        sessionId: place.live?.sessionId,
        traceId: request.traceId ?? '',
        userId: request.userId,
        tool: tool.id,
        code: error.code,
        atMs: clock.nowMs(),
      })
      if (isTold) feed.notify(place.place.run)
    } catch (err) {
      log.warn({ err, record: call.record }, 'a refused call could not be told to its run')
    }
  }
}

/** Twenty at once of one principal, and one a second after that. */
const TOLD = { burst: 20, perMs: 1 / 1_000 }
/** The same for all principals together. */
const TOLD_IN_ALL = { burst: 200, perMs: 10 / 1_000 }
const EVERYBODY = '*'

/** How often runs are told of calls that did not run: a flood of them must not fill the disk. */
export class EventRate {
  readonly #clock: Clock
  readonly #buckets = new TokenBuckets()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  mayTell(principal: Principal): boolean {
    const nowMs = this.#clock.monotonicMs()
    const own = this.#buckets.find(subjectKey(principal), TOLD, nowMs)
    const all = this.#buckets.find(EVERYBODY, TOLD_IN_ALL, nowMs)
    if (own.waitMs > 0 || all.waitMs > 0) return false
    own.take()
    all.take()
    return true
  }
}
