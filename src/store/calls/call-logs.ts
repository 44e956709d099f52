import { StoreError } from '#kernel/base/errors'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, text } from '#kernel/store/rows'
import { mapped } from '#store/steps'

/**
 * What tools and programs logged during calls, for operators. The server's log collector (`server/calls/call-logs.ts`) writes the lines and
 * limits their number; the page of a call reads them. The lines can repeat inputs, so they are sealed, and retention deletes them with
 * results.
 */

const { all, write } = statements<keyof typeof queries>()

const LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LEVELS)[number]

export interface LogLine {
  readonly atMs: number
  readonly level: LogLevel
  readonly text: string
}

/** Lines of one call that are written together. */
export interface LoggedLines {
  readonly record: string
  readonly atMs: number
  readonly lines: readonly LogLine[]
}

/** Number of writes of one call that are read; the collector limits the lines of each. */
const MAX_ROWS = 200

export function openCallLogs({ exclusive, read, keys }: StoreContext) {
  return {
    add: exclusive(() => '', addLines),
    /** The lines of a call, oldest first. */
    read: read((record: string) =>
      mapped(all('logsOfCall', record, MAX_ROWS), (rows) => rows.flatMap((row) => openLines(keys, row))),
    ),
  }
}

export type CallLogStore = ReturnType<typeof openCallLogs>

function* addLines(group: CommitGroup, logged: readonly LoggedLines[]): Steps<void> {
  for (const { record, atMs, lines } of logged) {
    const sealed = group.keys.seal('requests', Buffer.from(JSON.stringify(lines)), contextOf(record))
    yield* write('addCallLog', record, atMs, sealed)
  }
}

/** Lines that cannot be opened are left out, so that the call can still be shown. */
function openLines(keys: KeyRing, row: Row): readonly LogLine[] {
  try {
    const plain = keys.open('requests', ...sealedOf(row)).toString('utf8')
    const lines: readonly LogLine[] = JSON.parse(plain)
    return lines
  } catch (error) {
    if (error instanceof StoreError) return []
    throw error
  }
}

/** Binds sealed lines to their call. */
function contextOf(record: string): string {
  return JSON.stringify(['call log', record])
}

const sealedOf = (row: Row) => [bytes(row, 'lines'), contextOf(text(row, 'record'))] as const

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'logs of calls', page: 'callLogsAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue: (row, keys) => keys.isDue('requests', ...sealedOf(row)),
    *reseal({ keys }, row) {
      yield* write('resealCallLog', keys.reseal('requests', ...sealedOf(row)), integer(row, 'no'))
    },
  },
]

const queries = {
  addCallLog: 'INSERT INTO call_logs (record, at, lines) VALUES (?, ?, ?)',
  logsOfCall: 'SELECT * FROM call_logs WHERE record = ? ORDER BY no LIMIT ?',
  callLogsAfter: 'SELECT * FROM call_logs WHERE no > ? ORDER BY no LIMIT ?',
  resealCallLog: 'UPDATE call_logs SET lines = ? WHERE no = ?',
  deleteCallLogs: 'DELETE FROM call_logs WHERE no IN (SELECT no FROM call_logs WHERE at < ? LIMIT ?)',
} as const

const tables = `
CREATE TABLE call_logs (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  record TEXT NOT NULL,
  at INTEGER NOT NULL,
  lines BLOB NOT NULL
) STRICT;

CREATE INDEX call_logs_record ON call_logs (record);
CREATE INDEX call_logs_at ON call_logs (at);
`

export const callLogModule: StoreModule = {
  name: 'call logs',
  ...{ tables, queries, resealing },
  *forget({ nowMs, policy, limit }) {
    return yield* write('deleteCallLogs', nowMs - policy.resultsMs, limit)
  },
}
