/** Statements of stored sources. */
export const SOURCE_QUERIES = {
  listSources: 'SELECT * FROM sources ORDER BY key',
  hasSource: 'SELECT 1 FROM sources WHERE key = ?',
  putSource: `INSERT INTO sources (key, options, added_by, added_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET options = excluded.options, added_by = excluded.added_by, added_at = excluded.added_at`,
  deleteSource: 'DELETE FROM sources WHERE key = ?',
  raiseSourceEpoch: `INSERT INTO meta (name, value) VALUES ('source_epoch', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)`,
} as const
