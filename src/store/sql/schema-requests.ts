/** Requests by the key of their caller (OWP-92); what was answered to them is sealed. */
export const REQUESTS = `
CREATE TABLE keyed_requests (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  asked TEXT NOT NULL,
  writer TEXT NOT NULL,
  reply BLOB,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX keyed_requests_end ON keyed_requests (expires_at);
`
