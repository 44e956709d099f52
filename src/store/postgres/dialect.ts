import { QUERIES, type QueryName } from '#store/schema'

/** Numbers what a text leaves open, as PostgreSQL wants it: `?` becomes `$1`, `$2`, …, except in quotes. */
export function numbered(sql: string): string {
  let n = 0
  return sql.replace(/'(?:[^']|'')*'|\?/g, (part) => {
    if (part !== '?') return part
    n += 1
    return `$${n}`
  })
}

/** The few statements that ask a database about itself. */
const OWN_TEXTS: Partial<Record<QueryName, string>> = {
  triggers: 'SELECT tgname AS name FROM pg_trigger WHERE NOT tgisinternal',
}

const texts = new Map<QueryName, string>()

export function postgresText(query: QueryName): string {
  const known = texts.get(query)
  if (known !== undefined) return known
  const text = numbered(OWN_TEXTS[query] ?? QUERIES[query])
  texts.set(query, text)
  return text
}

/** What a change reads in order to decide by it, and must find unchanged when it commits. SQLite has one writer anyway. */
const LOCKS: Partial<Record<QueryName, string>> = {
  findRun: 'FOR NO KEY UPDATE',
  expiredResults: 'FOR UPDATE',
}

/** The same statement inside a change, where it differs. */
export function lockingText(query: QueryName): string | undefined {
  const lock = LOCKS[query]
  return lock === undefined ? undefined : `${postgresText(query)} ${lock}`
}

/**
 * A step of the schema as PostgreSQL writes it. Every number is 64 bits wide; texts compare by their bytes, as in SQLite,
 * which is also what makes their indexes fast.
 */
export function postgresSchema(migration: string): string {
  return migration
    .replace(/\) STRICT(, WITHOUT ROWID)?;/g, ');')
    .replace(
      /\bno INTEGER PRIMARY KEY( AUTOINCREMENT)?/g,
      'no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
    )
    .replace(/\bINTEGER\b/g, 'BIGINT')
    .replace(/\bBLOB\b/g, 'BYTEA')
    .replace(/\bTEXT\b/g, 'TEXT COLLATE "C"')
}

/** SQLite has `max` and `min` of two values; the planner writes these into the statements that call them. */
export const SCALAR_FUNCTIONS = `
CREATE FUNCTION max(a BIGINT, b BIGINT) RETURNS BIGINT IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN greatest(a, b);
CREATE FUNCTION min(a BIGINT, b BIGINT) RETURNS BIGINT IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN least(a, b);
`
