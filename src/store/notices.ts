import { hash } from 'node:crypto'
import { isRecord } from '#core/json'
import {
  type DueNotice,
  type ListenerState,
  NOTICE_KINDS,
  type NoticeKind,
  type NoticeListener,
  type NoticeResult,
  type NoticeStore,
  type NoticeSubject,
} from '#core/ports/notice-store'
import { all, type CommitGroup, get, type Row, type Steps, type StoreContext, write } from './engine.ts'
import { integer, optionalInteger, optionalText, text } from './rows.ts'

/** Notices: written by the changes they tell of (`tell`), taken and settled here. */
export function sqlNotices({ careful, lane, read }: StoreContext, audience: Audience): NoticeStore {
  const order = (target: string) => `notices ${target}`
  const idOf = ({ id }: { readonly id: string }) => id
  return {
    listen: (listeners) => audience.change(listeners),
    due: read(dueTargets),
    take: careful(order, takeNotices),
    settle: lane(idOf, idOf, settleNotice),
    listeners: read(listenerStates),
  }
}

/** Who is told of what; each store has one, which every commit group knows. */
export class Audience {
  #targets: ReadonlyMap<NoticeKind, readonly string[]> = new Map()

  change(listeners: readonly NoticeListener[]): void {
    this.#targets = new Map(
      NOTICE_KINDS.map((kind) => [
        kind,
        listeners.filter(({ kinds }) => kinds.has(kind)).map(({ target }) => target),
      ]),
    )
  }

  targetsOf(kind: NoticeKind): readonly string[] {
    return this.#targets.get(kind) ?? []
  }
}

/** When something happened, and what makes it one thing: of the same kind and name nobody is told twice. */
interface Occasion {
  readonly about: string
  readonly atMs: number
  /** Until then the same may happen again. */
  readonly untilMs?: number
}

const DAY_MS = 86_400_000
/** How long a notice is remembered, delivered or not. */
const KEPT_MS = 7 * DAY_MS
const ID_CHARACTERS = 32

/** Part of the change that makes it so: it is told if that is committed, and only then. */
export function* tell(group: CommitGroup, subject: NoticeSubject, occasion: Occasion): Steps<void> {
  const { about, atMs, untilMs = atMs } = occasion
  const { kind } = subject
  for (const target of group.audience.targetsOf(kind)) {
    const name = hash('sha256', JSON.stringify([target, kind, about]), 'base64url')
    const keptUntilMs = Math.max(untilMs, atMs) + KEPT_MS
    const id = `msg_${name.slice(0, ID_CHARACTERS)}`
    yield* write('insertNotice', id, target, JSON.stringify(subject), atMs, keptUntilMs, atMs)
  }
}

function* dueTargets(nowMs: number): Steps<readonly string[]> {
  return (yield* all('dueTargets', nowMs)).map((row) => text(row, 'target'))
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

const UNREADABLE = 'what it tells of cannot be read'

/** A row that somebody else wrote tells of nothing, and must not hold up the others. */
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
  const failure = 'failure' in result ? result.failure : null
  const failedAt = failure === null ? null : result.atMs
  const isOver = result.kind !== 'failed'
  const columns = [
    isOver ? null : result.nextAtMs,
    isOver ? result.kind : null,
    isOver ? result.atMs : null,
    failure,
    failedAt,
  ]
  yield* write('settleNotice', ...columns, id, tries)
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

/**
 * Those that are old enough go, delivered or not. Servers of schema 1, which may still be running beside this one, write
 * their messages into a table of their own; what they leave there is taken over, with its id.
 */
export function* forgetNotices(nowMs: number, most: number): Steps<number> {
  if ((yield* get('earlierNotice')) !== undefined) {
    yield* write('adoptNotices', nowMs, nowMs + KEPT_MS)
    yield* write('dropAdopted')
  }
  return yield* write('deleteNotices', nowMs, most)
}

export const queries = {
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
  earlierNotice: 'SELECT 1 AS n FROM approval_notices LIMIT 1',
  adoptNotices: `INSERT INTO notices (id, target, subject, created_at, kept_until, tries, next_at)
    SELECT id, target, '{"kind":"approval.requested","approval":"' || approval || '"}', ?, ?, tries, next_at FROM approval_notices
    WHERE TRUE ON CONFLICT (id) DO NOTHING`,
  dropAdopted: 'DELETE FROM approval_notices',
} as const

/** What is to be told to whom. Without `next_at` it is over, in the way that `ended` says. */
export const tables = `
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
