import type { CrashStage } from './crash-stage.ts'
import { followRun } from './follow-run.ts'

/** Number of runs that accept calls at a time. */
const OPEN_RUNS = 4
/** Number of calls after which the oldest run accepts no more. */
const CALLS_PER_RUN = 40

/** Picks the run of the next call or session; some new runs get a reader. */
export function enterRun(stage: CrashStage): string {
  const oldest = Math.floor(stage.calls.size / CALLS_PER_RUN)
  const number = oldest + Math.floor(stage.random() * OPEN_RUNS)
  const runId = `run-${number}`
  if (stage.runs.has(runId)) return runId
  stage.runs.add(runId)
  if (number % stage.pace.readerEvery === 0) {
    const reading = followRun(stage, runId)
    // Awaited when the run is ended; until then a failure must not be an unhandled rejection.
    reading.catch(() => {})
    stage.readings.set(runId, reading)
  }
  return runId
}
