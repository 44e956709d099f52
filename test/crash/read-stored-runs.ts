import { z } from 'zod'
import type { StoredEvent, StoredRuns, StoredSession } from './run-history.ts'
import type { ReadRows } from './stored-rows.ts'

const FACT = z.object({
  type: z.enum([
    ...(['called', 'returned', 'session.opened', 'session.closed'] as const),
    ...(['interrupt.requested', 'node.suspended', 'interrupt.resolved'] as const),
    ...(['approval.granted', 'approval.rejected', 'approval.overridden'] as const),
  ]),
  record: z.string().optional(),
  attempt: z.int().optional(),
  sessionId: z.string().optional(),
  code: z.string().optional(),
  outcome: z.string().optional(),
})
const EVENT_ROW = z.object({ run: z.string(), sequence: z.coerce.number(), fact: z.string() })
const SESSION_ROW = z.object({ id: z.string(), state: z.string(), outcome: z.string().nullable() })
const GROUP_ROW = z.object({ events: z.string() })
const JOURNAL = z.array(z.object({ type: z.string(), session: z.string().optional() }))

/** Reads the database directly, without the code that wrote it. */
export async function readStoredRuns(rows: ReadRows): Promise<StoredRuns> {
  const events = await rows(
    'SELECT r.key AS run, e.sequence, e.fact FROM run_events e JOIN runs r ON r.no = e.run ORDER BY 1, 2',
  )
  const sessions = await rows('SELECT id, state, outcome FROM sessions')
  const groups = await rows('SELECT events FROM commit_groups ORDER BY at, id')
  return {
    events: Map.groupBy(events.map(storedEvent), ({ run }) => run),
    sessions: sessions.map(storedSession),
    journal: groups.flatMap(sessionEvents),
  }
}

function storedEvent(row: unknown): StoredEvent {
  const { run, sequence, fact } = EVENT_ROW.parse(row)
  const { type, record, attempt, sessionId, code, outcome } = FACT.parse(JSON.parse(fact))
  return { run, sequence, type, record, attempt, sessionId, code, outcome }
}

function storedSession(row: unknown): StoredSession {
  const { id, state, outcome } = SESSION_ROW.parse(row)
  return { sessionId: id, state, outcome: outcome ?? undefined }
}

function sessionEvents(row: unknown) {
  return JOURNAL.parse(JSON.parse(GROUP_ROW.parse(row).events)).flatMap(({ type, session }) =>
    session !== undefined && type.startsWith('session.') ? [{ type, sessionId: session }] : [],
  )
}
