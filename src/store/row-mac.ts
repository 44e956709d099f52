import { createHmac, type KeyObject } from 'node:crypto'
import { StoreError } from '#core/errors'
import { isSameSecret } from '#core/hash'
import { text } from './rows.ts'
import { type Ask, all, get, type Row, type Steps, write } from './steps.ts'

/**
 * Tables whose rows decide something: who may do what, and what was said yes to. Each row carries a MAC over these
 * columns, so that whoever can write the file but has no key cannot change a decision. When a key was last used decides
 * nothing and is left out.
 */
const DECIDING = {
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

function hasOwnMac(key: KeyObject, table: DecidingTable, row: Row): boolean {
  return typeof row.mac === 'string' && isSameSecret(text(row, 'mac'), rowMac(key, table, row))
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

/** Checks the rows that decide on their way in; a store has one. */
export class RowGuard {
  readonly #key: KeyObject
  readonly #reported = new Set<string>()
  readonly #onForeign: (row: string, table: DecidingTable) => void

  constructor(key: KeyObject, onForeign: (row: string, table: DecidingTable) => void = () => undefined) {
    this.#key = key
    this.#onForeign = onForeign
  }

  /**
   * Called by the engine with every answer. A row that is asked for and not ours is an error for the operator, never "not
   * found" (rule 14); from a list it is left out and reported, because it must not hold up the others.
   */
  check(ask: Ask): void {
    if (ask.way === 'write') return
    const table = CHECKED_READS[ask.query]
    if (table === undefined) return
    if (ask.way === 'all') {
      ask.answer = ask.answer.filter((row) => this.isOwn(table, row))
    } else if (ask.answer !== undefined && !this.isOwn(table, ask.answer)) {
      throw new StoreError(
        'unreadable',
        `${nameOfRow(table, ask.answer)} was changed by someone without the key, so it is refused: collet journal verify`,
      )
    }
  }

  /** Reports a row that is not ours once. */
  isOwn(table: DecidingTable, row: Row): boolean {
    if (hasOwnMac(this.#key, table, row)) return true
    const name = nameOfRow(table, row)
    if (!this.#reported.has(name)) {
      this.#reported.add(name)
      this.#onForeign(name, table)
    }
    return false
  }
}

/** Gives a row that was just changed its new MAC; whoever changes one has read it, and so checked it, before. */
export function* sealRow(
  key: KeyObject,
  table: keyof typeof SEALS,
  ...names: readonly string[]
): Steps<void> {
  yield* refuseForeignTriggers()
  const row = yield* get(SEALS[table].read, ...names)
  if (row !== undefined) yield* write(SEALS[table].seal, rowMac(key, table, row), ...names)
}

const SEALS = {
  approvals: { read: 'approvalRow', seal: 'sealApproval' },
  approval_decisions: { read: 'decisionRow', seal: 'sealDecision' },
  key_owners: { read: 'ownerRow', seal: 'sealOwner' },
  api_keys: { read: 'keyRow', seal: 'sealKey' },
} as const

/** What would change rows behind our back: Collet has no trigger of its own. */
export function* foreignTriggers(): Steps<readonly string[]> {
  return (yield* all('triggers')).map((row) => text(row, 'name'))
}

/** Asked while nobody else can write: what is signed is what we wrote. */
export function* refuseForeignTriggers(): Steps<void> {
  const [name] = yield* foreignTriggers()
  if (name === undefined) return
  throw new StoreError(
    'unreadable',
    `someone added a trigger to the database (${name}), which Collet does not do. Restore a backup, or drop it and run \`collet journal verify\``,
  )
}

/** What a statement reads; every row that decides is checked on its way in. Pins come in pages and are checked there. */
const CHECKED_READS: Readonly<Record<string, DecidingTable>> = {
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

export const queries = {
  triggers: "SELECT name FROM sqlite_schema WHERE type = 'trigger'",
} as const
