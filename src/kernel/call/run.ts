import { CALL_ID_ADVICE, fault } from '#kernel/base/errors'
import { runIdOf } from '#kernel/base/ids'
import type { MaybePromise } from '#kernel/base/waiting'
import { type RunFeed, runEnded } from '#kernel/run/runs'
import { sessionEnded } from '#kernel/run/session-ends'
import { hasEffects } from '#kernel/tool/tool'
import type { Grant } from './approval.ts'
import type { Outcome } from './call.ts'
import type {
  Attempt,
  CallRecord,
  ClaimResult,
  FinishedAttempt,
  FinishResult,
  NewCall,
} from './call-record.ts'
import { type ExecuteNeeds, execute, type RefusalNeeds, refusalOutcome } from './execute.ts'
import {
  type Answer,
  answerOf,
  answerRecorded,
  type IdentifiedCall,
  isSameRequest,
  join,
  keyConflict,
  type LookUpNeeds,
  lastFailure,
  MAX_ATTEMPTS,
} from './look-up.ts'
import { type CheckedCall, correctionOf, recordedScope, toNewCall } from './resolve.ts'
import { attemptOf, hasLeft, LOST, type RunningCall } from './running.ts'
import type { CallStages, Reservation, Slot } from './stages.ts'
import { type Blocker, blockedBy, type Suspension } from './suspend.ts'

/**
 * Runs a checked call: claim, execute, record. `call-tool.ts` calls it once every check has passed.
 * The entry in `running` is made before the claim and removed only when the outcome is durable, so that a drain sees every run
 * and a second request joins it.
 */

export type RunNeeds = LookUpNeeds &
  ExecuteNeeds &
  RefusalNeeds &
  Pick<CallStages, 'limits' | 'workflows'> & { readonly feed: RunFeed }

/** The approval and the budget that a checked call runs with; each is `undefined` if it is not needed. */
interface Allowance {
  readonly grant: Grant | undefined
  readonly reservation: Reservation | undefined
}

export type RunResult =
  | Answer
  /** Another request claimed the key first: look it up again. */
  | { readonly kind: 'lost' }
  /** A workflow that is suspended until one of its steps can continue. */
  | { readonly kind: 'waiting'; readonly blocker: Blocker; readonly runId: string }

export function runCall(needs: RunNeeds, checked: CheckedCall, allowance: Allowance): Promise<RunResult> {
  const { call, tool } = checked
  const joined = join(needs, call)
  if (joined !== undefined) return answerJoined(joined)
  // Readiness is checked again, because the other checks took time. Nothing is awaited before `running.start`, so that a drain
  // sees every run.
  needs.health.checkReady()
  if (call.step?.hasWorkflowEnded() === true) throw fault('cancelled', 'The workflow of this step has ended.')
  if (checked.previous !== undefined) checkPresent(call)
  const scope = recordedScope(needs.store, checked)
  if (scope.live?.closing !== undefined) throw sessionEnded()
  const slot = needs.limits.enter(call.principal, tool, call.step !== undefined)
  const running = needs.running.start(call, tool, scope)
  running.isRepeated = checked.previous !== undefined
  scope.live?.enter(running)
  const inScope = scope === checked.scope ? checked : { ...checked, scope }
  return claimAndRun(needs, { running, checked: inScope, allowance, slot })
}

async function answerJoined(joined: RunningCall): Promise<RunResult> {
  const outcome = await joined.done
  return outcome === LOST ? { kind: 'lost' } : answerOf(joined, outcome, true)
}

interface EnteredCall {
  readonly running: RunningCall
  readonly checked: CheckedCall
  readonly allowance: Allowance
  readonly slot: Slot
}

async function claimAndRun(
  needs: RunNeeds,
  { running, checked, allowance, slot }: EnteredCall,
): Promise<RunResult> {
  const { call, scope } = checked
  try {
    const atMs = needs.clock.nowMs()
    const claimed = isClaimed(checked) ? toNewCall(checked, atMs) : undefined
    const { writer } = needs.store
    const { grant } = allowance
    const attempt =
      claimed === undefined ? 1 : await claim(needs, { running, newCall: claimed, checked, grant })
    if (attempt === undefined) return { kind: 'lost' }
    // Rule 18: other servers may consider this writer dead by now, so the call ends without running its tool.
    if (claimed !== undefined && !needs.store.mayStart(writer)) running.interrupt('shutdown')
    needs.feed.notify(scope.run?.run ?? call.record)
    if (claimed !== undefined && hasLeft(call.request.leaving)) running.interrupt('cancel')
    const executing = execute(needs, running, checked.input)
    // Built after the tool has started, because only the record needs it.
    const newCall = claimed ?? toNewCall(checked, atMs)
    const ended = executing instanceof Promise ? await executing : executing
    if (ended.kind === 'suspended') {
      const blocker = await suspend(needs, running, { attempt, suspension: ended.suspension })
      return { kind: 'waiting', blocker, runId: runIdOf(call, scope) }
    }
    const { outcome: ran, late } = ended
    if (ran.ok || ran.neverStarted !== true) allowance.reservation?.settle(ran.durationMs ?? 0)
    const isRecorded = claimed !== undefined
    const outcome = await recordOutcome(needs, { running, newCall, attempt, outcome: ran, isRecorded })
    if (late !== undefined) keepLate(needs, slot, { run: attemptOf(running, attempt), late })
    return outcome === LOST ? { kind: 'lost' } : answerOf(running, outcome, false)
  } finally {
    slot.leave()
    scope.live?.leave(running)
    needs.feed.notify(scope.run?.run ?? call.record)
  }
}

/** Rule 10: a late result never changes the outcome. It is stored and journaled, and only then is its slot freed. */
function keepLate(
  needs: RunNeeds,
  slot: Slot,
  { run, late }: { readonly run: Attempt; readonly late: Promise<Outcome> },
): void {
  const settled = late.then((outcome) => recordLate(needs, run, outcome))
  needs.running.holdSlotUntil(settled)
  slot.extend(settled)
}

async function recordLate({ store, clock, log }: RunNeeds, run: Attempt, outcome: Outcome): Promise<void> {
  try {
    await store.recordLate(run, outcome, clock.nowMs())
  } catch (error) {
    log.error({ err: error, record: run.record }, 'a late result could not be stored')
  }
}

interface ClaimArguments {
  readonly running: RunningCall
  readonly newCall: NewCall
  readonly checked: CheckedCall
  readonly grant: Grant | undefined
}

/**
 * The number of the attempt that this process owns, or `undefined` if another request has the key. A failed claim removes the
 * entry in `running`, and nothing runs.
 */
async function claim(needs: RunNeeds, claiming: ClaimArguments): Promise<number | undefined> {
  const { running, checked } = claiming
  try {
    const result = await takeAttempt(needs, claiming)
    if (result.kind === 'claimed') return result.attempt
    if (result.kind === 'run_ended') throw runEnded(runIdOf(checked.call, checked.scope))
    if (result.kind === 'session_ended') throw sessionEnded()
  } catch (error) {
    // Nothing ran: requests that joined get the same refusal.
    needs.running.noteAbandoned(running)
    end(needs, running, refusalOutcome(needs, error))
    throw error
  }
  end(needs, running, LOST)
  return undefined
}

/** Claims a new call, its next attempt, or the attempt that an approver allowed (rule 20). */
async function takeAttempt(
  needs: RunNeeds,
  { newCall, checked, grant }: ClaimArguments,
): Promise<ClaimResult> {
  const { store } = needs
  const { call, previous } = checked
  if (previous === undefined) return await store.claim(newCall)
  const { session, atMs, rerunUntilMs } = newCall
  if (previous.waitsFor !== undefined)
    return await needs.workflows.store.resume(previous, { atMs, rerunUntilMs })
  if (grant !== undefined)
    return await store.approvals.resume(previous, { ...grant, session, atMs, rerunUntilMs })
  const corrected = correctionOf(needs, { call, previous }, newCall)
  return await store.reclaim(previous, { session, atMs, corrected })
}

/** `pure` and `read` tools skip the claim of a first attempt (rule 7), unless a client may be watching their run. */
function isClaimed({ tool, previous, scope }: CheckedCall): boolean {
  const isAlone = scope.run === undefined && scope.session === undefined
  return hasEffects(tool.policy) || previous !== undefined || !isAlone
}

interface CompletedCall {
  readonly running: RunningCall
  readonly newCall: NewCall
  readonly attempt: number
  readonly outcome: Outcome
  /** Whether the call has a row already; otherwise its row is inserted together with the outcome. */
  readonly isRecorded: boolean
}

/**
 * Makes the outcome and its journal events durable before any request is answered. Returns `LOST` if another process still runs
 * an attempt under the same key: that attempt's outcome becomes the call's outcome.
 */
async function recordOutcome(needs: RunNeeds, ran: CompletedCall): Promise<Outcome | typeof LOST> {
  const { running, newCall, attempt, isRecorded } = ran
  const outcome = finalAfter(attempt, ran.outcome)
  const finished: FinishedAttempt = {
    run: attemptOf(running, attempt),
    state: stateOf(outcome),
    outcome,
    atMs: needs.clock.nowMs(),
  }
  const write = () => (isRecorded ? finish(needs, finished) : needs.store.insertFinished(newCall, finished))
  try {
    running.call.request.onRecording?.()
    const result = await write()
    if (result.kind === 'recorded') return end(needs, running, outcome)
    return end(needs, running, loserAnswer(needs, running, result.record))
  } catch (error) {
    keepUnsaved(needs, running, { write, error, text: 'an outcome could not be committed; keeping it' })
    const unknown = outcomeUnknown(running, outcome)
    running.settle(unknown)
    return unknown
  }
}

/** The run stays in `running` until the store has accepted its end (rule 11). */
function keepUnsaved(
  needs: RunNeeds,
  running: RunningCall,
  unsaved: { readonly write: () => MaybePromise<unknown>; readonly error: unknown; readonly text: string },
): void {
  needs.health.noteFailure(unsaved.error)
  needs.log.error({ err: unsaved.error, record: running.call.record }, unsaved.text)
  needs.health.unsaved.keep(async () => {
    await unsaved.write()
    needs.running.end(running)
  })
}

/** The result of a run whose writer was declared dead in the meantime is still recorded, as a late result (rules 10 and 18). */
async function finish(needs: RunNeeds, finished: FinishedAttempt): Promise<FinishResult> {
  const result = await needs.store.finish(finished)
  if (result.kind === 'found') await recordLate(needs, finished.run, finished.outcome)
  return result
}

/** `canRetry` stays set only if a repeated call may run again (rule 9). */
function finalAfter(attempt: number, outcome: Outcome): Outcome {
  const isLast = !outcome.ok && outcome.error.canRetry && attempt >= MAX_ATTEMPTS
  return isLast ? lastFailure(outcome) : outcome
}

/** A failure is `released` if the tool states that nothing took effect and attempts are left (rule 9). */
function stateOf(outcome: Outcome): FinishedAttempt['state'] {
  if (outcome.ok) return 'succeeded'
  return outcome.error.canRetry ? 'released' : 'failed'
}

function end<E extends Outcome | typeof LOST>(needs: RunNeeds, running: RunningCall, ending: E): E {
  needs.running.end(running)
  running.settle(ending)
  return ending
}

/** Rule 7: the loser returns the winner's outcome, or `key_conflict` if the winner was another request. */
function loserAnswer(needs: RunNeeds, running: RunningCall, winner: CallRecord): Outcome | typeof LOST {
  if (!isSameRequest(needs, running.call, winner)) return refusalOutcome(needs, keyConflict())
  return winner.state === 'running' || winner.state === 'parked' ? LOST : answerRecorded(winner)
}

/** Rule 11: the reply while the real outcome is kept in memory, to be committed as soon as the store works again. */
function outcomeUnknown(running: RunningCall, { durationMs }: Outcome): Outcome {
  const error = {
    code: 'outcome_unknown',
    message: `${running.tool.name} ran, but its outcome could not be stored yet. Do not repeat it${CALL_ID_ADVICE.ask}.`,
    canRetry: false,
  } as const
  return durationMs === undefined ? { ok: false, error } : { ok: false, error, durationMs }
}

/** Suspends a workflow until one of its steps can continue (rule 31); requests that joined it look up its record again. */
async function suspend(
  needs: RunNeeds,
  running: RunningCall,
  { attempt, suspension }: { readonly attempt: number; readonly suspension: Suspension },
): Promise<Blocker> {
  const { workflows, clock } = needs
  const { error, waitsFor } = suspension
  const { tenant } = running.call
  const write = () => workflows.store.suspend(attemptOf(running, attempt), { waitsFor, atMs: clock.nowMs() })
  try {
    await write()
    end(needs, running, LOST)
    const id = error.details.missing?.approval?.id
    return id === undefined || waitsFor === ''
      ? { error }
      : { error, approval: { tenant, record: waitsFor, id } }
  } catch (failure) {
    const text = 'a workflow could not be suspended; keeping it'
    keepUnsaved(needs, running, { write, error: failure, text })
    const unknown = blockedBy(running.tool.name, 'the server could not record that it waits.')
    running.settle(refusalOutcome(needs, unknown))
    return { error: unknown }
  }
}

/** Refuses a repeated call whose caller has disconnected, if that cancels the call (MCP-83). The record stays unchanged. */
function checkPresent({ request }: IdentifiedCall): void {
  if (!hasLeft(request.leaving)) return
  throw fault('not_ready', 'The caller disconnected before the tool was called. Nothing was run.', {
    retryAfterMs: 1_000,
  })
}
