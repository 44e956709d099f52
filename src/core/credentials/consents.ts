import { argsHash, type IdentifiedCall } from '#core/calls/identity'
import type { CallScope } from '#core/calls/scope'
import { ownRunId } from '#core/ids'
import type { ChallengeNeed, ChallengeRecord, RunScope, Store } from '#core/ports/store'
import type { ConsentEnd } from '#core/ports/vault-store'
import type { RunFeed } from '#core/runs/feed'
import { EventRate } from '#core/runs/refusals'
import type { Clock, Logger } from '#core/runtime'
import { type Tool, transportOf } from '#core/tool'

interface TellerServices {
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly feed: RunFeed
}

interface LackingCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  readonly place: CallScope
  readonly challenge: ChallengeRecord
  readonly url: string
  /** The provider refused to renew what there was. */
  readonly hasExpired: boolean
}

/** What the runs of calls that lack a consent tell of it: the question, and how it ended (OWP-78, OWP-79). */
export class ConsentEvents {
  readonly #services: TellerServices
  readonly #rate: EventRate

  constructor(services: TellerServices) {
    this.#services = services
    this.#rate = new EventRate(services.clock)
  }

  /** The run that tells of it, if one does. Never throws: the challenge itself is what the caller must hear. */
  async ask(lacking: LackingCall): Promise<string | undefined> {
    const { call, tool, challenge, url, hasExpired } = lacking
    const place = placeFor(lacking)
    if (place === undefined) return undefined
    const { store, clock, log, feed } = this.#services
    try {
      if (await store.consents.runs.isTold(challenge.id, call.record)) return place.runId
      if (!this.#rate.mayTell(call.principal)) return undefined
      const isTold = await store.consents.runs.tell({
        ...{ tenant: call.tenant, record: call.record, principal: call.principal.id },
        ...{ callId: call.callId, toolId: tool.catalogId, transport: transportOf(tool) },
        ...{ argsHash: argsHash(call), place, userId: call.request.userId },
        traceId: call.request.traceId ?? '',
        challenge: challenge.id,
        need: challenge,
        url,
        hasExpired,
        expiresAtMs: challenge.expiresAtMs,
        atMs: clock.nowMs(),
      })
      if (isTold) feed.notify(place.run)
      return isTold ? place.runId : undefined
    } catch (err) {
      log.warn({ err, record: call.record }, 'a call that lacks a consent could not be told to its run')
      return undefined
    }
  }

  /** Tells every run that waits for this consent. Called before its challenge ends, so that a crash loses nothing. */
  async resolve(need: ChallengeNeed, end: ConsentEnd): Promise<void> {
    const { store, feed } = this.#services
    for (const run of await store.consents.runs.resolve(need, end)) feed.notify(run)
  }

  /** The same for consents that nobody gave in time. */
  async expire(): Promise<void> {
    const { store, clock, feed } = this.#services
    for (const run of await store.consents.runs.expire(clock.nowMs())) feed.notify(run)
  }
}

/**
 * The run the call names, or its own. A call that opens a bracket or a question in its own run begins that run itself,
 * and could not once it is over: such a call tells only in a run that it names.
 */
function placeFor({ call, tool, place }: LackingCall): RunScope | undefined {
  if (place.place !== undefined) return place.place
  const hasBracket = tool.session !== undefined && !tool.session.isOptional
  if (hasBracket || tool.policy.approval !== 'never') return undefined
  const { tenant, record, principal } = call
  return { tenant, principal: principal.id, runId: ownRunId(record), run: record }
}
