/** Every statement about approvals. Parameters are positional. */
export const APPROVAL_QUERIES = {
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
  listApprovals: `SELECT * FROM approvals WHERE (? IS NULL OR tenant = ?) AND (? IS NULL OR state = ?) ORDER BY no DESC LIMIT ?`,

  decisionsOf: 'SELECT * FROM approval_decisions WHERE approval = ? ORDER BY n',
  saveDecision: `INSERT INTO approval_decisions (approval, principal, action, reason, at, n) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (approval, principal) DO UPDATE SET action = excluded.action, reason = excluded.reason, at = excluded.at`,

  insertNotice: 'INSERT INTO approval_notices (id, approval, target, tries, next_at) VALUES (?, ?, ?, 0, ?)',
  dueNotices: 'SELECT * FROM approval_notices WHERE next_at <= ? ORDER BY next_at LIMIT ?',
  takeNotice:
    'UPDATE approval_notices SET tries = tries + 1, next_at = ? WHERE id = ? AND tries = ? AND next_at <= ?',
  putOffNotice: 'UPDATE approval_notices SET next_at = ? WHERE id = ?',
  dropNotice: 'DELETE FROM approval_notices WHERE id = ?',
} as const
