import { argsHash } from '#core/call/args-hash'
import type { CallPlace } from '#core/call/call-place'
import type { IdentifiedCall } from '#core/call/identified-call'
import { type ErrorCode, isToolError } from '#core/errors'
import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import type { Store } from '#core/ports/store'
import type { RunFeed } from '#core/runs/run-feed'
import { type Tool, transportOf } from '#core/tool'
import { TellingRate } from './telling-rate.ts'

const LIMITED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'budget_exceeded'])

export interface RefusedAttempt {
  readonly call: IdentifiedCall
  readonly tool: Tool
  readonly place: CallPlace
}

/**
 * C10: a limit that refuses a call inside a run leaves a pair of events there. Only in runs that exist, and only so
 * many: a flood of refused calls must not fill the disk.
 */
export class RefusalTeller {
  readonly #services: {
    readonly store: Store
    readonly clock: Clock
    readonly log: Logger
    readonly feed: RunFeed
  }
  readonly #rate: TellingRate

  constructor(services: {
    readonly store: Store
    readonly clock: Clock
    readonly log: Logger
    readonly feed: RunFeed
  }) {
    this.#services = services
    this.#rate = new TellingRate(services.clock)
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
