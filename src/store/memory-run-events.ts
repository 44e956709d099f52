import type { Outcome } from '#core/call'
import type { RunPosition } from '#core/journal/events'
import type { CallRecord, CallSession, NewSession, RefusedCall } from '#core/ports/store'
import { calledFact, labelOf, ownRunEvents, refusedFacts, returnedFact } from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import type { MemoryRuns } from './memory-runs.ts'

/** What the memory store's calls leave in runs: a pair of events per attempt. */
export class MemoryRunEvents {
  readonly #runs: MemoryRuns
  readonly #openSession: (own: NewSession) => void

  constructor(runs: MemoryRuns, openSession: (own: NewSession) => void) {
    this.#runs = runs
    this.#openSession = openSession
  }

  /** The attempt's first event in its run, after the opening of its own session. */
  begin(row: CallRecord, session: CallSession | undefined, atMs: number): RunPosition | undefined {
    const { tenant, principal, tool, toolId, run } = row
    if (run === undefined) return undefined
    if (session?.isOwn === true) {
      const place = { tenant, run, principal, runId: '' }
      this.#openSession({ tenant, sessionId: session.sessionId, principal, tool, toolId, place, atMs })
    }
    return this.#runs.append(run, calledFact(attempted(row), principal), atMs)
  }

  end(row: CallRecord, end: Outcome | 'cut', atMs: number): RunPosition | undefined {
    if (row.run === undefined) return undefined
    return this.#runs.append(row.run, returnedFact(attempted(row), end), atMs)
  }

  /** The pair of a call that was refused; where the first one is, or nothing when no such run takes it. */
  refuse(refused: RefusedCall): RunPosition | undefined {
    const { place, atMs } = refused
    const run = this.#runs.find(place)
    if (run === undefined || isRunEnded(run, atMs)) return undefined
    const [called, returned] = refusedFacts(refused, labelOf(refused))
    const position = this.#runs.append(place.run, called, atMs)
    this.#runs.append(place.run, returned, atMs)
    return position
  }

  /** Gives a call told by its record alone a run with events, because more will be told than a record can. */
  keep(row: CallRecord & { run: string | undefined }): void {
    if (row.run !== undefined) return
    const { tenant, record, principal, createdAtMs } = row
    this.#runs.open({ tenant, run: record, principal }, createdAtMs)
    for (const { sequence: _given, atMs, ...fact } of ownRunEvents(row)) {
      this.#runs.append(record, fact, atMs)
    }
    row.run = record
  }
}

function attempted(row: CallRecord) {
  return { record: row.record, attempt: row.attempt, call: labelOf(row), sessionId: row.sessionId }
}
