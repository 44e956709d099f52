/** Calls whose run was told that they wait for a consent; a row goes when its run has heard the end. */
export const CONSENT_RUNS = `
CREATE TABLE consent_runs (
  challenge TEXT NOT NULL,
  record TEXT NOT NULL,
  need TEXT NOT NULL,
  tenant TEXT NOT NULL,
  run TEXT NOT NULL,
  provider TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (challenge, record)
) STRICT, WITHOUT ROWID;

CREATE INDEX consent_runs_need ON consent_runs (need);
CREATE INDEX consent_runs_expiry ON consent_runs (expires_at);
`
