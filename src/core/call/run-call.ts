import { fault } from '#core/errors'
import type { Reservation } from '#core/limits/budgets'
import type { Slot } from '#core/limits/running-slots'
import type { Outcome } from '#core/outcome'
import type { Attempt, CallRecord, ClaimResult, NewCall } from '#core/ports/store'
import { runEnded } from '#core/runs/run-ended'
import { sessionEnded } from '#core/sessions/session-ended'
import { hasEffects, type Tool } from '#core/tool'
import type { Waits } from '#core/workflow/still-waits'
import { type CallPlace, runIdOf } from './call-place.ts'
import type { CallServices } from './call-services.ts'
import type { Grant } from './check-approval.ts'
import { checkPresent } from './check-present.ts'
import { checkReady } from './check-ready.ts'
import { execute } from './execute.ts'
import type { IdentifiedCall } from './identified-call.ts'
import { join } from './look-up.ts'
import { recordedPlace, toNewCall } from './new-call.ts'
import { putAway } from './put-away.ts'
import { recordOutcome } from './record-outcome.ts'
import { refusalOutcome } from './refusal-outcome.ts'
import { attemptOf, LOST, type RunningCall } from './running-calls.ts'
import { isSameRequest } from './same-request.ts'

export interface CheckedCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  readonly place: CallPlace
  /** What `run` gets. */
  readonly input: unknown
  /** The record whose next attempt this is. */
  readonly seen: CallRecord | undefined
}

/** The same when nobody has to be asked, or somebody said yes. */
export interface GrantedCall extends CheckedCall {
  readonly grant: Grant | undefined
}

/** The same with what it may spend set aside. */
export interface FundedCall extends GrantedCall {
  readonly reservation: Reservation
}

export type RunResult =
  | {
      readonly kind: 'answer'
      readonly outcome: Outcome
      readonly runId: string
      readonly toolId: string
      readonly joined: boolean
    }
  /** Somebody else's record is under the key: look it up again. */
  | { readonly kind: 'lost' }
  /** A workflow that is put away until a step of it may go on. */
  | { readonly kind: 'waiting'; readonly waits: Waits; readonly runId: string }

/** Claim, run, record. The entry in `running` is made before the claim and lives until the outcome is durable. */
export async function runCall(services: CallServices, checked: FundedCall): Promise<RunResult> {
  const joined = join(services, checked.call)
  if (joined !== undefined) {
    const outcome = await joined.done
    if (outcome === LOST) return { kind: 'lost' }
    const { place, tool } = joined
    return {
      ...{ kind: 'answer', outcome, joined: true },
      ...{ runId: runIdOf(checked.call, place), toolId: tool.catalogId },
    }
  }
  // Again, because checking took time: from here to the entry nothing waits, so whoever drains sees every run.
  checkReady(services)
  if (checked.call.step?.isOver() === true) throw fault('cancelled', 'The workflow of this step has ended.')
  if (checked.seen !== undefined) checkPresent(checked.call)
  const place = recordedPlace(services.store, checked)
  if (place.live?.closing !== undefined) throw sessionEnded()
  const slot = services.limits.enter(checked.call, checked.tool)
  const running = services.running.start(checked.call, checked.tool, place)
  place.live?.enter(running)
  try {
    return await claimAndRun(services, running, { ...checked, place, slot })
  } finally {
    slot.leave()
    place.live?.leave(running)
    services.feed.notify(place.place?.run ?? checked.call.record)
  }
}

async function claimAndRun(
  services: CallServices,
  running: RunningCall,
  checked: FundedCall & { readonly slot: Slot },
): Promise<RunResult> {
  const newCall = toNewCall(services.clock, checked)
  const attempt = await claim(services, { running, newCall, checked })
  if (attempt === undefined) return { kind: 'lost' }
  services.feed.notify(checked.place.place?.run ?? checked.call.record)
  if (isClaimed(checked) && checked.call.request.leaving?.left?.aborted === true) running.interrupt('cancel')
  const end = await execute(services, running, checked.input)
  if (end.kind === 'suspended') {
    const waits = await putAway(services, { running, attempt, suspension: end.suspension })
    return { kind: 'waiting', waits, runId: runIdOf(checked.call, checked.place) }
  }
  const { outcome: ran, late } = end
  if (ran.ok || ran.neverStarted !== true) checked.reservation.settle(ran.durationMs ?? 0)
  const claimed = isClaimed(checked)
  const outcome = await recordOutcome(services, { running, newCall, attempt, outcome: ran, claimed })
  if (late !== undefined) keepLate(services, checked.slot, { run: attemptOf(running, attempt), late })
  if (outcome === LOST) return { kind: 'lost' }
  const runId = runIdOf(checked.call, checked.place)
  return { kind: 'answer', outcome, runId, toolId: checked.tool.catalogId, joined: false }
}

/** Rule 10: a late result never changes the outcome; it is kept, journaled, and its slot is freed only now. */
function keepLate(
  services: CallServices,
  slot: Slot,
  { run, late }: { readonly run: Attempt; readonly late: Promise<Outcome> },
): void {
  const settled = late.then((outcome) => services.keeper.recordLate(run, outcome))
  services.running.holdSlotUntil(settled)
  slot.extend(settled)
}

interface Claiming {
  readonly running: RunningCall
  readonly newCall: NewCall
  readonly checked: GrantedCall
}

/** The attempt we own, or `undefined` when somebody else has the key. A claim that fails ends the entry: nothing runs. */
async function claim(
  services: CallServices,
  { running, newCall, checked }: Claiming,
): Promise<number | undefined> {
  if (!isClaimed(checked)) return 1
  try {
    const result = await takeAttempt(services, newCall, checked)
    if (result.kind === 'claimed') return result.attempt
    if (result.kind === 'run_ended') throw runEnded(runIdOf(checked.call, checked.place))
  } catch (error) {
    services.running.noteAbandoned(running)
    abandon(services, running, refusalOutcome(services, error))
    throw error
  }
  abandon(services, running, LOST)
  return undefined
}

/** A new call, the next attempt of one, or the attempt that somebody said yes to (rule 20). */
async function takeAttempt(
  services: CallServices,
  newCall: NewCall,
  { call, seen, grant }: GrantedCall,
): Promise<ClaimResult> {
  const { store } = services
  if (seen === undefined) return await store.claim(newCall)
  const { session, atMs, rerunUntilMs } = newCall
  if (seen.waitsFor !== undefined) return await store.workflows.resume(seen, { atMs, rerunUntilMs })
  if (grant === undefined) {
    return await store.reclaim(seen, {
      session,
      atMs,
      corrected: correctionOf(services, { call, seen }, newCall),
    })
  }
  return await store.approvals.resume(seen, { ...grant, session, atMs, rerunUntilMs })
}

/** What a released call is from its next attempt on, when that brings other input (rule 9). */
export function correctionOf(
  services: CallServices,
  { call, seen }: { readonly call: IdentifiedCall; readonly seen: CallRecord },
  newCall: NewCall,
): NewCall | undefined {
  const isOther = seen.state === 'released' && !isSameRequest(services, call, seen)
  return isOther ? newCall : undefined
}

/** `pure` and `read` skip the claim of a first attempt (rule 7), unless somebody may be watching the run they are in. */
function isClaimed({ tool, seen, place }: CheckedCall): boolean {
  const isAlone = place.place === undefined && place.session === undefined
  return hasEffects(tool.policy) || seen !== undefined || !isAlone
}

/** Nothing ran: whoever joined gets the refusal, or looks at the record that won. */
function abandon(services: CallServices, running: RunningCall, end: Outcome | typeof LOST): void {
  services.running.end(running)
  running.settle(end)
}
