/**
 * Callers whose exchanges take several requests: sessions, requests that may be cancelled, questions that wait for an
 * answer, and marks that are good once. What people are asked and say is sealed under their tenant's key.
 */
export const CALLERS = `
CREATE TABLE caller_sessions (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  principal TEXT NOT NULL,
  agreed TEXT NOT NULL,
  touched_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX caller_sessions_touched ON caller_sessions (touched_at);
CREATE INDEX caller_sessions_owner ON caller_sessions (tenant, principal, touched_at);

CREATE TABLE caller_requests (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  request TEXT NOT NULL,
  cancelled INTEGER NOT NULL DEFAULT 0,
  began_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, session, request)
) STRICT, WITHOUT ROWID;

CREATE INDEX caller_requests_began ON caller_requests (began_at);

CREATE TABLE caller_questions (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  principal TEXT NOT NULL,
  call TEXT NOT NULL,
  data_key INTEGER NOT NULL,
  question BLOB NOT NULL,
  answer BLOB,
  expires_at INTEGER NOT NULL,
  UNIQUE (tenant, id)
) STRICT;

CREATE INDEX caller_questions_call ON caller_questions (tenant, call);
CREATE INDEX caller_questions_end ON caller_questions (expires_at);

CREATE TABLE caller_marks (
  tenant TEXT NOT NULL,
  mark TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, mark)
) STRICT, WITHOUT ROWID;

CREATE INDEX caller_marks_end ON caller_marks (expires_at);
`
