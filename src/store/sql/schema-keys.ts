/** Principals that own keys, their keys, and the audit stream. Rows of the first two are never deleted (rule 3). */
export const KEYS_AND_AUDIT = `
CREATE TABLE key_owners (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  label TEXT,
  scopes TEXT NOT NULL,
  roles TEXT NOT NULL,
  tools TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  used_at INTEGER
) STRICT;

CREATE INDEX api_keys_owner ON api_keys (tenant, name);

CREATE TABLE denials (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL
) STRICT;

CREATE INDEX denials_at ON denials (at);
CREATE INDEX denials_tenant ON denials (tenant, no);
`
