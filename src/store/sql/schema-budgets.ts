/** What is handed out of each window of each budget. `principal` is empty for the tenant as a whole. */
export const BUDGETS = `
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
