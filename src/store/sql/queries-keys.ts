/** Keys, their owners and the audit stream. */
export const KEY_QUERIES = {
  insertKeyOwner: 'INSERT INTO key_owners (tenant, name, created_at) VALUES (?, ?, ?)',
  findKeyOwner: 'SELECT * FROM key_owners WHERE tenant = ? AND name = ?',
  endKeyOwner: 'UPDATE key_owners SET ended_at = ? WHERE tenant = ? AND name = ? AND ended_at IS NULL',
  insertKey: `INSERT INTO api_keys (id, digest, tenant, name, label, scopes, roles, tools, created_at, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  findKey: 'SELECT * FROM api_keys WHERE id = ?',
  keysOf: 'SELECT * FROM api_keys WHERE tenant = ? AND name = ? ORDER BY no DESC',
  listKeys: 'SELECT * FROM api_keys WHERE (? IS NULL OR tenant = ?) ORDER BY no DESC LIMIT ?',
  shortenKeys: `UPDATE api_keys SET expires_at = min(coalesce(expires_at, ?), ?)
    WHERE tenant = ? AND name = ? AND revoked_at IS NULL`,
  revokeKey:
    'UPDATE api_keys SET revoked_at = ? WHERE id = ? AND tenant = ? AND revoked_at IS NULL RETURNING name',
  noteKeyUse: 'UPDATE api_keys SET used_at = max(coalesce(used_at, 0), ?) WHERE id = ?',
  raiseKeyEpoch: `INSERT INTO meta (name, value) VALUES ('key_epoch', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)`,
  deleteLastDenial: 'DELETE FROM denials WHERE no = last_insert_rowid()',
  insertDenial: `INSERT INTO denials (at, tenant, principal, action, resource, reason, count)
    VALUES (?, ?, ?, ?, ?, ?, ?)`,
  denialsAfter: 'SELECT * FROM denials WHERE no > ? ORDER BY no LIMIT ?',
  denialsOfTenantAfter: 'SELECT * FROM denials WHERE tenant = ? AND no > ? ORDER BY no LIMIT ?',
  deleteDenials: 'DELETE FROM denials WHERE no IN (SELECT no FROM denials WHERE at < ? LIMIT ?)',
} as const
