import type { AlertFacts } from '#kernel/journal/notices'
import { type CommitGroup, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { StoreModule } from '#kernel/store/module'
import { integer, text } from '#kernel/store/rows'
import { mapped } from '#store/steps'

/**
 * Alerts that have started and not ended, one row each. The server's alerts write them.
 * Invariant: a row and its notice are written in one transaction, so each start and each end is reported once, whichever process notices
 * it and whether or not that process is restarted.
 */

const { all, write } = statements<keyof typeof queries>()

/** An alert that has started. */
export interface ActiveAlert extends AlertFacts {
  /** Identifies the rule and what it is about. */
  readonly id: string
  readonly startedAtMs: number
  /** The writer that started it. */
  readonly writer: string
}

interface EndedAlert extends AlertFacts {
  readonly id: string
  readonly startedAtMs: number
  readonly why: 'recovered' | 'removed'
}

export function openAlerts({ exclusive, read, chain }: StoreContext) {
  const idOf = ({ id }: { readonly id: string }) => id
  return {
    active: read(() =>
      mapped(all('activeAlerts'), (rows) =>
        rows.map((row): ActiveAlert => {
          const facts: AlertFacts = JSON.parse(text(row, 'facts'))
          return {
            ...facts,
            id: text(row, 'id'),
            startedAtMs: integer(row, 'started_at'),
            writer: text(row, 'writer'),
          }
        }),
      ),
    ),
    /** Starts the alert unless it has started. */
    start: exclusive(idOf, (group: CommitGroup, alert: AlertFacts & { readonly id: string }, atMs: number) =>
      startAlert(group, alert, { atMs, writer: chain.id }),
    ),
    /** Ends the alert unless it has ended. */
    end: exclusive(idOf, endAlert),
  }
}

export type AlertStore = ReturnType<typeof openAlerts>

function* startAlert(
  group: CommitGroup,
  { id, name, condition }: AlertFacts & { readonly id: string },
  { atMs, writer }: { readonly atMs: number; readonly writer: string },
): Steps<boolean> {
  const alert = { name, condition }
  if ((yield* write('startAlert', id, JSON.stringify(alert), writer, atMs)) === 0) return false
  yield* group.notify({ kind: 'alert.started', alert }, { about: JSON.stringify([id, atMs]), atMs })
  return true
}

function* endAlert(
  group: CommitGroup,
  { id, name, condition, startedAtMs, why }: EndedAlert,
  atMs: number,
): Steps<boolean> {
  if ((yield* write('endAlert', id, startedAtMs)) === 0) return false
  const subject = { kind: 'alert.ended', alert: { name, condition }, startedAtMs, why } as const
  yield* group.notify(subject, { about: JSON.stringify([id, startedAtMs]), atMs })
  return true
}

const queries = {
  activeAlerts: 'SELECT * FROM alerts ORDER BY started_at, id',
  startAlert:
    'INSERT INTO alerts (id, facts, writer, started_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING',
  endAlert: 'DELETE FROM alerts WHERE id = ? AND started_at = ?',
} as const

const tables = `
CREATE TABLE alerts (
  id TEXT PRIMARY KEY,
  facts TEXT NOT NULL,
  writer TEXT NOT NULL,
  started_at INTEGER NOT NULL
) STRICT;
`

export const alertModule: StoreModule = { name: 'alerts', tables, queries }
