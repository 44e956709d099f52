/** Imported definitions; rows are never deleted, so a name in an id is never given twice. */
export const PINS = `
CREATE TABLE pin_sources (
  source TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pins (
  source TEXT NOT NULL,
  native_name TEXT NOT NULL,
  local TEXT NOT NULL,
  served INTEGER NOT NULL,
  accepted TEXT,
  waiting TEXT,
  PRIMARY KEY (source, native_name),
  UNIQUE (source, local)
) STRICT;
`
