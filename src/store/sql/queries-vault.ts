const AT = 'tenant = ? AND principal = ? AND user = ? AND provider = ? AND kind = ?'

/** Statements of the vault and of consents. A key is joined from the left: an entry without one is unreadable, not absent (rule 14). */
export const VAULT_QUERIES = {
  insertVaultKey: 'INSERT INTO vault_keys (tenant, wrapped, created_at) VALUES (?, ?, ?) RETURNING no',
  newestVaultKey: 'SELECT no, wrapped FROM vault_keys WHERE tenant = ? ORDER BY no DESC LIMIT 1',
  vaultTenants: 'SELECT DISTINCT tenant FROM vault_keys',
  deleteVaultKeys: 'DELETE FROM vault_keys WHERE tenant = ? AND no <> ?',

  putCredential: `INSERT INTO vault (ref, tenant, principal, user, provider, kind, version, data_key, value, scopes, expires_at,
      lease_until, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, 0, ?, ?)
    ON CONFLICT (tenant, principal, user, provider, kind) DO UPDATE SET ref = excluded.ref, version = version + 1,
      data_key = excluded.data_key, value = excluded.value, scopes = excluded.scopes, expires_at = excluded.expires_at,
      lease_until = 0, created_at = excluded.created_at, updated_at = excluded.updated_at`,
  findCredential: `SELECT v.*, k.wrapped FROM vault v LEFT JOIN vault_keys k ON k.no = v.data_key AND k.tenant = v.tenant
    WHERE v.tenant = ? AND v.principal = ? AND v.user = ? AND v.provider = ? AND v.kind = ?`,
  findCredentialByRef: 'SELECT * FROM vault WHERE ref = ?',
  listCredentials: 'SELECT * FROM vault WHERE (? IS NULL OR tenant = ?) ORDER BY no DESC LIMIT ?',
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
