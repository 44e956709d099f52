import { createHmac, type KeyObject } from 'node:crypto'
import { isSameCheck } from './encryption.ts'
import { text } from './rows.ts'
import type { Row } from './steps.ts'

/**
 * Tables whose rows decide something: who may do what, and what was said yes to. Each row carries a MAC over these
 * columns, so that whoever can write the file but has no key cannot change a decision. When a key was last used decides
 * nothing and is left out.
 */
export const DECIDING = {
  approvals: [
    ...['id', 'tenant', 'record', 'attempt', 'principal', 'tool', 'tool_id', 'tier', 'definition', 'run'],
    ...[
      'own_session',
      'binding',
      'subject_group',
      'subject_at',
      'subject_length',
      'quorum',
      'required_scope',
    ],
    ...['self_approval', 'bypass', 'state', 'created_at', 'expires_at', 'decided_at'],
  ],
  approval_decisions: ['approval', 'principal', 'action', 'reason', 'at', 'n'],
  key_owners: ['tenant', 'name', 'created_at', 'ended_at'],
  api_keys: [
    ...['id', 'digest', 'tenant', 'name', 'label', 'scopes', 'roles', 'tools', 'created_at', 'expires_at'],
    'revoked_at',
  ],
  pins: ['source', 'native_name', 'local', 'served', 'accepted', 'waiting'],
} as const satisfies Readonly<Record<string, readonly string[]>>

export type DecidingTable = keyof typeof DECIDING

/** Lengths before texts, so that no two rows have one text. */
export function rowMac(key: KeyObject, table: DecidingTable, row: Row): string {
  const hmac = createHmac('sha256', key).update(table)
  for (const column of DECIDING[table]) {
    const value = row[column]
    const written = value === null || value === undefined ? '' : String(value)
    hmac
      .update(`\n${column} ${value === null ? 'null' : typeof value} ${Buffer.byteLength(written)} `)
      .update(written)
  }
  return hmac.digest('base64url')
}

export function hasOwnMac(key: KeyObject, table: DecidingTable, row: Row): boolean {
  return typeof row.mac === 'string' && isSameCheck(text(row, 'mac'), rowMac(key, table, row))
}

/** What a row is, for the operator: by what names it, never by what it says. */
export function nameOfRow(table: DecidingTable, row: Row): string {
  const names = {
    approvals: ['id'],
    approval_decisions: ['approval', 'principal'],
    key_owners: ['tenant', 'name'],
    api_keys: ['id'],
    pins: ['source', 'native_name'],
  } as const satisfies Record<DecidingTable, readonly string[]>
  return `${table} ${names[table].map((column) => String(row[column])).join(' ')}`
}

/** What a statement reads; every row that decides is checked on its way in. Pins come in pages and are checked there. */
export const CHECKED_READS: Readonly<Record<string, DecidingTable>> = {
  findApproval: 'approvals',
  newestApproval: 'approvals',
  expiredApprovals: 'approvals',
  parkedApprovalOf: 'approvals',
  parkedApprovalsInRun: 'approvals',
  parkedApprovalsInSession: 'approvals',
  listApprovals: 'approvals',
  decisionsOf: 'approval_decisions',
  findKeyOwner: 'key_owners',
  findKey: 'api_keys',
  keysOf: 'api_keys',
  listKeys: 'api_keys',
}

export const MAC_QUERIES = {
  triggers: "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'",
  ownerRow: 'SELECT * FROM key_owners WHERE tenant = ? AND name = ?',
  keyRow: 'SELECT * FROM api_keys WHERE id = ?',
  approvalRow: 'SELECT * FROM approvals WHERE id = ?',
  decisionRow: 'SELECT * FROM approval_decisions WHERE approval = ? AND principal = ?',
  sealOwner: 'UPDATE key_owners SET mac = ? WHERE tenant = ? AND name = ?',
  sealKey: 'UPDATE api_keys SET mac = ? WHERE id = ?',
  sealApproval: 'UPDATE approvals SET mac = ? WHERE id = ?',
  sealDecision: 'UPDATE approval_decisions SET mac = ? WHERE approval = ? AND principal = ?',
  sealPin: 'UPDATE pins SET mac = ? WHERE source = ? AND native_name = ?',
  allApprovals: 'SELECT * FROM approvals',
  allDecisions: 'SELECT * FROM approval_decisions',
  allOwners: 'SELECT * FROM key_owners',
  allKeys: 'SELECT * FROM api_keys',
  allPins: 'SELECT * FROM pins',
} as const

/** Rows of before get theirs when the columns come. */
export const ROW_MACS = `
ALTER TABLE approvals ADD COLUMN mac TEXT;
ALTER TABLE approval_decisions ADD COLUMN mac TEXT;
ALTER TABLE key_owners ADD COLUMN mac TEXT;
ALTER TABLE api_keys ADD COLUMN mac TEXT;
ALTER TABLE pins ADD COLUMN mac TEXT;
`
