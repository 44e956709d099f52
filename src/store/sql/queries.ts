import { APPROVAL_QUERIES } from './queries-approvals.ts'
import { BUDGET_QUERIES } from './queries-budgets.ts'
import { CALLER_QUERIES } from './queries-callers.ts'
import { KEY_QUERIES } from './queries-keys.ts'
import { PIN_QUERIES } from './queries-pins.ts'
import { REQUEST_QUERIES } from './queries-requests.ts'
import { SOURCE_QUERIES } from './queries-sources.ts'
import { VAULT_QUERIES } from './queries-vault.ts'
import { WORKFLOW_QUERIES } from './queries-workflows.ts'
import { MAC_QUERIES } from './row-mac.ts'

/** Every statement the SQL stores use, once. Parameters are positional. */
export const QUERIES = {
  ...KEY_QUERIES,
  ...MAC_QUERIES,
  ...APPROVAL_QUERIES,
  ...PIN_QUERIES,
  ...SOURCE_QUERIES,
  ...REQUEST_QUERIES,
  /** Moves with commits of other connections only. */
  changeMark: 'PRAGMA data_version',
  ...WORKFLOW_QUERIES,
  insertWriter: 'INSERT INTO writers (id, started_at, data_key) VALUES (?, ?, ?) RETURNING no',
  /** A writer has ended when nothing of it runs any more; what does is left for recovery. */
  endWriter: `UPDATE writers SET ended_at = ? WHERE id = ?
    AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.writer = writers.no AND calls.state = 'running')
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.writer = writers.no AND sessions.state <> 'closed')`,
  openWriters: `SELECT no, id FROM writers WHERE ended_at IS NULL
    UNION SELECT no, id FROM writers WHERE no IN (SELECT DISTINCT writer FROM calls WHERE state = 'running')
    UNION SELECT no, id FROM writers WHERE no IN (SELECT DISTINCT writer FROM sessions WHERE state <> 'closed')`,
  allWriters: 'SELECT no, id, data_key FROM writers',
  writerByNo: 'SELECT no, id, ended_at, data_key FROM writers WHERE no = ?',
  writerEnd: 'SELECT ended_at FROM writers WHERE id = ?',

  nextGroup: 'SELECT coalesce(max(id), 0) + 1 AS id FROM commit_groups',
  insertGroup:
    'INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  headOf: 'SELECT n, link FROM commit_groups WHERE writer = ? ORDER BY n DESC LIMIT 1',
  // Heads since the newest writer began, and those from before the oldest beginning that retention has left: whoever
  // recorded them is forgotten. Ids are in commit order, which no clock can confuse. CROSS JOIN keeps SQLite from reading
  // every group instead of one per writer.
  newHeads: `SELECT w.id AS writer, g.n, g.link FROM writers w
    CROSS JOIN commit_groups g ON g.writer = w.no AND g.n = (SELECT max(n) FROM commit_groups WHERE writer = w.no)
    WHERE g.id >= coalesce(
        (SELECT id FROM commit_groups WHERE writer = (SELECT max(no) FROM writers) AND n = 0), 0)
      OR g.id < (SELECT min(f.id) FROM writers v CROSS JOIN commit_groups f ON f.writer = v.no AND f.n = 0)`,
  groupPlace: 'SELECT g.id FROM commit_groups g JOIN writers w ON w.no = g.writer WHERE w.id = ? AND g.n = ?',
  groupsAfter: `SELECT g.n, g.at, g.events, g.link, w.id AS writer FROM commit_groups g
    JOIN writers w ON w.no = g.writer WHERE g.id > ? ORDER BY g.id LIMIT ?`,
  chainAfter:
    'SELECT id, n, at, events, callers, link FROM commit_groups WHERE writer = ? AND n > ? ORDER BY n LIMIT ?',
  groupContents: `SELECT g.writer, g.n, g.callers, g.payload FROM commit_groups g WHERE g.id = ?`,
  dropReference:
    'UPDATE commit_groups SET live = live - ?, payload = CASE WHEN live <= ? THEN NULL ELSE payload END WHERE id = ?',

  findCall: 'SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer WHERE c.record = ?',
  insertCall: `INSERT INTO calls (record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint,
      state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length,
      outcome_group, outcome_at, outcome_length, run, session, parent, root, resumable)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (record) DO NOTHING`,
  reclaimCall: `UPDATE calls SET state = ?, attempt = attempt + 1, writer = ?, finished_at = NULL, cancel_requested = 0,
      outcome_group = NULL, outcome_at = NULL, outcome_length = NULL, run = coalesce(run, record), session = ?
    WHERE record = ? AND state = ? AND attempt = ? AND writer = (SELECT no FROM writers WHERE id = ?)
      AND state IN ('released', 'running') AND expired = 0`,
  /** Rule 9, beside `reclaimCall` in one transaction. */
  correctCall: `UPDATE calls SET fingerprint = ?, claim_group = ?, caller_at = ?, caller_length = ?, input_at = ?,
      input_length = ? WHERE record = ?`,
  finishCall: `UPDATE calls SET state = ?, finished_at = ?, outcome_group = ?, outcome_at = ?, outcome_length = ?
    WHERE record = ? AND state = 'running' AND attempt = ? AND writer = ?`,
  lateCall: `UPDATE calls SET late_group = ?, late_at = ?, late_length = ?
    WHERE record = ? AND attempt = ? AND late_group IS NULL AND expired = 0`,
  requestCancel:
    "UPDATE calls SET cancel_requested = 1 WHERE record = ? AND tenant = ? AND state = 'running' AND cancel_requested = 0",
  cancelRequests:
    "SELECT tenant, record FROM calls WHERE state = 'running' AND writer = ? AND cancel_requested = 1",
  settleCall: `UPDATE calls SET state = ?, finished_at = ?, outcome_group = ?, outcome_at = ?, outcome_length = ?
    WHERE record = ? AND state = 'ambiguous'`,
  deleteCall: 'DELETE FROM calls WHERE record = ?',
  /** What a dead writer left running and nobody may run again. */
  cutCallsOf: `SELECT record, tenant, principal, tool, tier, attempt, run, session, created_at,
      claim_group, caller_at, caller_length FROM calls
    WHERE state = 'running' AND writer = ? AND (rerun_until <= ? OR session IS NOT NULL
      OR (resumable = 0 AND (attempt >= ? OR tier IN ('pure', 'read')))) LIMIT ?`,
  endCut: `UPDATE calls SET state = ?, finished_at = ?, outcome_group = ?, outcome_at = ?, outcome_length = ?
    WHERE record = ? AND state = 'running' AND writer = ? AND attempt = ?`,
  makeAmbiguous: `UPDATE calls SET state = 'ambiguous' WHERE record = ? AND state = 'running' AND writer = ? AND attempt = ?`,
  keepInRun: 'UPDATE calls SET run = record WHERE record = ? AND run IS NULL',
  callerOf: 'SELECT claim_group, caller_at, caller_length FROM calls WHERE record = ?',
  listCalls: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE (? IS NULL OR c.tenant = ?) ORDER BY c.no DESC LIMIT ?`,
  listAmbiguousCalls: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE c.state = 'ambiguous' AND (? IS NULL OR c.tenant = ?) ORDER BY c.no DESC LIMIT ?`,
  /** By number, which is there already: an index over principals would cost every call. */
  listOwnCalls: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE c.no < ? AND c.no >= ? AND c.tenant = ? AND c.principal = ? AND c.parent IS NULL ORDER BY c.no DESC LIMIT ?`,
  /** Two look-ups: SQLite walks the whole table for a minimum and a maximum in one. */
  callNumbers: `SELECT coalesce((SELECT min(no) FROM calls), 0) AS first,
    coalesce((SELECT max(no) FROM calls), 0) AS last`,
  listCallsByState: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE c.state = ? AND (? IS NULL OR c.tenant = ?) ORDER BY c.no DESC LIMIT ?`,

  insertRun: `INSERT INTO runs (key, tenant, principal, next, open, touched_at) VALUES (?, ?, ?, 0, 0, ?)
    ON CONFLICT (key) DO NOTHING`,
  findRun: 'SELECT * FROM runs WHERE key = ?',
  /** The sequence is given out by the row it counts, in the appending transaction (rule 16). */
  takeSequence: `UPDATE runs SET next = next + 1, open = open + ?, touched_at = max(touched_at, ?) WHERE key = ?
    RETURNING no, next - 1 AS sequence`,
  endRun: 'UPDATE runs SET ended_at = ? WHERE key = ? AND tenant = ? AND ended_at IS NULL',
  insertRunEvent: `INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length)
    VALUES (?, ?, ?, ?, ?, ?, ?)`,
  runEventsAfter: 'SELECT * FROM run_events WHERE run = ? AND sequence > ? ORDER BY sequence LIMIT ?',
  /** Nothing of an ambiguous call is forgotten, and so not the run it is in (rule 13). */
  oldRuns: `SELECT no FROM runs WHERE touched_at < ? AND open = 0
      AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.run = runs.key AND calls.state = 'ambiguous')
    ORDER BY touched_at LIMIT ?`,
  deleteRunEvents: `DELETE FROM run_events WHERE run = ?
    AND sequence IN (SELECT sequence FROM run_events WHERE run = ? ORDER BY sequence LIMIT ?)`,
  deleteRun: 'DELETE FROM runs WHERE no = ? AND NOT EXISTS (SELECT 1 FROM run_events WHERE run = runs.no)',

  insertSession: `INSERT INTO sessions (id, tenant, principal, tool, tool_id, run, ends_run, writer, state, opened_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  findSession:
    'SELECT s.*, w.id AS writer_id FROM sessions s JOIN writers w ON w.no = s.writer WHERE s.id = ?',
  beginSessionClose: "UPDATE sessions SET state = 'closing' WHERE id = ? AND tenant = ? AND state = 'open'",
  closeSession: `UPDATE sessions SET state = 'closed', outcome = ?, closed_at = ?
    WHERE id = ? AND tenant = ? AND state <> 'closed' RETURNING principal, tool, tool_id, run, ends_run`,
  openSessionsOf: "SELECT tenant, id FROM sessions WHERE writer = ? AND state <> 'closed' LIMIT ?",
  deleteSessions: `DELETE FROM sessions WHERE no IN (SELECT no FROM sessions WHERE state = 'closed' AND closed_at < ? LIMIT ?)`,

  /** Rule 13: the clock of a step starts when the call that began it all is final. */
  expiredResults: `SELECT record, tier, run, claim_group, outcome_group, late_group FROM calls
    WHERE finished_at IS NOT NULL AND expired = 0 AND finished_at < ? AND (root IS NULL OR NOT EXISTS (SELECT 1 FROM calls r
      WHERE r.record = calls.root AND (r.finished_at IS NULL OR r.finished_at >= ?))) ORDER BY finished_at LIMIT ?`,
  makeTombstone: `UPDATE calls SET expired = 1, outcome_group = NULL, outcome_at = NULL, outcome_length = NULL,
      late_group = NULL, late_at = NULL, late_length = NULL WHERE record = ?`,
  /** A key is free only when the own run of the call that had it is forgotten too: the next one begins anew. */
  deleteTombstones: `DELETE FROM calls WHERE no IN (SELECT no FROM calls WHERE expired = 1 AND finished_at < ?
      AND (run IS NULL OR run <> record OR NOT EXISTS (SELECT 1 FROM runs WHERE key = calls.record))
      AND (root IS NULL OR NOT EXISTS (SELECT 1 FROM calls r WHERE r.record = calls.root)) LIMIT ?)`,
  oldestGroups: 'SELECT n, at, live FROM commit_groups WHERE writer = ? ORDER BY n LIMIT ?',
  linkAt: 'SELECT link FROM commit_groups WHERE writer = ? AND n = ?',
  deletePrefix: 'DELETE FROM commit_groups WHERE writer = ? AND n <= ?',
  saveCheckpoint: `INSERT INTO checkpoints (writer, n, link, signature) VALUES (?, ?, ?, ?)
    ON CONFLICT (writer) DO UPDATE SET n = excluded.n, link = excluded.link, signature = excluded.signature`,
  checkpointOf: 'SELECT n, link, signature FROM checkpoints WHERE writer = ?',
  deleteChallenges:
    'DELETE FROM challenges WHERE id IN (SELECT id FROM challenges WHERE expires_at < ? LIMIT ?)',

  expireChallenge:
    "UPDATE challenges SET status = 'failed' WHERE need = ? AND status = 'pending' AND expires_at <= ?",
  openChallenge: "SELECT * FROM challenges WHERE need = ? AND status = 'pending'",
  insertChallenge: `INSERT INTO challenges (id, need, tenant, principal, user, provider, scopes, tool, status, created_at, expires_at, consent)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?)`,
  findChallenge: 'SELECT * FROM challenges WHERE id = ?',
  endChallenge: "UPDATE challenges SET status = ? WHERE id = ? AND status = 'pending'",

  readMeta: 'SELECT value FROM meta WHERE name = ?',
  writeMeta:
    'INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',

  ...BUDGET_QUERIES,
  ...VAULT_QUERIES,
  ...CALLER_QUERIES,
} as const

export type QueryName = keyof typeof QUERIES
