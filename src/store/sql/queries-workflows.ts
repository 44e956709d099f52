/** Every statement about workflows that are put away, and their steps. Parameters are positional. */
export const WORKFLOW_QUERIES = {
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
