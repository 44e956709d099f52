import { ROW_MACS } from './row-mac.ts'
import { APPROVALS } from './schema-approvals.ts'
import { BUDGETS } from './schema-budgets.ts'
import { CALLERS } from './schema-callers.ts'
import { CONSENT_RUNS } from './schema-consent-runs.ts'
import { KEYS_AND_AUDIT } from './schema-keys.ts'
import { PINS } from './schema-pins.ts'
import { REQUESTS } from './schema-requests.ts'
import { SOURCES } from './schema-sources.ts'
import { VAULT } from './schema-vault.ts'

/** Raised with every change of the tables; `MIGRATIONS` has a step for each. */
export const SCHEMA_VERSION = 9

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
  data_key BLOB NOT NULL
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
  expired INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX calls_running ON calls (writer) WHERE state = 'running';
CREATE INDEX calls_ambiguous ON calls (no) WHERE state = 'ambiguous';
CREATE INDEX calls_results ON calls (finished_at) WHERE finished_at IS NOT NULL AND expired = 0;
CREATE INDEX calls_tombstones ON calls (finished_at) WHERE expired = 1;

CREATE TABLE challenges (
  id TEXT PRIMARY KEY,
  need TEXT NOT NULL,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  user TEXT NOT NULL,
  provider TEXT NOT NULL,
  scopes TEXT NOT NULL,
  tool TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX challenges_open ON challenges (need) WHERE status = 'pending';
`

/**
 * Runs that have events of their own, those events, and the sessions of stateful tools. A run's row gives the next
 * sequence (rule 16). What a caller wrote stays sealed in the group of its call; an event points there.
 */
const RUNS_AND_SESSIONS = `
ALTER TABLE calls ADD COLUMN run TEXT;
ALTER TABLE calls ADD COLUMN session TEXT;

CREATE INDEX calls_ambiguous_run ON calls (run) WHERE state = 'ambiguous';

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

/** What trust needs, a part each. */
const TRUST = [KEYS_AND_AUDIT, BUDGETS, VAULT, APPROVALS].join('\n')

/** What tools of others need, a part each. */
const IMPORTS = [PINS, SOURCES].join('\n')

/** Calls made by calls: whose steps they are, and what a workflow that is put away waits for (rule 31). */
const WORKFLOWS = `
ALTER TABLE calls ADD COLUMN parent TEXT;
ALTER TABLE calls ADD COLUMN root TEXT;
ALTER TABLE calls ADD COLUMN resumable INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN waits_for TEXT;

CREATE INDEX calls_steps ON calls (parent) WHERE parent IS NOT NULL;
CREATE INDEX calls_suspended ON calls (rerun_until) WHERE waits_for IS NOT NULL;
`

/** From nothing to `SCHEMA_VERSION`, one step per version. */
export const MIGRATIONS: readonly string[] = [
  CALLS_AND_JOURNAL,
  RUNS_AND_SESSIONS,
  TRUST,
  CONSENT_RUNS,
  IMPORTS,
  WORKFLOWS,
  CALLERS,
  REQUESTS,
  ROW_MACS,
]
