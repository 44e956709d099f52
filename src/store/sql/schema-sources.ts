/** Sources beside those of the configuration; their options are sealed under a key derived from `COLLET_KEY`. */
export const SOURCES = `
CREATE TABLE sources (
  key TEXT PRIMARY KEY,
  options BLOB NOT NULL,
  added_by TEXT NOT NULL,
  added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`
