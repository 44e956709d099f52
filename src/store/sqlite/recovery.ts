import type { CallError, Failure } from '#core/call'
import { sessionLostError } from '#core/calls/errors'
import { lastFailure, MOST_ATTEMPTS } from '#core/calls/look-up'
import { ambiguousEvent, endedEvent } from '#core/journal/append'
import { boundText, subjectFromRow } from '#store/sql/call-row'
import type { GroupQueue } from '#store/sql/group-queue'
import type { OpenGroup } from '#store/sql/open-group'
import { outcomeToText } from '#store/sql/outcome-text'
import { integer, optionalText, type Row, text } from '#store/sql/row'
import { type CallRunEvents, toldByRow } from './call-run-events.ts'
import type { Database } from './database.ts'
import type { ParkedEnds } from './parked-ends.ts'
import type { SessionChanges } from './session-changes.ts'

const MOST_AT_ONCE = 500

export interface DeadWriter {
  readonly no: number
  readonly id: string
}

export interface Recovered {
  readonly ambiguous: number
  /** There may be more to decide. */
  readonly hasMore: boolean
}

/**
 * Rule 8: what a dead writer left running becomes `ambiguous`, except what may simply run again; that stays
 * until somebody asks for it or its time is over. Reads changed nothing, so they just end; what ran in a session
 * was lost with its state. Sessions close when nothing runs in them any more (rule 30).
 */
export class Recovery {
  readonly #database: Database
  readonly #runEvents: CallRunEvents
  readonly #sessions: SessionChanges
  readonly #ends: ParkedEnds

  constructor(parts: {
    readonly database: Database
    readonly runEvents: CallRunEvents
    readonly sessions: SessionChanges
    readonly ends: ParkedEnds
  }) {
    this.#database = parts.database
    this.#runEvents = parts.runEvents
    this.#sessions = parts.sessions
    this.#ends = parts.ends
  }

  /** Everything of one dead writer, a step a commit; gives how many calls became ambiguous. */
  async recoverAll(queue: GroupQueue, dead: DeadWriter, nowMs: number): Promise<number> {
    let ambiguous = 0
    for (;;) {
      const recovered = await queue.submit('', (group) => this.recoverWriter(group, dead, nowMs))
      ambiguous += recovered.ambiguous
      if (!recovered.hasMore) return ambiguous
    }
  }

  recoverWriter(group: OpenGroup, dead: DeadWriter, nowMs: number): Recovered {
    const rows = this.#database.all('cutCallsOf', dead.no, nowMs, MOST_ATTEMPTS, MOST_AT_ONCE)
    let ambiguous = 0
    for (const row of rows) {
      const outcome = outcomeOfCut(row)
      if (outcome !== undefined) this.#end(group, dead, { row, outcome, nowMs })
      else if (this.#makeAmbiguous(group, dead, { row, nowMs })) ambiguous += 1
    }
    const hasMore = rows.length === MOST_AT_ONCE || this.#closeSessions(group, dead, nowMs)
    this.#database.run('endWriter', nowMs, dead.id)
    return { ambiguous, hasMore }
  }

  #makeAmbiguous(
    group: OpenGroup,
    dead: DeadWriter,
    cut: { readonly row: Row; readonly nowMs: number },
  ): boolean {
    const { row, nowMs } = cut
    const subject = subjectFromRow(row)
    const { record, attempt } = subject
    if (this.#database.run('makeAmbiguous', record, dead.no, attempt) === 0) return false
    this.#runEvents.keep(row, toldByRow(row, 'running'))
    const run = optionalText(row, 'run') ?? record
    const attempted = { row: { ...row, run }, record, attempt, sessionId: undefined, atMs: nowMs }
    group.append({ ...ambiguousEvent(subject, dead.id, nowMs), ...this.#runEvents.cut(attempted, 'cut') })
    return true
  }

  #end(
    group: OpenGroup,
    dead: DeadWriter,
    cut: { readonly row: Row; readonly outcome: Failure; readonly nowMs: number },
  ): void {
    const { row, outcome, nowMs } = cut
    const subject = subjectFromRow(row)
    const { record, attempt } = subject
    const state = outcome.error.canRetry ? 'released' : 'failed'
    const slice = group.addPayload(boundText(record, outcomeToText(outcome)))
    const place = [slice.group, slice.at, slice.length]
    if (this.#database.run('endCut', state, nowMs, ...place, record, dead.no, attempt) === 0) return
    group.addReference()
    const ended = endedEvent(subject, attempt, { state, outcome, atMs: nowMs })
    const sessionId = optionalText(row, 'session')
    const position =
      optionalText(row, 'run') === undefined
        ? undefined
        : this.#runEvents.cut({ row, record, attempt, sessionId, atMs: nowMs }, outcome)
    group.append({ ...ended, ...position })
  }

  /** `true` while there are more. */
  #closeSessions(group: OpenGroup, dead: DeadWriter, nowMs: number): boolean {
    const rows = this.#database.all('openSessionsOf', dead.no, MOST_AT_ONCE)
    for (const row of rows) {
      const address = { tenant: text(row, 'tenant'), sessionId: text(row, 'id') }
      // The state that a parked call waits on is gone: a yes could not be used any more.
      this.#ends.endIn(group, address, { why: 'session', atMs: nowMs })
      this.#sessions.close(group, address, 'failed', nowMs)
    }
    return rows.length === MOST_AT_ONCE
  }
}

/** How a cut call ends; `undefined` when only an operator can say. */
function outcomeOfCut(row: Row): Failure | undefined {
  const tool = text(row, 'tool')
  const tier = text(row, 'tier')
  const hasEffects = tier === 'write' || tier === 'exec'
  if (optionalText(row, 'session') !== undefined) return failureOf(sessionLostError(tool, hasEffects))
  if (hasEffects) return undefined
  const message = `The server stopped while ${tool} was running. Nothing was changed.`
  const cut = failureOf({ code: 'cancelled', message, canRetry: true })
  // A read cut by a crash may be asked again as long as it has attempts left.
  return integer(row, 'attempt') < MOST_ATTEMPTS ? cut : lastFailure(cut)
}

function failureOf(error: CallError): Failure {
  return { ok: false, error }
}
