import { StoreError } from '#kernel/base/errors'
import { queries as recoveryQueries } from '#kernel/store/calls/recovery'
import { NUL_REFUSED, type Row, type SqlValue, type StatementRequest } from '#kernel/store/engine'
import { DEFINITION } from '#store/collet-store'
import type { Connection, Result, Statement } from './connection.ts'
import { NOW_MS } from './lease.ts'

/**
 * Statements for PostgreSQL: the texts of all modules in its dialect, and batch forms for many requests of the same query, which take a third
 * of the time. Only queries that every call needs have a batch form, because it repeats the query. Step functions
 * need not consider batches.
 */

/** Answers many requests in one write. Requests of the same query become one statement if the query has a batch form. */
export async function answerAll(
  connection: Connection,
  all: readonly StatementRequest[],
  purpose: Purpose,
  before: readonly Statement[] = [],
): Promise<void> {
  const requests = all.some(containsNul) ? all.filter((request) => !findsNothing(request)) : all
  const batches = groupByQuery(requests).map((same) => prepareStatement(same, purpose))
  if (batches.length === 0 && before.length === 0) return
  const results = await connection.send([...before, ...batches.map(({ statement }) => statement)])
  for (const [index, batch] of batches.entries()) {
    const result = results[before.length + index]
    if (result !== undefined) batch.deliver(result)
  }
}

/** Groups requests that one statement can answer. */
function groupByQuery(requests: readonly StatementRequest[]): readonly (readonly StatementRequest[])[] {
  if (requests.length === 1) return [requests]
  return [
    ...Map.groupBy(requests, (request) =>
      BATCHES[request.query] === undefined ? request : request.query,
    ).values(),
  ]
}

/** Whether the statement nearly always changes one row, and has a form that fails otherwise. */
export function isPresumable(
  request: StatementRequest,
): request is Extract<StatementRequest, { readonly kind: 'write' }> {
  return request.kind === 'write' && STRICT_TEXTS[request.query] !== undefined && !containsNul(request)
}

/** Statements that change one row per request, or fail. */
export function presumedStatements(requests: readonly StatementRequest[]): readonly Statement[] {
  return groupByQuery(requests).flatMap((same) => {
    const query = same[0]?.query ?? ''
    const text = STRICT_TEXTS[query]
    if (text === undefined) return []
    return { name: `${query} strict`, text, values: columns(same.map(({ values }) => values)) }
  })
}

function containsNul({ values }: StatementRequest): boolean {
  return values.some((value) => typeof value === 'string' && value.includes('\0'))
}

/** No stored text contains NUL, so a search for it finds nothing. PostgreSQL would refuse the parameter. */
function findsNothing(request: StatementRequest): boolean {
  if (!containsNul(request)) return false
  if (postgresText(request.query).startsWith('SELECT')) return true
  throw new StoreError('not_written', NUL_REFUSED)
}

/** A `change` locks the rows that its decisions depend on until its commit. */
export type Purpose = 'read' | 'change'

export function statementOf({ query, values }: StatementRequest, purpose: Purpose): Statement {
  const lock = purpose === 'change' ? LOCKS[query] : undefined
  if (lock === undefined) return { name: query, text: postgresText(query), values }
  return { name: `${query} locked`, text: `${postgresText(query)} ${lock}`, values }
}

interface PreparedStatement {
  readonly statement: Statement
  deliver(result: Result): void
}

function prepareStatement(requests: readonly StatementRequest[], purpose: Purpose): PreparedStatement {
  const [first] = requests
  if (first === undefined) throw new Error('a batch needs at least one request')
  const batch = BATCHES[first.query]
  if (batch === undefined || requests.length === 1) {
    return { statement: statementOf(first, purpose), deliver: (result) => answer(first, result) }
  }
  const rows = requests.map(({ values }) => values)
  return {
    statement: { name: `${first.query} of many`, text: batch.text, values: columns(rows) },
    deliver(result) {
      const split = batch.split(rows, result.rows)
      for (const [index, request] of requests.entries()) {
        const own = split[index] ?? []
        answer(request, { rows: own, changed: own.length, command: result.command })
      }
    },
  }
}

function answer(request: StatementRequest, { rows, changed }: Result): void {
  if (request.kind === 'write') request.answer = changed
  else if (request.kind === 'get') request.answer = rows[0]
  else request.answer = rows
}

type Values = readonly SqlValue[]

/** One statement that replaces many statements of the same query. */
interface Batch {
  readonly text: string
  /** Returns the rows for each request, in the order of the requests. */
  split(parameters: readonly Values[], rows: readonly Row[]): readonly (readonly Row[])[]
}

/** Converts the parameters of many requests to one array per parameter. */
function columns(parameters: readonly Values[]): SqlValue[][] {
  return (parameters[0] ?? []).map((_, index) => parameters.map((values) => values[index] ?? null))
}

/** Only the first request with a key gets the changed row; `at` is the index of the key among the parameters. */
function splitChanges(at: number, column: string): Batch['split'] {
  return (parameters, rows) => {
    const changed = new Map(rows.map((row) => [row[column], row]))
    return parameters.map((values) => {
      const key = values[at] ?? null
      const row = changed.get(key)
      changed.delete(key)
      return row === undefined ? [] : [row]
    })
  }
}

/** Every request for a record gets its row, even if several requests are for the same record. */
function splitFound(parameters: readonly Values[], rows: readonly Row[]): readonly (readonly Row[])[] {
  const found = new Map(rows.map((row) => [row.record, [row]]))
  return parameters.map(([record]) => found.get(record) ?? [])
}

const CALL_COLUMNS = {
  ...{ record: 'text', tenant: 'text', principal: 'text', tool: 'text', definition: 'text', tier: 'text' },
  ...{ replay: 'text', rerun_until: 'bigint', fingerprint: 'text', state: 'text', writer: 'bigint' },
  ...{ created_at: 'bigint', finished_at: 'bigint', claim_group: 'bigint', caller_at: 'bigint' },
  ...{ caller_length: 'bigint', input_at: 'bigint', input_length: 'bigint', outcome_group: 'bigint' },
  ...{ outcome_at: 'bigint', outcome_length: 'bigint', run: 'text', session: 'text', parent: 'text' },
  ...{ root: 'text', resumable: 'bigint', ran_ms: 'bigint' },
}

/** Rows from arrays of their columns, `$1` onwards. */
function unnest(types: readonly string[]): string {
  return `unnest(${types.map((type, index) => `$${index + 1}::${type}[]`).join(', ')})`
}

const INSERT_CALLS = `INSERT INTO calls (${Object.keys(CALL_COLUMNS).join(', ')}, attempt)
  SELECT *, 1 FROM ${unnest(Object.values(CALL_COLUMNS))}`

const FINISH_CALLS = `UPDATE calls SET state = u.s, finished_at = u.f, outcome_group = u.g, outcome_at = u.a, outcome_length = u.l,
    ran_ms = u.d
  FROM ${unnest(['text', 'bigint', 'bigint', 'bigint', 'bigint', 'bigint', 'text', 'bigint', 'bigint'])} AS u(s, f, g, a, l, d, r, t, w)
  WHERE calls.record = u.r AND calls.state = 'running' AND calls.attempt = u.t AND calls.writer = u.w
  RETURNING calls.record`

export const BATCHES: Partial<Record<string, Batch>> = {
  insertCall: {
    text: `${INSERT_CALLS} ON CONFLICT (record) DO NOTHING RETURNING record`,
    split: splitChanges(0, 'record'),
  },
  finishCall: { text: FINISH_CALLS, split: splitChanges(6, 'record') },
  callerOf: {
    text: 'SELECT record, claim_group, caller_at, caller_length FROM calls WHERE record = ANY($1::text[])',
    split: splitFound,
  },
  findCall: {
    text: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
      WHERE c.record = ANY($1::text[])`,
    split: splitFound,
  },
  insertRun: {
    text: `INSERT INTO runs (key, tenant, principal, next, open, touched_at)
      SELECT k, t, p, 0, 0, a FROM ${unnest(['text', 'text', 'text', 'bigint'])} AS u(k, t, p, a)
      ON CONFLICT (key) DO NOTHING RETURNING key`,
    split: splitChanges(0, 'key'),
  },
  takeSequence: {
    // Several events of one run take consecutive numbers.
    text: `WITH u AS (
        SELECT k, i, row_number() OVER (PARTITION BY k ORDER BY i) AS nth, count(*) OVER (PARTITION BY k) AS many,
          CAST(sum(o) OVER (PARTITION BY k) AS BIGINT) AS opened, max(a) OVER (PARTITION BY k) AS at
        FROM ${unnest(['bigint', 'bigint', 'text'])} WITH ORDINALITY AS v(o, a, k, i)),
      t AS (UPDATE runs SET next = next + u.many, open = open + u.opened, touched_at = greatest(touched_at, u.at)
        FROM u WHERE runs.key = u.k AND u.nth = 1 RETURNING runs.key, runs.no, runs.next - u.many AS first)
      SELECT u.i, t.no, t.first + u.nth - 1 AS sequence FROM u JOIN t ON t.key = u.k`,
    split(parameters, rows) {
      const taken = new Map(rows.map(({ i, ...row }) => [i, [row]]))
      return parameters.map((_, index) => taken.get(index + 1) ?? [])
    },
  },
  insertRunEvent: {
    text: `INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length)
      SELECT * FROM ${unnest(['bigint', 'bigint', 'bigint', 'text', 'bigint', 'bigint', 'bigint'])}`,
    split: (parameters) => parameters.map(() => [{}]),
  },
}

/**
 * Statements that nearly always change their row, in a form that fails when they do not: without `ON CONFLICT` a taken key is an
 * error, and a division by zero reports that fewer rows were changed than requested.
 */
const STRICT_TEXTS: Partial<Record<string, string>> = {
  insertCall: INSERT_CALLS,
  finishCall: `WITH finished AS (${FINISH_CALLS})
    SELECT 1 / CAST(count(*) = cardinality($1::text[]) AS INTEGER) FROM finished`,
}

/** Numbers the parameters: `?` becomes `$1`, `$2`, …, except in quotes. */
export function numbered(sql: string): string {
  let n = 0
  return sql.replace(/'(?:[^']|'')*'|\?/g, (part) => {
    if (part !== '?') return part
    n += 1
    return `$${n}`
  })
}

/** Statements that differ from SQLite's because they use the catalog, partitions or the clock of PostgreSQL. */
const OWN_TEXTS: Partial<Record<string, string>> = {
  insertWriter: `INSERT INTO writers (id, started_at, data_key, lease_until, place) VALUES (?, ?, ?, ${NOW_MS} + ?, ?) RETURNING no`,
  /** A writer whose lease has expired commits nothing (rule 18; see `isFenced`). */
  insertGroup: `INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link)
    VALUES (?, (SELECT no FROM writers WHERE no = ? AND lease_until > ${NOW_MS}), ?, ?, ?, ?, ?, ?, ?)`,
  // Groups in partitions are deleted with their partition.
  oldChains: recoveryQueries.oldChains.replace('commit_groups', 'commit_groups_rest'),
  oldestGroups: recoveryQueries.oldestGroups.replace(
    ' at,',
    ` CASE WHEN tableoid = to_regclass('commit_groups_rest') THEN at ELSE ${Number.MAX_SAFE_INTEGER} END AS at,`,
  ),
  triggers: 'SELECT tgname AS name FROM pg_trigger WHERE NOT tgisinternal',
}

const texts = new Map<string, string>()

export function postgresText(query: string): string {
  const known = texts.get(query)
  if (known !== undefined) return known
  const text = numbered(OWN_TEXTS[query] ?? DEFINITION.queries[query] ?? '')
  texts.set(query, text)
  return text
}

/** Locks for rows that a change's decisions depend on. SQLite needs none, because it has one writer at a time. */
const LOCKS: Partial<Record<string, string>> = {
  findRun: 'FOR NO KEY UPDATE',
  findRuns: 'FOR NO KEY UPDATE',
  expiredResults: 'FOR UPDATE',
}

/** A migration step in PostgreSQL's dialect. Numbers have 64 bits; texts compare by bytes, as in SQLite, which makes indexes fast. */
export function postgresSchema(migration: string): string {
  return migration
    .replace(/(CREATE TABLE commit_groups \([^;]*)UNIQUE \(writer, n\)(\s*)\) STRICT;/, PARTITIONED_GROUPS)
    .replace(/\) STRICT(, WITHOUT ROWID)?;/g, ');')
    .replace(
      /\bno INTEGER PRIMARY KEY( AUTOINCREMENT)?/g,
      'no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
    )
    .replace(/\bINTEGER\b/g, 'BIGINT')
    .replace(/\bBLOB\b/g, 'BYTEA')
    .replace(/\bTEXT\b/g, 'TEXT COLLATE "C"')
}

/** Partitioned by id, which begins with the time; every unique key must contain the partition key. */
const PARTITIONED_GROUPS = '$1UNIQUE (writer, n, id)$2) PARTITION BY RANGE (id);'

/** SQLite has `max` and `min` of two values; the planner inlines these functions. */
export const SCALAR_FUNCTIONS = `
CREATE FUNCTION max(a BIGINT, b BIGINT) RETURNS BIGINT IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN greatest(a, b);
CREATE FUNCTION min(a BIGINT, b BIGINT) RETURNS BIGINT IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN least(a, b);
`
