import type { NewSession, SessionAddress, SessionRecord } from '#core/ports/store'
import type { SessionOutcome } from '#core/runs/events'
import type { CommitGroup } from '#store/engine'
import { integer, text, word } from '#store/rows'
import { get, type Row, type Steps, write } from '#store/steps'
import { appendFact, endRun, openRun } from './runs.ts'

export function* findSession({ tenant, sessionId }: SessionAddress): Steps<SessionRecord | undefined> {
  const row = yield* get('findSession', sessionId)
  const found = row === undefined ? undefined : sessionFromRow(row)
  return found?.tenant === tenant ? found : undefined
}

export function* openSession(group: CommitGroup, session: NewSession): Steps<'opened' | 'run_ended'> {
  if (!(yield* openRun(session.scope, session.atMs))) return 'run_ended'
  yield* insertSession(group, session, 'open')
  return 'opened'
}

/** Its run must be open. A session of a single attempt begins as `closing`: no other call may use it. */
export function* insertSession(
  group: CommitGroup,
  session: NewSession,
  state: 'open' | 'closing',
): Steps<void> {
  const { sessionId, tenant, principal, tool, toolId, scope, endsRun, atMs } = session
  const who = [sessionId, tenant, principal, tool, toolId] as const
  yield* write('insertSession', ...who, scope.run, endsRun === true ? 1 : 0, group.writer, state, atMs)
  const fact = { type: 'session.opened', sessionId, toolId } as const
  const position = yield* appendFact(scope.run, { fact, caller: undefined, atMs })
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

export function* beginSessionClose(
  _group: CommitGroup,
  { tenant, sessionId }: SessionAddress,
): Steps<boolean> {
  return (yield* write('beginSessionClose', sessionId, tenant)) > 0
}

/** `closed` with its event; `false` when it was closed already, so there is exactly one close (OWP-41). */
export function* closeSession(
  group: CommitGroup,
  address: SessionAddress,
  outcome: SessionOutcome,
  atMs: number,
): Steps<boolean> {
  const { tenant, sessionId } = address
  const row = yield* get('closeSession', outcome, atMs, sessionId, tenant)
  if (row === undefined) return false
  const run = text(row, 'run')
  const fact = { type: 'session.closed', sessionId, toolId: text(row, 'tool_id'), outcome } as const
  const position = yield* appendFact(run, { fact, caller: undefined, atMs })
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
  if (integer(row, 'ends_run') === 1) yield* endRun(group, { tenant, run }, atMs)
  return true
}

const STATES = ['open', 'closing', 'closed'] as const

const OUTCOMES = ['completed', 'failed', 'cancelled'] as const

function sessionFromRow(row: Row): SessionRecord {
  return {
    tenant: text(row, 'tenant'),
    sessionId: text(row, 'id'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    toolId: text(row, 'tool_id'),
    run: text(row, 'run'),
    state: word(row, 'state', STATES),
    writer: text(row, 'writer_id'),
    outcome: row.outcome === null ? undefined : word(row, 'outcome', OUTCOMES),
  }
}

export const queries = {
  insertSession: `INSERT INTO sessions (id, tenant, principal, tool, tool_id, run, ends_run, writer, state, opened_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  findSession:
    'SELECT s.*, w.id AS writer_id FROM sessions s JOIN writers w ON w.no = s.writer WHERE s.id = ?',
  beginSessionClose: "UPDATE sessions SET state = 'closing' WHERE id = ? AND tenant = ? AND state = 'open'",
  closeSession: `UPDATE sessions SET state = 'closed', outcome = ?, closed_at = ?
    WHERE id = ? AND tenant = ? AND state <> 'closed' RETURNING principal, tool, tool_id, run, ends_run`,
} as const

export const tables = `
CREATE TABLE sessions (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  tool_id TEXT NOT NULL,
  run TEXT NOT NULL,
  ends_run INTEGER NOT NULL,
  writer INTEGER NOT NULL,
  state TEXT NOT NULL,
  outcome TEXT,
  opened_at INTEGER NOT NULL,
  closed_at INTEGER
) STRICT;

CREATE INDEX sessions_open ON sessions (writer) WHERE state <> 'closed';
CREATE INDEX sessions_closed ON sessions (closed_at) WHERE state = 'closed';
`
