/**
 * Credentials and consents under way. Values are sealed under a data key of their tenant, which is wrapped by a key
 * derived from `COLLET_KEY`; a row names its data key, so that a rotation by another process is never a guess.
 */
export const VAULT = `
CREATE TABLE vault_keys (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  wrapped BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX vault_keys_tenant ON vault_keys (tenant, no);

CREATE TABLE vault (
  no INTEGER PRIMARY KEY,
  ref TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  user TEXT NOT NULL,
  provider TEXT NOT NULL,
  kind TEXT NOT NULL,
  version INTEGER NOT NULL,
  data_key INTEGER NOT NULL,
  value BLOB,
  scopes TEXT NOT NULL,
  expires_at INTEGER,
  lease_until INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (tenant, principal, user, provider, kind)
) STRICT;

CREATE TABLE consents (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  challenge TEXT NOT NULL,
  stage TEXT NOT NULL,
  browser TEXT NOT NULL,
  data_key INTEGER NOT NULL,
  held BLOB NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX consents_challenge ON consents (challenge, no);
CREATE INDEX consents_tenant ON consents (tenant);
CREATE INDEX consents_expiry ON consents (expires_at);

ALTER TABLE challenges ADD COLUMN consent INTEGER NOT NULL DEFAULT 0;
`
