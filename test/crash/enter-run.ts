import type { CrashStage } from './crash-stage.ts'
import { followRun } from './follow-run.ts'

/** Runs that take calls at a time. */
const OPEN_RUNS = 4
/** Calls after which the oldest of them takes no more. */
const CALLS_PER_RUN = 40

/** A run to put the next call or session in; the first one there brings a reader for some. */
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
