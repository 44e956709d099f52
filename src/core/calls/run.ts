import type { Grant } from '#core/approvals/check'
import type { Outcome } from '#core/call'
import { fault } from '#core/errors'
import type { Reservation } from '#core/limits/budgets'
import type { Slot } from '#core/limits/limits'
import type { Attempt, CallRecord, ClaimResult, FinishedRun, NewCall } from '#core/ports/store'
import { runEnded } from '#core/runs/runs'
import { sessionEnded } from '#core/runs/sessions'
import { hasEffects, type Tool } from '#core/tool'
import { type Blocked, blockedBy, type Suspension } from '#core/workflow/suspend'
import { refusalOutcome } from './errors.ts'
import { execute } from './execute.ts'
import type { CallServices } from './gateway.ts'
import { type IdentifiedCall, isSameRequest, keyConflict } from './identity.ts'
import { answerRecorded, join, lastFailure, MOST_ATTEMPTS } from './look-up.ts'
import { attemptOf, LOST, type RunningCall } from './running.ts'
import { type CallScope, recordedScope, runIdOf, toNewCall } from './scope.ts'

export interface CheckedCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  readonly place: CallScope
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
interface FundedCall extends GrantedCall {
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
  | { readonly kind: 'waiting'; readonly waits: Blocked; readonly runId: string }

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
  services.health.checkReady()
  if (checked.call.step?.isOver() === true) throw fault('cancelled', 'The workflow of this step has ended.')
  if (checked.seen !== undefined) checkPresent(checked.call)
  const place = recordedScope(services.store, checked)
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
    const waits = await suspend(services, { running, attempt, suspension: end.suspension })
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
  const settled = late.then((outcome) => recordLate(services, run, outcome))
  services.running.holdSlotUntil(settled)
  slot.extend(settled)
}

async function recordLate(
  { store, clock, log }: CallServices,
  run: Attempt,
  outcome: Outcome,
): Promise<void> {
  try {
    await store.recordLate(run, outcome, clock.nowMs())
  } catch (error) {
    log.error({ err: error, record: run.record }, 'a late result could not be stored')
  }
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

interface RanCall {
  readonly running: RunningCall
  readonly newCall: NewCall
  readonly attempt: number
  readonly outcome: Outcome
  /** Whether a row waits for this outcome; otherwise it is inserted with it. */
  readonly claimed: boolean
}

/**
 * Makes the outcome and its journal events durable before anybody hears of it. `lost` when somebody else's
 * attempt under the same key still runs: its outcome is the call's.
 */
async function recordOutcome(services: CallServices, ran: RanCall): Promise<Outcome | typeof LOST> {
  const { running, newCall, attempt, claimed } = ran
  const outcome = toldAfter(attempt, ran.outcome)
  const finished: FinishedRun = {
    run: attemptOf(running, attempt),
    state: stateOf(outcome),
    outcome,
    atMs: services.clock.nowMs(),
  }
  const write = () =>
    claimed ? services.store.finish(finished) : services.store.insertFinished(newCall, finished)
  try {
    const result = await write()
    if (result.kind === 'recorded') return end(services, running, outcome)
    // Ours was declared dead while it ran: what it did is not forgotten (rule 10).
    if (claimed) await recordLate(services, finished.run, outcome)
    return end(services, running, loserAnswer(services, running, result.record))
  } catch (error) {
    services.health.noteFailure(error)
    services.log.error(
      { err: error, record: newCall.record },
      'an outcome could not be committed; keeping it',
    )
    services.health.unsaved.keep(async () => {
      await write()
      services.running.end(running)
    })
    const unknown = outcomeUnknown(running, outcome)
    running.settle(unknown)
    return unknown
  }
}

/** `can_retry` is told only while a repeat can run (rule 9). */
function toldAfter(attempt: number, outcome: Outcome): Outcome {
  const isLast = !outcome.ok && outcome.error.canRetry && attempt >= MOST_ATTEMPTS
  return isLast ? lastFailure(outcome) : outcome
}

/** `released` is for failures whose author says nothing took effect, and not for ever (rule 9). */
function stateOf(outcome: Outcome): FinishedRun['state'] {
  if (outcome.ok) return 'succeeded'
  return outcome.error.canRetry ? 'released' : 'failed'
}

function end<E extends Outcome | typeof LOST>(services: CallServices, running: RunningCall, ending: E): E {
  services.running.end(running)
  running.settle(ending)
  return ending
}

/** Rule 7: a loser answers with the winner's outcome, or `key_conflict` when the winner was another request. */
function loserAnswer(
  services: CallServices,
  running: RunningCall,
  winner: CallRecord,
): Outcome | typeof LOST {
  if (!isSameRequest(services, running.call, winner)) return refusalOutcome(services, keyConflict())
  return winner.state === 'running' || winner.state === 'parked' ? LOST : answerRecorded(winner)
}

/** Rule 11: not a recorded outcome; the kept one is committed as soon as the store works again. */
function outcomeUnknown(running: RunningCall, { durationMs }: Outcome): Outcome {
  const error = {
    code: 'outcome_unknown',
    message: `${running.tool.name} ran, but its outcome could not be stored yet. Do not repeat it; ask again with the same call id.`,
    canRetry: false,
  } as const
  return durationMs === undefined ? { ok: false, error } : { ok: false, error, durationMs }
}

/** Puts a workflow away until one of its steps may go on (rule 31); whoever joined it looks at the record. */
async function suspend(
  services: CallServices,
  {
    running,
    attempt,
    suspension,
  }: { readonly running: RunningCall; readonly attempt: number; readonly suspension: Suspension },
): Promise<Blocked> {
  const { store, clock } = services
  const { error, waitsFor } = suspension
  const write = () => store.workflows.suspend(attemptOf(running, attempt), { waitsFor, atMs: clock.nowMs() })
  try {
    await write()
    services.running.end(running)
    running.settle(LOST)
    return { error, ...decidesOf(running, suspension) }
  } catch (failure) {
    services.health.noteFailure(failure)
    services.log.error(
      { err: failure, record: running.call.record },
      'a workflow could not be put away; keeping it',
    )
    services.health.unsaved.keep(async () => {
      await write()
      services.running.end(running)
    })
    const unknown = blockedBy(running.tool.name, 'the server could not record that it waits.')
    running.settle(refusalOutcome(services, unknown))
    return { error: unknown }
  }
}

function decidesOf({ call }: RunningCall, { error, waitsFor }: Suspension): Pick<Blocked, 'decides'> {
  const approvalId = error.details.missing?.approval?.id
  if (approvalId === undefined || waitsFor === '') return {}
  return { decides: { tenant: call.tenant, record: waitsFor, approvalId } }
}

/** Nothing begins for a caller whose leaving cancels (MCP-83): the call stays what it was. */
function checkPresent({ request }: IdentifiedCall): void {
  if (request.leaving?.left?.aborted !== true) return
  throw fault('not_ready', 'The caller left before the tool was called. Nothing was run.', {
    retryAfterMs: 1_000,
  })
}
