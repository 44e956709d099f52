import { DatabaseSync } from 'node:sqlite'
import { z } from 'zod'
import type { StoredEvent, StoredRuns, StoredSession } from './run-history.ts'

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
const EVENT_ROW = z.object({ run: z.string(), sequence: z.int(), fact: z.string() })
const SESSION_ROW = z.object({ id: z.string(), state: z.string(), outcome: z.string().nullable() })
const GROUP_ROW = z.object({ events: z.string() })
const JOURNAL = z.array(z.object({ type: z.string(), session: z.string().optional() }))

/** Looks into the file itself, past the code that wrote it. */
export function readStoredRuns(file: string): StoredRuns {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    const events = database
      .prepare(
        'SELECT r.key AS run, e.sequence, e.fact FROM run_events e JOIN runs r ON r.no = e.run ORDER BY 1, 2',
      )
      .all()
      .map(storedEvent)
    const sessions = database.prepare('SELECT id, state, outcome FROM sessions').all().map(storedSession)
    const groups = database.prepare('SELECT events FROM commit_groups ORDER BY at, id').all()
    return {
      events: Map.groupBy(events, ({ run }) => run),
      sessions,
      journal: groups.flatMap(sessionEvents),
    }
  } finally {
    database.close()
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
