const REQUEST = 'tenant = ? AND session = ? AND request = ?'

/** Statements of sessions, requests and questions of callers. */
export const CALLER_QUERIES = {
  openCallerSession: `INSERT INTO caller_sessions (tenant, id, principal, agreed, touched_at) VALUES (?, ?, ?, ?, ?)`,
  findCallerSession: 'SELECT * FROM caller_sessions WHERE tenant = ? AND id = ?',
  callerSessionsOf:
    'SELECT id, touched_at FROM caller_sessions WHERE tenant = ? AND principal = ? ORDER BY touched_at',
  touchCallerSession: 'UPDATE caller_sessions SET touched_at = ? WHERE tenant = ? AND id = ?',
  endCallerSession: 'DELETE FROM caller_sessions WHERE tenant = ? AND id = ?',
  deleteCallerSessions: 'DELETE FROM caller_sessions WHERE touched_at < ?',

  beginCallerRequest: `INSERT INTO caller_requests (tenant, session, request, began_at) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET cancelled = 0, began_at = excluded.began_at`,
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
