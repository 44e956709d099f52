import type { Outcome } from '#core/outcome'
import type { CallRecord, FinishedRun, NewCall } from '#core/ports/store'
import { answerRecorded } from './answer-recorded.ts'
import type { CallServices } from './call-services.ts'
import { keyConflict } from './key-conflict.ts'
import { lastFailure, MOST_ATTEMPTS } from './may-run-again.ts'
import { refusalOutcome } from './refusal-outcome.ts'
import { attemptOf, LOST, type RunningCall } from './running-calls.ts'
import { isSameRequest } from './same-request.ts'

export interface RanCall {
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
export async function recordOutcome(services: CallServices, ran: RanCall): Promise<Outcome | typeof LOST> {
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
    if (claimed) await services.keeper.recordLate(finished.run, outcome)
    return end(services, running, loserAnswer(services, running, result.record))
  } catch (error) {
    services.readiness.noteStoreFailure(error)
    services.log.error(
      { err: error, record: newCall.record },
      'an outcome could not be committed; keeping it',
    )
    services.keeper.keep(async () => {
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
