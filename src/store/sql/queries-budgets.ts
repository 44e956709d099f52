const WINDOW = 'tenant = ? AND principal = ? AND length_ms = ? AND ends_at = ?'

export const BUDGET_QUERIES = {
  openBudget: `INSERT INTO budgets (tenant, principal, length_ms, ends_at, calls, milliseconds, cost)
    VALUES (?, ?, ?, ?, 0, 0, 0) ON CONFLICT DO NOTHING`,
  findBudget: `SELECT calls, milliseconds, cost FROM budgets WHERE ${WINDOW}`,
  changeBudget: `UPDATE budgets SET calls = max(0, calls + ?), milliseconds = max(0, milliseconds + ?), cost = max(0, cost + ?)
    WHERE ${WINDOW}`,
  deleteBudgets: `DELETE FROM budgets WHERE (tenant, principal, length_ms, ends_at) IN
    (SELECT tenant, principal, length_ms, ends_at FROM budgets WHERE ends_at < ? ORDER BY ends_at LIMIT ?)`,
} as const
