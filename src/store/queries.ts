import { MAC_QUERIES } from './row-mac.ts'

/** Every statement about approvals. Parameters are positional. */
const APPROVAL_QUERIES = {
  countParked:
    "SELECT count(*) AS n FROM calls WHERE tenant = ? AND principal = ? AND state = 'parked' AND waits_for IS NULL",
  findParkedLike: `SELECT record FROM calls WHERE tenant = ? AND principal = ? AND fingerprint = ? AND state = 'parked'
    AND definition = ? AND root IS NULL ORDER BY no LIMIT 1`,
  isParkedIn: "SELECT 1 AS n FROM calls WHERE session = ? AND tenant = ? AND state = 'parked' LIMIT 1",
  resumeCall: `UPDATE calls SET state = 'running', writer = ?, cancel_requested = 0, rerun_until = ?
    WHERE record = ? AND state = 'parked' AND attempt = ? AND waits_for IS NULL`,
  refuseCall: `UPDATE calls SET state = 'failed', finished_at = ?, outcome_group = ?, outcome_at = ?, outcome_length = ?
    WHERE record = ? AND state = 'parked' AND attempt = ? AND waits_for IS NULL`,
  /** A session of a single attempt that waits belongs to nobody: no writer's death ends it. */
  setSessionWriter: 'UPDATE sessions SET writer = ? WHERE id = ?',

  insertApproval: `INSERT INTO approvals (id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session,
      binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)`,
  findApproval: 'SELECT * FROM approvals WHERE id = ?',
  newestApproval: 'SELECT * FROM approvals WHERE record = ? ORDER BY attempt DESC LIMIT 1',
  /** One conditional update per change: whoever comes second changes nothing (OWP-68). */
  changeApproval: `UPDATE approvals SET state = ?, decided_at = coalesce(decided_at, ?), expires_at = ? WHERE id = ? AND state = ?`,
  expiredApprovals:
    "SELECT * FROM approvals WHERE state IN ('pending', 'granted') AND expires_at <= ? ORDER BY expires_at LIMIT ?",
  parkedApprovalOf: `SELECT a.* FROM approvals a JOIN calls c ON c.record = a.record AND c.attempt = a.attempt
    WHERE c.record = ? AND c.tenant = ? AND c.state = 'parked' AND a.state IN ('pending', 'granted')`,
  parkedApprovalsInRun: `SELECT a.* FROM calls c JOIN approvals a ON a.record = c.record AND a.attempt = c.attempt
    WHERE c.run = ? AND c.tenant = ? AND c.state = 'parked' AND a.state IN ('pending', 'granted') LIMIT 1000`,
  parkedApprovalsInSession: `SELECT a.* FROM calls c JOIN approvals a ON a.record = c.record AND a.attempt = c.attempt
    WHERE c.session = ? AND c.tenant = ? AND c.state = 'parked' AND a.state IN ('pending', 'granted') LIMIT 1000`,
  listApprovals: `SELECT * FROM approvals WHERE (CAST(? AS TEXT) IS NULL OR tenant = ?) AND (CAST(? AS TEXT) IS NULL OR state = ?) ORDER BY no DESC LIMIT ?`,

  decisionsOf: 'SELECT * FROM approval_decisions WHERE approval = ? ORDER BY n',
  saveDecision: `INSERT INTO approval_decisions (approval, principal, action, reason, at, n) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (approval, principal) DO UPDATE SET action = excluded.action, reason = excluded.reason, at = excluded.at`,

  insertNotice: 'INSERT INTO approval_notices (id, approval, target, tries, next_at) VALUES (?, ?, ?, 0, ?)',
  dueNotices: 'SELECT * FROM approval_notices WHERE next_at <= ? ORDER BY next_at LIMIT ?',
  takeNotice:
    'UPDATE approval_notices SET tries = tries + 1, next_at = ? WHERE id = ? AND tries = ? AND next_at <= ?',
  putOffNotice: 'UPDATE approval_notices SET next_at = ? WHERE id = ?',
  dropNotice: 'DELETE FROM approval_notices WHERE id = ?',

  deleteDecisionsOfCall:
    'DELETE FROM approval_decisions WHERE approval IN (SELECT id FROM approvals WHERE record = ?)',
  deleteNoticesOfCall:
    'DELETE FROM approval_notices WHERE approval IN (SELECT id FROM approvals WHERE record = ?)',
  deleteApprovalsOfCall: 'DELETE FROM approvals WHERE record = ?',
} as const

const WINDOW = 'tenant = ? AND principal = ? AND length_ms = ? AND ends_at = ?'

const BUDGET_QUERIES = {
  openBudget: `INSERT INTO budgets (tenant, principal, length_ms, ends_at, calls, milliseconds, cost)
    VALUES (?, ?, ?, ?, 0, 0, 0) ON CONFLICT DO NOTHING`,
  findBudget: `SELECT calls, milliseconds, cost FROM budgets WHERE ${WINDOW}`,
  changeBudget: `UPDATE budgets SET calls = max(0, calls + ?), milliseconds = max(0, milliseconds + ?), cost = max(0, cost + ?)
    WHERE ${WINDOW}`,
  deleteBudgets: `DELETE FROM budgets WHERE (tenant, principal, length_ms, ends_at) IN
    (SELECT tenant, principal, length_ms, ends_at FROM budgets WHERE ends_at < ? ORDER BY ends_at LIMIT ?)`,
} as const

const REQUEST = 'tenant = ? AND session = ? AND request = ?'

/** Statements of sessions, requests and questions of callers. */
const CALLER_QUERIES = {
  openCallerSession: `INSERT INTO caller_sessions (tenant, id, principal, agreed, touched_at) VALUES (?, ?, ?, ?, ?)`,
  findCallerSession: 'SELECT * FROM caller_sessions WHERE tenant = ? AND id = ?',
  callerSessionsOf:
    'SELECT id, touched_at FROM caller_sessions WHERE tenant = ? AND principal = ? ORDER BY touched_at',
  touchCallerSession: 'UPDATE caller_sessions SET touched_at = ? WHERE tenant = ? AND id = ?',
  endCallerSession: 'DELETE FROM caller_sessions WHERE tenant = ? AND id = ?',
  deleteCallerSessions: 'DELETE FROM caller_sessions WHERE touched_at < ?',

  beginCallerRequest: `INSERT INTO caller_requests (tenant, session, request, began_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant, session, request) DO UPDATE SET cancelled = 0, began_at = excluded.began_at`,
  cancelCallerRequest: `UPDATE caller_requests SET cancelled = 1 WHERE ${REQUEST}`,
  findCallerRequest: `SELECT cancelled FROM caller_requests WHERE ${REQUEST}`,
  endCallerRequest: `DELETE FROM caller_requests WHERE ${REQUEST}`,
  deleteCallerRequests: 'DELETE FROM caller_requests WHERE began_at < ?',

  askCaller: `INSERT INTO caller_questions (tenant, id, principal, call, data_key, question, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?)`,
  findQuestion: `SELECT q.*, k.wrapped FROM caller_questions q LEFT JOIN vault_keys k ON k.no = q.data_key AND k.tenant = q.tenant
    WHERE q.tenant = ? AND q.id = ?`,
  answerQuestion:
    'UPDATE caller_questions SET answer = ? WHERE tenant = ? AND id = ? AND principal = ? AND answer IS NULL',
  openQuestions: `SELECT q.*, k.wrapped FROM caller_questions q LEFT JOIN vault_keys k ON k.no = q.data_key AND k.tenant = q.tenant
    WHERE q.tenant = ? AND q.call = ? AND q.principal = ? AND q.answer IS NULL ORDER BY q.no`,
  endQuestion: 'DELETE FROM caller_questions WHERE tenant = ? AND id = ?',
  deleteQuestionsOfTenant: 'DELETE FROM caller_questions WHERE tenant = ?',
  deleteQuestions: 'DELETE FROM caller_questions WHERE expires_at < ?',

  spendMark: 'INSERT INTO caller_marks (tenant, mark, expires_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  deleteMarks: 'DELETE FROM caller_marks WHERE expires_at < ?',
} as const

/** Keys, their owners and the audit stream. */
const KEY_QUERIES = {
  insertKeyOwner: 'INSERT INTO key_owners (tenant, name, created_at) VALUES (?, ?, ?)',
  findKeyOwner: 'SELECT * FROM key_owners WHERE tenant = ? AND name = ?',
  endKeyOwner: 'UPDATE key_owners SET ended_at = ? WHERE tenant = ? AND name = ? AND ended_at IS NULL',
  insertKey: `INSERT INTO api_keys (id, digest, tenant, name, label, scopes, roles, tools, created_at, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  findKey: 'SELECT * FROM api_keys WHERE id = ?',
  keysOf: 'SELECT * FROM api_keys WHERE tenant = ? AND name = ? ORDER BY no DESC',
  listKeys: 'SELECT * FROM api_keys WHERE (CAST(? AS TEXT) IS NULL OR tenant = ?) ORDER BY no DESC LIMIT ?',
  shortenKeys: `UPDATE api_keys SET expires_at = min(coalesce(expires_at, ?), ?)
    WHERE tenant = ? AND name = ? AND revoked_at IS NULL`,
  revokeKey:
    'UPDATE api_keys SET revoked_at = ? WHERE id = ? AND tenant = ? AND revoked_at IS NULL RETURNING name',
  noteKeyUse: 'UPDATE api_keys SET used_at = max(coalesce(used_at, 0), ?) WHERE id = ?',
  raiseKeyEpoch: `INSERT INTO meta (name, value) VALUES ('key_epoch', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)`,
  insertDenial: `INSERT INTO denials (at, tenant, principal, action, resource, reason, count)
    VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING no`,
  deleteDenial: 'DELETE FROM denials WHERE no = ?',
  denialsAfter: 'SELECT * FROM denials WHERE no > ? ORDER BY no LIMIT ?',
  denialsOfTenantAfter: 'SELECT * FROM denials WHERE tenant = ? AND no > ? ORDER BY no LIMIT ?',
  deleteDenials: 'DELETE FROM denials WHERE no IN (SELECT no FROM denials WHERE at < ? LIMIT ?)',
} as const

/** Imported definitions. */
const PIN_QUERIES = {
  pinRevision: 'SELECT revision FROM pin_sources WHERE source = ?',
  insertPinSource: 'INSERT INTO pin_sources (source, revision) VALUES (?, ?) ON CONFLICT (source) DO NOTHING',
  raisePinRevision: 'UPDATE pin_sources SET revision = ? WHERE source = ? AND revision = ?',
  pinSources: 'SELECT source FROM pin_sources ORDER BY source',
  pinsAfter: 'SELECT * FROM pins WHERE source = ? AND native_name > ? ORDER BY native_name LIMIT ?',
  writePin: `INSERT INTO pins (source, native_name, local, served, accepted, waiting, mac) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, native_name)
    DO UPDATE SET local = excluded.local, mac = excluded.mac, served = excluded.served, accepted = excluded.accepted, waiting = excluded.waiting`,
  raisePinEpoch: `INSERT INTO meta (name, value) VALUES ('pin_epoch', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)`,
} as const

const OWN = 'tenant = ? AND id = ? AND writer = ? AND reply IS NULL'

/** Statements of requests with keys. */
const REQUEST_QUERIES = {
  findRequest: 'SELECT asked, writer, reply FROM keyed_requests WHERE tenant = ? AND id = ?',
  beginRequest: `INSERT INTO keyed_requests (tenant, id, asked, writer, expires_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (tenant, id) DO UPDATE SET writer = excluded.writer, expires_at = excluded.expires_at`,
  answerRequest: `UPDATE keyed_requests SET reply = ?, expires_at = ? WHERE ${OWN}`,
  releaseRequest: `DELETE FROM keyed_requests WHERE ${OWN}`,
  deleteRequests: 'DELETE FROM keyed_requests WHERE expires_at < ?',
} as const

/** Statements of stored sources. */
const SOURCE_QUERIES = {
  listSources: 'SELECT * FROM sources ORDER BY key',
  hasSource: 'SELECT 1 FROM sources WHERE key = ?',
  putSource: `INSERT INTO sources (key, options, added_by, added_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET options = excluded.options, added_by = excluded.added_by, added_at = excluded.added_at`,
  deleteSource: 'DELETE FROM sources WHERE key = ?',
  raiseSourceEpoch: `INSERT INTO meta (name, value) VALUES ('source_epoch', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)`,
} as const

const AT = 'tenant = ? AND principal = ? AND user_id = ? AND provider = ? AND kind = ?'

/** Statements of the vault and of consents. A key is joined from the left: an entry without one is unreadable, not absent (rule 14). */
const VAULT_QUERIES = {
  insertVaultKey: 'INSERT INTO vault_keys (tenant, wrapped, created_at) VALUES (?, ?, ?) RETURNING no',
  newestVaultKey: 'SELECT no, wrapped FROM vault_keys WHERE tenant = ? ORDER BY no DESC LIMIT 1',
  vaultTenants: 'SELECT DISTINCT tenant FROM vault_keys',
  deleteVaultKeys: 'DELETE FROM vault_keys WHERE tenant = ? AND no <> ?',

  putCredential: `INSERT INTO vault (ref, tenant, principal, user_id, provider, kind, version, data_key, value, scopes, expires_at,
      lease_until, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, 0, ?, ?)
    ON CONFLICT (tenant, principal, user_id, provider, kind) DO UPDATE SET ref = excluded.ref, version = vault.version + 1,
      data_key = excluded.data_key, value = excluded.value, scopes = excluded.scopes, expires_at = excluded.expires_at,
      lease_until = 0, created_at = excluded.created_at, updated_at = excluded.updated_at`,
  findCredential: `SELECT v.*, k.wrapped FROM vault v LEFT JOIN vault_keys k ON k.no = v.data_key AND k.tenant = v.tenant
    WHERE v.tenant = ? AND v.principal = ? AND v.user_id = ? AND v.provider = ? AND v.kind = ?`,
  findCredentialByRef: 'SELECT * FROM vault WHERE ref = ?',
  listCredentials:
    'SELECT * FROM vault WHERE (CAST(? AS TEXT) IS NULL OR tenant = ?) ORDER BY no DESC LIMIT ?',
  leaseCredential: `UPDATE vault SET lease_until = ? WHERE ${AT} AND ref = ? AND version = ? AND lease_until <= ?`,
  unleaseCredential: `UPDATE vault SET lease_until = 0 WHERE ${AT} AND ref = ? AND version = ?`,
  renewCredential: `UPDATE vault SET version = version + 1, data_key = ?, value = ?, scopes = ?, expires_at = ?, lease_until = 0,
      updated_at = ? WHERE ${AT} AND ref = ? AND version = ?`,
  spendCredential: `UPDATE vault SET version = version + 1, value = NULL, lease_until = 0, updated_at = ?
    WHERE ${AT} AND ref = ? AND version = ? AND value IS NOT NULL`,
  deleteCredential: `DELETE FROM vault WHERE ${AT} AND ref = ?`,
  credentialsOfTenant: `SELECT v.*, k.wrapped FROM vault v LEFT JOIN vault_keys k ON k.no = v.data_key AND k.tenant = v.tenant
    WHERE v.tenant = ? AND v.value IS NOT NULL`,
  resealCredential: 'UPDATE vault SET data_key = ?, value = ? WHERE no = ?',

  insertConsent: `INSERT INTO consents (id, tenant, challenge, stage, browser, data_key, held, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  trimConsents: `DELETE FROM consents WHERE challenge = ? AND stage = ? AND no NOT IN
    (SELECT no FROM consents WHERE challenge = ? AND stage = ? ORDER BY no DESC LIMIT ?)`,
  findConsent: `SELECT c.*, k.wrapped FROM consents c LEFT JOIN vault_keys k ON k.no = c.data_key AND k.tenant = c.tenant
    WHERE c.id = ?`,
  takeConsent: 'DELETE FROM consents WHERE id = ?',
  deleteConsents: 'DELETE FROM consents WHERE expires_at < ?',
  insertConsentRun: `INSERT INTO consent_runs (challenge, record, need, tenant, run, provider, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
  findConsentRun: 'SELECT run FROM consent_runs WHERE challenge = ? AND record = ?',
  consentRunsOf: 'SELECT * FROM consent_runs WHERE need = ?',
  expiredConsentRuns: 'SELECT * FROM consent_runs WHERE expires_at <= ? ORDER BY expires_at LIMIT 500',
  deleteConsentRun: 'DELETE FROM consent_runs WHERE challenge = ? AND record = ?',
  deleteConsentsOfTenant: 'DELETE FROM consents WHERE tenant = ?',
} as const

/** Every statement about workflows that are put away, and their steps. Parameters are positional. */
const WORKFLOW_QUERIES = {
  suspendCall: `UPDATE calls SET state = 'parked', waits_for = ?
    WHERE record = ? AND state = 'running' AND attempt = ? AND writer = ? AND resumable = 1`,
  resumeSuspended: `UPDATE calls SET state = 'running', waits_for = NULL, writer = ?, cancel_requested = 0, rerun_until = ?
    WHERE record = ? AND state = 'parked' AND waits_for IS NOT NULL AND attempt = ?`,
  suspendedCall:
    "SELECT * FROM calls WHERE record = ? AND tenant = ? AND state = 'parked' AND waits_for IS NOT NULL",
  endSuspended: `UPDATE calls SET state = 'failed', waits_for = NULL, finished_at = ?, outcome_group = ?, outcome_at = ?,
      outcome_length = ? WHERE record = ? AND state = 'parked' AND waits_for IS NOT NULL`,
  expiredSuspended: `SELECT * FROM calls WHERE waits_for IS NOT NULL AND state = 'parked' AND rerun_until <= ?
    ORDER BY rerun_until LIMIT ?`,
  openSteps:
    "SELECT tenant, record FROM calls WHERE parent = ? AND state IN ('running', 'parked') LIMIT 10000",
} as const

/** How many questions for a yes go with a call that is deleted. */
const APPROVALS_OF_CALL =
  '(SELECT count(*) FROM approvals WHERE approvals.record = calls.record) AS approvals'

/**
 * Every statement the SQL stores use, once. Parameters are positional. Each text is one that SQLite and PostgreSQL
 * both understand; `max` and `min` of two values are functions that the schema of PostgreSQL adds.
 */
export const QUERIES = {
  ...KEY_QUERIES,
  ...MAC_QUERIES,
  ...APPROVAL_QUERIES,
  ...PIN_QUERIES,
  ...SOURCE_QUERIES,
  ...REQUEST_QUERIES,
  /** Moves with commits of other connections only. */
  foreignVersion: 'PRAGMA data_version',
  ...WORKFLOW_QUERIES,
  insertWriter: 'INSERT INTO writers (id, started_at, data_key) VALUES (?, ?, ?) RETURNING no',
  /** A writer has ended when nothing of it runs any more; what does is left for recovery. */
  endWriter: `UPDATE writers SET ended_at = ? WHERE id = ?
    AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.writer = writers.no AND calls.state = 'running')
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.writer = writers.no AND sessions.state <> 'closed')`,
  openWriters: `SELECT no, id FROM writers WHERE ended_at IS NULL
    UNION SELECT no, id FROM writers WHERE no IN (SELECT DISTINCT writer FROM calls WHERE state = 'running')
    UNION SELECT no, id FROM writers WHERE no IN (SELECT DISTINCT writer FROM sessions WHERE state <> 'closed')`,
  allWriters: 'SELECT no, id, recorded_n, recorded_by FROM writers',
  writerByNo: 'SELECT no, id, ended_at, data_key FROM writers WHERE no = ?',
  writerEnd: 'SELECT ended_at FROM writers WHERE id = ?',

  insertGroup:
    'INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  headOf: 'SELECT n, link FROM commit_groups WHERE writer = ? ORDER BY n DESC LIMIT 1',
  // Heads that nobody recorded, and those whose recording retention has forgotten. The newest group of each writer is
  // looked up; CROSS JOIN keeps SQLite from reading every group instead.
  newHeads: `SELECT w.no, w.id AS writer, g.n, g.link FROM writers w CROSS JOIN commit_groups g
    WHERE g.writer = w.no AND g.n = (SELECT max(n) FROM commit_groups WHERE writer = w.no)
      AND (g.n <> w.recorded_n OR NOT EXISTS (SELECT 1 FROM commit_groups r WHERE r.writer = w.recorded_by AND r.n = 0))`,
  recordHead: 'UPDATE writers SET recorded_n = ?, recorded_by = ? WHERE no = ?',
  chains: `SELECT w.no, w.id, w.started_at, (SELECT max(n) FROM commit_groups WHERE writer = w.no) AS last
    FROM writers w ORDER BY w.no`,
  groupsOf: 'SELECT n, at, events, link FROM commit_groups WHERE writer = ? AND n > ? ORDER BY n LIMIT ?',
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
  deleteCall: `DELETE FROM calls WHERE record = ? RETURNING record, ${APPROVALS_OF_CALL}`,
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
    WHERE (CAST(? AS TEXT) IS NULL OR c.tenant = ?) ORDER BY c.no DESC LIMIT ?`,
  listAmbiguousCalls: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE c.state = 'ambiguous' AND (CAST(? AS TEXT) IS NULL OR c.tenant = ?) ORDER BY c.no DESC LIMIT ?`,
  /** By number, which is there already: an index over principals would cost every call. */
  listOwnCalls: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE c.no < ? AND c.no >= ? AND c.tenant = ? AND c.principal = ? AND c.parent IS NULL ORDER BY c.no DESC LIMIT ?`,
  /** Two look-ups: SQLite walks the whole table for a minimum and a maximum in one. */
  callNumbers: `SELECT coalesce((SELECT min(no) FROM calls), 0) AS first,
    coalesce((SELECT max(no) FROM calls), 0) AS last`,
  listCallsByState: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE c.state = ? AND (CAST(? AS TEXT) IS NULL OR c.tenant = ?) ORDER BY c.no DESC LIMIT ?`,

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
    WHERE finished_at IS NOT NULL AND expired = 0 AND finished_at < ?
      AND coalesce((SELECT coalesce(r.finished_at, ${Number.MAX_SAFE_INTEGER}) FROM calls r WHERE r.record = calls.root), 0) < ?
    ORDER BY finished_at LIMIT ?`,
  makeTombstone: `UPDATE calls SET expired = 1, outcome_group = NULL, outcome_at = NULL, outcome_length = NULL,
      late_group = NULL, late_at = NULL, late_length = NULL WHERE record = ?`,
  /** A key is free only when the own run of the call that had it is forgotten too: the next one begins anew. */
  deleteTombstones: `DELETE FROM calls WHERE no IN (SELECT no FROM calls WHERE expired = 1 AND finished_at < ?
      AND (run IS NULL OR run <> record OR NOT EXISTS (SELECT 1 FROM runs WHERE key = calls.record))
      AND (root IS NULL OR NOT EXISTS (SELECT 1 FROM calls r WHERE r.record = calls.root)) LIMIT ?)
    RETURNING record, ${APPROVALS_OF_CALL}`,
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
  insertChallenge: `INSERT INTO challenges (id, need, tenant, principal, user_id, provider, scopes, tool, status, created_at, expires_at, consent)
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
