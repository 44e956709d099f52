import { hash } from 'node:crypto'
import { isRecord } from '#kernel/base/json'
import { NOTICE_KINDS, type NoticeKind, type NoticeSubject } from '#kernel/journal/notices'
import {
  type CommitGroup,
  type Occasion,
  type Row,
  type Steps,
  type StoreContext,
  statements,
} from '#kernel/store/engine'
import type { StoreModule } from '#kernel/store/module'
import { integer, optionalInteger, optionalText, text } from '#kernel/store/rows'
import { mapped } from './steps.ts'

/**
 * Notices for operators. A change writes them in its own transaction (`CommitGroup.notify`), once per listener; the webhook
 * sender takes and settles them. A delivered notice is kept for a while, so that no event is reported twice.
 */

const { get, all, write } = statements<keyof typeof queries>()

export interface NoticeListener {
  /** The listener's name in the store. */
  readonly target: string
  readonly kinds: ReadonlySet<NoticeKind>
}

/** A notice to one listener that is not delivered yet. */
export interface DueNotice {
  readonly id: string
  readonly target: string
  readonly subject: NoticeSubject
  /** Number of attempts, including this one. */
  readonly tries: number
  readonly createdAtMs: number
}

/** The result of a delivery attempt. `moot`: there is nothing left to report. */
export type NoticeResult = { readonly atMs: number } & (
  | { readonly kind: 'delivered' | 'moot' }
  | { readonly kind: 'failed'; readonly failure: string; readonly nextAtMs: number }
  | { readonly kind: 'given_up'; readonly failure: string }
)

/** Recent deliveries to one listener. */
export interface ListenerState {
  readonly target: string
  /** Number of undelivered notices; `waitingSinceMs` is the time of the oldest. */
  readonly waiting: number
  readonly waitingSinceMs: number | undefined
  readonly delivered: number
  readonly givenUp: number
  readonly deliveredAtMs: number | undefined
  readonly failedAtMs: number | undefined
  readonly failure: string | undefined
}

export function openNotices({ exclusive, lane, read, chain }: StoreContext) {
  let current: readonly NoticeListener[] = []
  chain.notify = function* (subject, occasion) {
    yield* insertNotices(current, subject, occasion)
  }
  const order = (target: string) => `notices ${target}`
  const idOf = ({ id }: { readonly id: string }) => id
  return {
    /** Sets the listeners that are notified of this process's changes; there are none before the first call. */
    listen(listeners: readonly NoticeListener[]) {
      current = listeners
    },
    due: read((nowMs: number) =>
      mapped(all('dueTargets', nowMs), (rows) => rows.map((row) => text(row, 'target'))),
    ),
    /** Takes the due notices for one listener and postpones their next attempt, so that only one process at a time tries each. */
    take: exclusive(order, takeNotices),
    /** Changes nothing if another process has taken the notice in the meantime. */
    settle: lane(idOf, idOf, settleNotice),
    /** Every listener that a notice was recently written for, whether or not it is still configured. */
    listeners: read(listenerStates),
  }
}

export type NoticeStore = ReturnType<typeof openNotices>

/** How long a notice is kept, delivered or not. */
const KEPT_MS = 7 * 86_400_000
const ID_CHARACTERS = 32

function* insertNotices(
  listeners: readonly NoticeListener[],
  subject: NoticeSubject,
  { about, atMs, untilMs = atMs }: Occasion,
): Steps<void> {
  for (const { target, kinds } of listeners) {
    if (!kinds.has(subject.kind)) continue
    const name = hash('sha256', JSON.stringify([target, subject.kind, about]), 'base64url')
    const keptUntilMs = Math.max(untilMs, atMs) + KEPT_MS
    const id = `msg_${name.slice(0, ID_CHARACTERS)}`
    yield* write('insertNotice', id, target, JSON.stringify(subject), atMs, keptUntilMs, atMs)
  }
}

function* takeNotices(
  _group: CommitGroup,
  target: string,
  nowMs: number,
  leaseMs: number,
  limit: number,
): Steps<readonly DueNotice[]> {
  const notices: DueNotice[] = []
  for (const row of yield* all('takeNotices', nowMs + leaseMs, target, nowMs, limit, nowMs)) {
    const [id, tries] = [text(row, 'id'), integer(row, 'tries')]
    const subject = subjectOf(row)
    if (subject !== undefined)
      notices.push({ id, target, subject, tries, createdAtMs: integer(row, 'created_at') })
    else yield* settleNotice(_group, { id, tries }, { kind: 'given_up', atMs: nowMs, failure: UNREADABLE })
  }
  return notices
}

const UNREADABLE = 'the content of the notice cannot be read'

/** A malformed row is skipped, so that it does not delay the others. */
function subjectOf(row: Row): NoticeSubject | undefined {
  try {
    const subject: NoticeSubject = JSON.parse(text(row, 'subject'))
    return isRecord(subject) && NOTICE_KINDS.includes(subject.kind) ? subject : undefined
  } catch {
    return undefined
  }
}

function* settleNotice(
  _group: CommitGroup,
  { id, tries }: Pick<DueNotice, 'id' | 'tries'>,
  result: NoticeResult,
): Steps<void> {
  const end = result.kind === 'failed' ? [result.nextAtMs, null, null] : [null, result.kind, result.atMs]
  const failure = 'failure' in result ? [result.failure, result.atMs] : [null, null]
  yield* write('settleNotice', ...end, ...failure, id, tries)
}

function* listenerStates(): Steps<readonly ListenerState[]> {
  const states: ListenerState[] = []
  for (const row of yield* all('listenersOfNotices')) {
    const [target, failedAtMs] = [text(row, 'target'), optionalInteger(row, 'failed_at')]
    const failed = failedAtMs === undefined ? undefined : yield* get('failureOfNotices', target, failedAtMs)
    states.push({
      target,
      waiting: integer(row, 'waiting'),
      waitingSinceMs: optionalInteger(row, 'waiting_since'),
      delivered: integer(row, 'delivered'),
      givenUp: integer(row, 'given_up'),
      deliveredAtMs: optionalInteger(row, 'delivered_at'),
      failedAtMs,
      failure: failed === undefined ? undefined : optionalText(failed, 'failure'),
    })
  }
  return states
}

const queries = {
  insertNotice: `INSERT INTO notices (id, target, subject, created_at, kept_until, tries, next_at) VALUES (?, ?, ?, ?, ?, 0, ?)
    ON CONFLICT (id) DO NOTHING`,
  dueTargets: 'SELECT DISTINCT target FROM notices WHERE next_at <= ? AND next_at IS NOT NULL',
  takeNotices: `UPDATE notices SET tries = tries + 1, next_at = ? WHERE id IN
      (SELECT id FROM notices WHERE target = ? AND next_at <= ? ORDER BY next_at LIMIT ?) AND next_at <= ?
    RETURNING id, subject, tries, created_at`,
  settleNotice: `UPDATE notices SET next_at = ?, ended = ?, ended_at = ?, failure = coalesce(?, failure),
      failed_at = coalesce(?, failed_at) WHERE id = ? AND tries = ?`,
  listenersOfNotices: `SELECT target, count(next_at) AS waiting, min(CASE WHEN next_at IS NULL THEN NULL ELSE created_at END) AS waiting_since,
      count(CASE WHEN ended = 'delivered' THEN 1 END) AS delivered, count(CASE WHEN ended = 'given_up' THEN 1 END) AS given_up,
      max(CASE WHEN ended = 'delivered' THEN ended_at END) AS delivered_at, max(failed_at) AS failed_at
    FROM notices GROUP BY target ORDER BY target`,
  failureOfNotices: 'SELECT failure FROM notices WHERE target = ? AND failed_at = ? LIMIT 1',
  deleteNotices: `DELETE FROM notices WHERE id IN (SELECT id FROM notices WHERE kept_until < ? ORDER BY kept_until LIMIT ?)`,
} as const

/** One row per notice and listener. A notice without `next_at` is settled; `ended` states how. */
const tables = `
CREATE TABLE notices (
  id TEXT PRIMARY KEY,
  target TEXT NOT NULL,
  subject TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  kept_until INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  next_at INTEGER,
  ended TEXT,
  ended_at INTEGER,
  failure TEXT,
  failed_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX notices_due ON notices (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX notices_of ON notices (target, failed_at);
CREATE INDEX notices_kept ON notices (kept_until);
`

export const noticeModule: StoreModule = {
  name: 'notices',
  ...{ tables, queries },
  *forget({ nowMs, limit }) {
    return yield* write('deleteNotices', nowMs, limit)
  },
}
