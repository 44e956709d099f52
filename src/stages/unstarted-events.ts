import { type ErrorCode, isToolError } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import type { RunScope } from '#kernel/call/call-record'
import type { ChallengeNeed, ChallengeRecord, StageContext, UnstartedCall } from '#kernel/call/stages'
import { implicitRun } from '#kernel/run/runs'
import { subjectKey } from '#stages/limits/limits'
import { TokenBuckets } from '#stages/limits/rates'
import type { Store } from '#store/collet-store'
import type { ConsentEnd, ConsentRequest } from '#store/consents'

/**
 * Events in runs about calls that did not start: refused by a limit (C10), or waiting for a consent (OWP-78, OWP-79). The limit
 * and credential stages write them.
 * They never fail a call, and their rate is limited: a flood of refused calls must not fill the disk.
 */

const LIMITED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'budget_exceeded'])

type NoticeServices = Pick<StageContext, 'clock' | 'log' | 'feed'> & { readonly store: Store }

/** Each principal may cause twenty events at once, and one per second after that. */
const OWN_EVENTS = { burst: 20, perMs: 1 / 1_000 }
/** The limit for all principals together. */
const ALL_EVENTS = { burst: 200, perMs: 10 / 1_000 }
const ALL_PRINCIPALS = '*'

/** Base class of both writers of events: their services and their rate limit. */
class RunEvents {
  protected readonly services: NoticeServices
  readonly #buckets = new TokenBuckets()

  constructor(services: NoticeServices) {
    this.services = services
  }

  protected takeToken(principal: Principal): boolean {
    const nowMs = this.services.clock.monotonicMs()
    const own = this.#buckets.find(subjectKey(principal), OWN_EVENTS, nowMs)
    const all = this.#buckets.find(ALL_PRINCIPALS, ALL_EVENTS, nowMs)
    if (own.waitMs > 0 || all.waitMs > 0) return false
    own.take()
    all.take()
    return true
  }
}

/** C10: if a limit refuses a call inside an existing run, a pair of events is appended to the run. */
export class RefusalEvents extends RunEvents {
  /** Never throws: the caller must get the refusal itself. */
  async add(
    refused: UnstartedCall & { readonly sessionId: string | undefined },
    error: unknown,
  ): Promise<void> {
    const { principal, record, tool, run, sessionId } = refused
    if (run === undefined || !isToolError(error) || !LIMITED.has(error.code)) return
    if (error.details.scope === undefined || !this.takeToken(principal)) return
    const { store, clock, log, feed } = this.services
    try {
      const isNoted = await store.noteRefusal({
        ...refused.name(),
        scope: run,
        sessionId,
        tool: tool.id,
        code: error.code,
        atMs: clock.nowMs(),
      })
      if (isNoted) feed.notify(run.run)
    } catch (err) {
      log.warn({ err, record }, 'a refused call could not be recorded in its run')
    }
  }
}

interface MissingConsent extends Pick<ConsentRequest, 'url' | 'hasExpired'> {
  readonly challenge: ChallengeRecord
}

/** Events about a request for consent and its end, in the runs of the calls that need the consent. */
export class ConsentEvents extends RunEvents {
  /** Returns the run with the events, if there is one. Never throws: the caller must get the challenge itself. */
  async ask(
    call: UnstartedCall,
    { challenge, url, hasExpired }: MissingConsent,
  ): Promise<string | undefined> {
    const run = runFor(call)
    if (run === undefined) return undefined
    const { store, clock, log, feed } = this.services
    try {
      if (await store.consents.runs.isAsked(challenge.id, call.record)) return run.runId
      if (!this.takeToken(call.principal)) return undefined
      const isNoted = await store.consents.runs.ask({
        ...call.name(),
        scope: run,
        challenge: challenge.id,
        need: challenge,
        url,
        hasExpired,
        expiresAtMs: challenge.expiresAtMs,
        atMs: clock.nowMs(),
      })
      if (isNoted) feed.notify(run.run)
      return isNoted ? run.runId : undefined
    } catch (err) {
      log.warn({ err, record: call.record }, 'a call that lacks a consent could not be recorded in its run')
      return undefined
    }
  }

  /**
   * Ends the request for this consent in every run that waits for it. Called before its challenge ends, so that a crash loses
   * nothing.
   */
  async resolve(need: ChallengeNeed, end: ConsentEnd): Promise<void> {
    const { store, feed } = this.services
    for (const run of await store.consents.runs.resolve(need, end)) feed.notify(run)
  }

  /** Ends requests for consent that were not answered in time. */
  async expire(): Promise<void> {
    const { store, clock, feed } = this.services
    for (const run of await store.consents.runs.expire(clock.nowMs())) feed.notify(run)
  }
}

/**
 * The run that the call names, or its own run. A call whose own run begins with a session or an approval must start that run
 * itself, so these events are written only if it names a run.
 */
function runFor({ principal, record, tool, run }: UnstartedCall): RunScope | undefined {
  if (run !== undefined) return run
  const startsRun = tool.session !== undefined && !tool.session.isOptional
  if (startsRun || tool.policy.approval !== 'never') return undefined
  return implicitRun(principal, record)
}
