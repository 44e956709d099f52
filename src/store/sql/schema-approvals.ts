/**
 * Questions for a yes, one per attempt of a call, with the words of their approvers and the webhook messages that are
 * still to be delivered. They live as long as the row of their call: a tombstone keeps who said what (rule 13).
 */
export const APPROVALS = `
CREATE INDEX calls_parked ON calls (tenant, principal, fingerprint) WHERE state = 'parked';
CREATE INDEX calls_parked_run ON calls (run) WHERE state = 'parked';
CREATE INDEX calls_parked_session ON calls (session) WHERE state = 'parked';

CREATE TABLE approvals (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  record TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  tool_id TEXT NOT NULL,
  tier TEXT NOT NULL,
  definition TEXT NOT NULL,
  run TEXT NOT NULL,
  own_session TEXT,
  binding TEXT NOT NULL,
  subject_group INTEGER NOT NULL,
  subject_at INTEGER NOT NULL,
  subject_length INTEGER NOT NULL,
  quorum INTEGER NOT NULL,
  required_scope TEXT NOT NULL,
  self_approval INTEGER NOT NULL,
  bypass INTEGER NOT NULL,
  state TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  decided_at INTEGER,
  UNIQUE (record, attempt)
) STRICT;

CREATE INDEX approvals_open ON approvals (expires_at) WHERE state IN ('pending', 'granted');

CREATE TABLE approval_decisions (
  approval TEXT NOT NULL,
  principal TEXT NOT NULL,
  action TEXT NOT NULL,
  reason TEXT,
  at INTEGER NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (approval, principal)
) STRICT, WITHOUT ROWID;

CREATE TABLE approval_notices (
  id TEXT PRIMARY KEY,
  approval TEXT NOT NULL,
  target TEXT NOT NULL,
  tries INTEGER NOT NULL,
  next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX approval_notices_due ON approval_notices (next_at);
CREATE INDEX approval_notices_of ON approval_notices (approval);

CREATE TRIGGER approvals_go_with_their_call AFTER DELETE ON calls
WHEN EXISTS (SELECT 1 FROM approvals WHERE record = OLD.record) BEGIN
  DELETE FROM approval_decisions WHERE approval IN (SELECT id FROM approvals WHERE record = OLD.record);
  DELETE FROM approval_notices WHERE approval IN (SELECT id FROM approvals WHERE record = OLD.record);
  DELETE FROM approvals WHERE record = OLD.record;
END;
`
