import { hasControlCharacter } from '#core/control-characters'
import { fault } from '#core/errors'
import type { RunPlace } from '#core/ports/run-store'
import type { Principal } from '#core/principal'

const LONGEST_RUN_ID = 128
const OWN_RUN = /^run_([A-Za-z0-9_-]{24})$/

/** The run of a call that arrived outside any: derived from its record, so a replay names it again. */
export function ownRunId(record: string): string {
  return `run_${record}`
}

/** Where the events of such a run go. */
export function ownPlace({ tenant, id }: Principal, record: string): RunPlace {
  return { tenant, principal: id, runId: ownRunId(record), run: record }
}

/** The record whose own run an id may name. */
export function recordOfRunId(runId: string): string | undefined {
  return OWN_RUN.exec(runId)?.[1]
}

/** Refuses ids that cannot travel in a header, a path and an event (OWP-99). */
export function checkRunId(runId: string): string {
  if (runId === '' || runId.length > LONGEST_RUN_ID) {
    throw fault('request_invalid', `A run id must have 1 to ${LONGEST_RUN_ID} characters.`)
  }
  if (hasControlCharacter(runId) || !runId.isWellFormed()) {
    throw fault('request_invalid', 'A run id must not contain control characters or lone surrogates.')
  }
  return runId
}
