import type { NewSession, SessionAddress, SessionRecord } from '#core/ports/store'
import type { SessionOutcome } from '#core/runs/events'
import type { OpenGroup } from '#store/sql/open-group'
import { integer, text } from '#store/sql/row'
import { sessionFromRow } from '#store/sql/session-row'
import type { Database } from './database.ts'
import type { RunChanges } from './run-changes.ts'

/** Every change of a session, with its event in the run it belongs to (rule 30). */
export class SessionChanges {
  readonly #database: Database
  readonly #runs: RunChanges
  readonly #writerNo: () => number

  constructor(parts: {
    readonly database: Database
    readonly runs: RunChanges
    readonly writerNo: () => number
  }) {
    this.#database = parts.database
    this.#runs = parts.runs
    this.#writerNo = parts.writerNo
  }

  find({ tenant, sessionId }: SessionAddress): SessionRecord | undefined {
    const row = this.#database.get('findSession', sessionId)
    const found = row === undefined ? undefined : sessionFromRow(row)
    return found?.tenant === tenant ? found : undefined
  }

  /** Its run must be open. A session of a single attempt begins as `closing`: no other call may use it. */
  open(group: OpenGroup, session: NewSession, state: 'open' | 'closing'): void {
    const { sessionId, tenant, principal, tool, toolId, place, endsRun, atMs } = session
    this.#database.run(
      'insertSession',
      sessionId,
      tenant,
      principal,
      tool,
      toolId,
      place.run,
      endsRun === true ? 1 : 0,
      this.#writerNo(),
      state,
      atMs,
    )
    const position = this.#runs.append(place.run, {
      fact: { type: 'session.opened', sessionId, toolId },
      caller: undefined,
      atMs,
    })
    group.append({
      type: 'session.opened',
      at: atMs,
      session: sessionId,
      tenant,
      principal,
      tool,
      ...position,
    })
  }

  beginClose({ tenant, sessionId }: SessionAddress): boolean {
    return this.#database.run('beginSessionClose', sessionId, tenant) > 0
  }

  /** `closed` with its event; `false` when it was closed already, so there is exactly one close (OWP-41). */
  close(group: OpenGroup, address: SessionAddress, outcome: SessionOutcome, atMs: number): boolean {
    const { tenant, sessionId } = address
    const row = this.#database.get('closeSession', outcome, atMs, sessionId, tenant)
    if (row === undefined) return false
    const position = this.#runs.append(text(row, 'run'), {
      fact: { type: 'session.closed', sessionId, toolId: text(row, 'tool_id'), outcome },
      caller: undefined,
      atMs,
    })
    group.append({
      type: 'session.closed',
      at: atMs,
      session: sessionId,
      tenant,
      principal: text(row, 'principal'),
      tool: text(row, 'tool'),
      ...position,
      outcome,
    })
    if (integer(row, 'ends_run') === 1) this.#runs.end(group, { tenant, run: text(row, 'run') }, atMs)
    return true
  }
}
