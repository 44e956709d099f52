import { StoreError } from '#core/errors'
import { isSameSecret } from '#core/hash'
import type { StoreKeys } from './encryption.ts'
import { refuseForeignTriggers } from './row-mac.ts'
import { text } from './rows.ts'
import { get, type Steps } from './steps.ts'

/**
 * Calls, and the commit groups that hold their contents. A group row carries the journal events of one commit,
 * the sealed caller text (kept as long as the journal) and the sealed inputs and outcomes (kept as long as
 * results); call rows point into it by group, offset and length (rule 14).
 */
const CALLS_AND_JOURNAL = `
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE writers (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  data_key BLOB NOT NULL,
  recorded_n INTEGER NOT NULL DEFAULT -1,
  recorded_by INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE commit_groups (
  id INTEGER PRIMARY KEY,
  writer INTEGER NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  events TEXT NOT NULL,
  callers BLOB,
  payload BLOB,
  live INTEGER NOT NULL,
  link TEXT NOT NULL,
  UNIQUE (writer, n)
) STRICT;

CREATE TABLE checkpoints (
  writer INTEGER PRIMARY KEY,
  n INTEGER NOT NULL,
  link TEXT NOT NULL,
  signature TEXT NOT NULL
) STRICT;

CREATE TABLE calls (
  no INTEGER PRIMARY KEY,
  record TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  definition TEXT NOT NULL,
  tier TEXT NOT NULL,
  replay TEXT NOT NULL,
  rerun_until INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  writer INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  claim_group INTEGER NOT NULL,
  caller_at INTEGER NOT NULL,
  caller_length INTEGER NOT NULL,
  input_at INTEGER NOT NULL,
  input_length INTEGER NOT NULL,
  outcome_group INTEGER,
  outcome_at INTEGER,
  outcome_length INTEGER,
  late_group INTEGER,
  late_at INTEGER,
  late_length INTEGER,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  expired INTEGER NOT NULL DEFAULT 0,
  run TEXT,
  session TEXT,
  parent TEXT,
  root TEXT,
  resumable INTEGER NOT NULL DEFAULT 0,
  waits_for TEXT
) STRICT;

CREATE INDEX calls_running ON calls (writer) WHERE state = 'running';
CREATE INDEX calls_ambiguous ON calls (no) WHERE state = 'ambiguous';
CREATE INDEX calls_ambiguous_run ON calls (run) WHERE state = 'ambiguous';
CREATE INDEX calls_parked ON calls (tenant, principal, fingerprint) WHERE state = 'parked';
CREATE INDEX calls_parked_run ON calls (run) WHERE state = 'parked';
CREATE INDEX calls_parked_session ON calls (session) WHERE state = 'parked';
CREATE INDEX calls_results ON calls (finished_at) WHERE finished_at IS NOT NULL AND expired = 0;
CREATE INDEX calls_tombstones ON calls (finished_at) WHERE expired = 1;
CREATE INDEX calls_steps ON calls (parent) WHERE parent IS NOT NULL;
CREATE INDEX calls_suspended ON calls (rerun_until) WHERE waits_for IS NOT NULL;

CREATE TABLE challenges (
  id TEXT PRIMARY KEY,
  need TEXT NOT NULL,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  user_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  scopes TEXT NOT NULL,
  tool TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  consent INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX challenges_open ON challenges (need) WHERE status = 'pending';
`

/**
 * Runs that have events of their own, those events, and the sessions of stateful tools. A run's row gives the next
 * sequence (rule 16). What a caller wrote stays sealed in the group of its call; an event points there.
 */
const RUNS_AND_SESSIONS = `
CREATE TABLE runs (
  no INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  next INTEGER NOT NULL,
  open INTEGER NOT NULL,
  touched_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;

CREATE INDEX runs_touched ON runs (touched_at);

CREATE TABLE run_events (
  run INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  at INTEGER NOT NULL,
  fact TEXT NOT NULL,
  caller_group INTEGER,
  caller_at INTEGER,
  caller_length INTEGER,
  PRIMARY KEY (run, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  tool_id TEXT NOT NULL,
  run TEXT NOT NULL,
  ends_run INTEGER NOT NULL,
  writer INTEGER NOT NULL,
  state TEXT NOT NULL,
  outcome TEXT,
  opened_at INTEGER NOT NULL,
  closed_at INTEGER
) STRICT;

CREATE INDEX sessions_open ON sessions (writer) WHERE state <> 'closed';
CREATE INDEX sessions_closed ON sessions (closed_at) WHERE state = 'closed';
`

/**
 * Questions for a yes, one per attempt of a call, with the words of their approvers and the webhook messages that are
 * still to be delivered. They live as long as the row of their call: a tombstone keeps who said what (rule 13).
 */
const APPROVALS = `
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
  mac TEXT,
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
  mac TEXT,
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
`

/** What is handed out of each window of each budget. `principal` is empty for the tenant as a whole. */
const BUDGETS = `
CREATE TABLE budgets (
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  length_ms INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  milliseconds INTEGER NOT NULL,
  cost INTEGER NOT NULL,
  PRIMARY KEY (tenant, principal, length_ms, ends_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX budgets_end ON budgets (ends_at);
`

/**
 * Callers whose exchanges take several requests: sessions, requests that may be cancelled, questions that wait for an
 * answer, and marks that are good once. What people are asked and say is sealed under their tenant's key.
 */
const CALLERS = `
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

/** Calls whose run was told that they wait for a consent; a row goes when its run has heard the end. */
const CONSENT_RUNS = `
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

/** Principals that own keys, their keys, and the audit stream. Rows of the first two are never deleted (rule 3). */
const KEYS_AND_AUDIT = `
CREATE TABLE key_owners (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  mac TEXT,
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
  used_at INTEGER,
  mac TEXT
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

/** Imported definitions; rows are never deleted, so a name in an id is never given twice. */
const PINS = `
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
  mac TEXT,
  PRIMARY KEY (source, native_name),
  UNIQUE (source, local)
) STRICT;
`

/** Requests by the key of their caller (OWP-92); what was answered to them is sealed. */
const REQUESTS = `
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

/** Sources beside those of the configuration; their options are sealed under a key derived from `COLLET_KEY`. */
const SOURCES = `
CREATE TABLE sources (
  key TEXT PRIMARY KEY,
  options BLOB NOT NULL,
  added_by TEXT NOT NULL,
  added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`

/**
 * Credentials and consents under way. Values are sealed under a data key of their tenant, which is wrapped by a key
 * derived from `COLLET_KEY`; a row names its data key, so that a rotation by another process is never a guess.
 */
const VAULT = `
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
  user_id TEXT NOT NULL,
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
  UNIQUE (tenant, principal, user_id, provider, kind)
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
`

/** From nothing to the tables of today, one step per version; a step that has been released is never changed again. */
export const MIGRATIONS: readonly string[] = [
  [
    CALLS_AND_JOURNAL,
    RUNS_AND_SESSIONS,
    KEYS_AND_AUDIT,
    BUDGETS,
    VAULT,
    APPROVALS,
    CONSENT_RUNS,
    PINS,
    SOURCES,
    CALLERS,
    REQUESTS,
  ].join(''),
]

/** What a database of some version still lacks, once it is certain that it is ours to change (rule 14). */
export function* missingSteps(
  version: number,
  keys: StoreKeys,
  migrations: readonly string[],
): Steps<readonly string[]> {
  yield* refuseForeignTriggers()
  if (version > migrations.length) {
    throw new StoreError(
      'unreadable',
      `it was written by a newer Collet (schema ${version}); this one knows ${migrations.length}`,
    )
  }
  if (version > 0) yield* refuseOtherKey(keys)
  return migrations.slice(version)
}

function* refuseOtherKey({ check }: StoreKeys): Steps<void> {
  const row = yield* get('readMeta', 'key_check')
  if (isSameSecret(row === undefined ? '' : text(row, 'value'), check)) return
  throw new StoreError(
    'unreadable',
    'the key does not fit this database. Set COLLET_KEY (or restore the key file) to the key it was created with',
  )
}
