const OWN = 'tenant = ? AND id = ? AND writer = ? AND reply IS NULL'

/** Statements of requests with keys. */
export const REQUEST_QUERIES = {
  findRequest: 'SELECT asked, writer, reply FROM keyed_requests WHERE tenant = ? AND id = ?',
  beginRequest: `INSERT INTO keyed_requests (tenant, id, asked, writer, expires_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET writer = excluded.writer, expires_at = excluded.expires_at`,
  answerRequest: `UPDATE keyed_requests SET reply = ?, expires_at = ? WHERE ${OWN}`,
  releaseRequest: `DELETE FROM keyed_requests WHERE ${OWN}`,
  deleteRequests: 'DELETE FROM keyed_requests WHERE expires_at < ?',
} as const
