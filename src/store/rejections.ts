import { REFUSAL_CODES, type RefusalCode, StoreError } from '#kernel/base/errors'
import {
  type CommitGroup,
  type Row,
  type SqlValue,
  type Steps,
  type StoreContext,
  statements,
} from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, word } from '#kernel/store/rows'
import { type CallFilter, type TallyQuery, toolCondition, toolValues } from './call-filter.ts'
import { type RollupRow, withoutVersion } from './rollups/call-counts.ts'
import { addRollups, summed } from './rollups/rollups.ts'
import { mapped, texts } from './steps.ts'

/**
 * Rejected requests, which leave no call behind: counted per caller, tool, code and minute, with the last message of each.
 * The server adds its counts once a second, so a process that dies loses the counts of its last second. Messages can
 * repeat text from callers and are sealed; rows are kept as long as the journal.
 */

const { all, write } = statements<keyof typeof queries>()

/** One caller's requests for one tool that were rejected with the same code within one minute. */
export interface RejectedRequests {
  readonly tenant: string
  readonly principal: string
  /** Full id of a tool that the caller can see; empty for a hidden or unknown tool. */
  readonly tool: string
  readonly code: RefusalCode
  /** Start of the minute. */
  readonly minuteMs: number
  readonly requests: number
  readonly lastAtMs: number
  /** The message of the last answer. It may repeat text from the caller, so it is stored sealed. */
  readonly message: string
}

export interface StoredRejection extends RejectedRequests {
  /** Increasing position in the list. */
  readonly no: number
}

/** An absent member matches everything. `tool` is compared as in `CallFilter`. */
interface RejectionFilter extends Pick<CallFilter, 'tenant' | 'principal' | 'tool' | 'sinceMs' | 'untilMs'> {
  readonly code?: RefusalCode | undefined
}

type RejectionPage = RejectionFilter & Pick<CallFilter, 'before' | 'limit'>
type RejectionTally = RejectionFilter & Pick<TallyQuery, 'sinceMs' | 'bucketMs' | 'originMs'>

export function openRejections({ exclusive, snapshot, keys }: StoreContext) {
  return {
    add: exclusive(() => '', addRejections),
    /** Newest first; `before` continues after the last row of a page. */
    list: snapshot(({ before = Number.MAX_SAFE_INTEGER, limit, ...filter }: RejectionPage) =>
      mapped(all('listRejections', before, ...matchedBy(filter), limit), (rows) =>
        rows.map((row): StoredRejection => {
          const one = fromRow(row)
          return { ...one, no: integer(row, 'no'), message: openMessage(keys, row, one) }
        }),
      ),
    ),
    /** Requests per caller, tool, code and interval of `bucketMs`, counted from `originMs`, or else from `sinceMs`. */
    count: snapshot(({ bucketMs, originMs, ...filter }: RejectionTally) =>
      mapped(all('countRejections', originMs ?? filter.sinceMs, bucketMs, ...matchedBy(filter)), (rows) =>
        rows.map((row) => ({ ...groupOf(row), bucket: integer(row, 'bucket') })),
      ),
    ),
  }
}

export type RejectionStore = ReturnType<typeof openRejections>

function* addRejections(group: CommitGroup, rejected: readonly RejectedRequests[]): Steps<void> {
  for (const one of rejected) {
    const sealed = group.keys.seal('requests', Buffer.from(one.message), messageContext(one))
    const { requests, lastAtMs } = one
    yield* write('addRejections', ...keyOf(one), requests, lastAtMs, sealed)
  }
  yield* addRollups(summed(rejected.flatMap(rollupsOf)))
}

function rollupsOf({
  tenant,
  principal,
  tool,
  code,
  minuteMs,
  requests,
}: RejectedRequests): readonly RollupRow[] {
  const counted = { startMs: minuteMs, tenant, calls: requests, errors: 0 }
  return [
    { ...counted, kind: 'code', name: code },
    { ...counted, kind: 'rejected tool', name: withoutVersion(tool) },
    { ...counted, kind: 'rejected caller', name: principal },
  ]
}

function fromRow(row: Row): Omit<RejectedRequests, 'message'> {
  return { ...groupOf(row), minuteMs: integer(row, 'minute'), lastAtMs: integer(row, 'last_at') }
}

function groupOf(row: Row) {
  return {
    ...texts(row, 'tenant', 'principal', 'tool'),
    code: word(row, 'code', REFUSAL_CODES),
    requests: integer(row, 'requests'),
  }
}

/** A row whose message cannot be opened is still counted and listed. */
function openMessage(keys: KeyRing, row: Row, one: Omit<RejectedRequests, 'message'>): string {
  try {
    return keys.open('requests', bytes(row, 'message'), messageContext(one)).toString('utf8')
  } catch (error) {
    if (error instanceof StoreError) return '(the message cannot be read)'
    throw error
  }
}

function keyOf({ tenant, principal, tool, code, minuteMs }: Omit<RejectedRequests, 'message'>) {
  return [tenant, principal, tool, code, minuteMs] as const
}

/** Binds a sealed message to its row, so that it cannot be moved to another row. */
function messageContext(one: Omit<RejectedRequests, 'message'>): string {
  return JSON.stringify(['rejected', ...keyOf(one)])
}

function matchedBy({ tenant, principal, tool, code, sinceMs, untilMs }: RejectionFilter): SqlValue[] {
  return [
    ...[tenant, principal, code].flatMap((value) => [value ?? null, value ?? null]),
    ...toolValues(tool),
    sinceMs ?? Number.MIN_SAFE_INTEGER,
    untilMs ?? Number.MAX_SAFE_INTEGER,
  ]
}

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'messages of rejected requests', page: 'rejectionsAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue: (row, keys) => keys.isDue('requests', bytes(row, 'message'), messageContext(fromRow(row))),
    *reseal({ keys }, row) {
      const message = keys.reseal('requests', bytes(row, 'message'), messageContext(fromRow(row)))
      yield* write('resealRejection', message, integer(row, 'no'))
    },
  },
]

const MATCHES = `(CAST(? AS TEXT) IS NULL OR tenant = ?) AND (CAST(? AS TEXT) IS NULL OR principal = ?)
  AND (CAST(? AS TEXT) IS NULL OR code = ?) AND ${toolCondition('tool')} AND last_at >= ? AND last_at < ?`

const queries = {
  addRejections: `INSERT INTO rejections (tenant, principal, tool, code, minute, requests, last_at, message)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, principal, tool, code, minute)
    DO UPDATE SET requests = rejections.requests + excluded.requests, last_at = excluded.last_at, message = excluded.message`,
  listRejections: `SELECT * FROM rejections WHERE no < ? AND ${MATCHES} ORDER BY no DESC LIMIT ?`,
  countRejections: `SELECT tenant, principal, tool, code, (last_at - CAST(? AS BIGINT)) / CAST(? AS BIGINT) AS bucket,
      CAST(sum(requests) AS BIGINT) AS requests
    FROM rejections WHERE ${MATCHES} GROUP BY 1, 2, 3, 4, 5`,
  rejectionsAfter: 'SELECT * FROM rejections WHERE no > ? ORDER BY no LIMIT ?',
  resealRejection: 'UPDATE rejections SET message = ? WHERE no = ?',
  deleteRejections:
    'DELETE FROM rejections WHERE no IN (SELECT no FROM rejections WHERE last_at < ? LIMIT ?)',
} as const

const tables = `
CREATE TABLE rejections (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  code TEXT NOT NULL,
  minute INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  message BLOB NOT NULL,
  UNIQUE (tenant, principal, tool, code, minute)
) STRICT;

CREATE INDEX rejections_at ON rejections (last_at);
`

export const rejectionModule: StoreModule = {
  name: 'rejections',
  ...{ tables, queries, resealing },
  *forget({ nowMs, policy, limit }) {
    return yield* write('deleteRejections', nowMs - policy.journalMs, limit)
  },
}
