import { defined } from '#kernel/base/json'
import { decide } from '#kernel/store/calls/approval-changes'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing } from '#kernel/store/key-ring'
import type { GuardedTable, StoreModule } from '#kernel/store/module'
import { sealRow } from '#kernel/store/row-mac'
import {
  integer,
  openReason,
  optionalInteger,
  optionalText,
  resealReason,
  sealReason,
  TIERS,
  text,
  word,
} from '#kernel/store/rows'
import type { StandingRule } from '#stages/standing-rules/rule'
import { nameOfRule, type RuleUse, type StandingRulePort } from '#stages/standing-rules/standing-rules'
import { mapped, type TenantPage, texts } from '#store/steps'

/**
 * Standing rules, by which approvers approved further calls in advance. The stage for standing rules uses them, operators make,
 * list and revoke them. Conditions and reasons are sealed, because they contain values of callers' inputs (rule 15).
 * Invariant: a row decides which calls run, so each has a MAC; its use is counted in the transaction that grants the approval.
 */

const { get, all, write } = statements<keyof typeof queries>()

export type NewStandingRule = Omit<StandingRule, 'uses' | 'revokedBy' | 'revokedAtMs'>

interface RulePage extends TenantPage {
  /** Also rules that have ended. */
  readonly isWhole: boolean
  readonly nowMs: number
}

export function openStandingRules({ exclusive, read, keys }: StoreContext) {
  const records = (rows: readonly Row[]) => rows.map((row) => ruleFromRow(keys, row))
  return {
    create: exclusive(({ id }: NewStandingRule) => id, create),
    /** False if the rule does not exist, belongs to another tenant, or was revoked before. */
    revoke: exclusive(({ rule }: Revocation) => rule, revoke),
    find: read((id: string) =>
      mapped(get('findStandingRule', id), (row) => (row === undefined ? undefined : ruleFromRow(keys, row))),
    ),
    /** Newest first. */
    list: read(({ tenant = null, isWhole, nowMs, limit }: RulePage) =>
      mapped(all('listStandingRules', tenant, tenant, isWhole ? 'all' : 'active', nowMs, limit), records),
    ),
    listFor: read(({ tenant, principal, tool }: Parameters<StandingRulePort['listFor']>[0], nowMs: number) =>
      mapped(all('standingRulesFor', tenant, principal, tool, nowMs), records),
    ),
    use: (use: RuleUse) =>
      function* (group: CommitGroup): Steps<boolean> {
        return yield* useRule(group, use)
      },
  }
}

export type StandingRuleStore = ReturnType<typeof openStandingRules>

interface Revocation {
  readonly rule: string
  /** `undefined` for operators, who see every tenant's rules. */
  readonly tenant: string | undefined
  readonly by: string
  readonly atMs: number
}

/** The members of a rule that are sealed. */
type Sealed = Pick<StandingRule, 'conditions'> &
  Partial<Pick<StandingRule, 'userId' | 'credentials' | 'reason'>>

function* create(group: CommitGroup, rule: NewStandingRule): Steps<void> {
  const { id, tenant, principal, tool, tier, definitionHash, isUserProven, approval } = rule
  const { conditions, userId, credentials, reason, maxUses, expiresAtMs, createdBy, createdAtMs } = rule
  const sealed: Sealed = { conditions, ...defined({ userId, credentials, reason }) }
  yield* write(
    'insertStandingRule',
    ...[id, tenant, principal, tool, definitionHash, tier, isUserProven ? 1 : 0, approval],
    sealReason(group.keys, id, JSON.stringify(sealed)),
    ...[maxUses ?? null, expiresAtMs, createdBy, createdAtMs],
  )
  yield* sealRow(group.keys, STANDING_RULES, id)
  const limits = { expiresAt: expiresAtMs, ...defined({ maxUses }) }
  const about = { tenant, principal, tool, rule: id, approval }
  group.append({ type: 'rule.created', at: createdAtMs, ...about, ...limits, by: createdBy })
}

function* revoke(group: CommitGroup, { rule: id, tenant, by, atMs }: Revocation): Steps<boolean> {
  const row = yield* get('findStandingRule', id)
  if (row === undefined || (tenant !== undefined && text(row, 'tenant') !== tenant)) return false
  if ((yield* write('revokeStandingRule', atMs, by, id)) === 0) return false
  yield* sealRow(group.keys, STANDING_RULES, id)
  const about = texts(row, 'tenant', 'principal', 'tool', 'approval')
  group.append({ type: 'rule.revoked', at: atMs, ...about, rule: id, uses: integer(row, 'uses'), by })
  return true
}

/** The row is read first, so that a row that was changed without the key is refused. */
function* useRule(group: CommitGroup, { rule: id, tenant, approval, atMs, opaque }: RuleUse): Steps<boolean> {
  const row = yield* get('findStandingRule', id)
  if (row === undefined || (yield* write('useStandingRule', id, atMs)) === 0) return false
  yield* sealRow(group.keys, STANDING_RULES, id)
  const grant = { id: approval, tenant, by: nameOfRule(id), action: 'grant', reason: undefined } as const
  return (yield* decide(group, { ...grant, atMs, opaque, isAutomatic: true })) === 'decided'
}

function ruleFromRow(keys: KeyRing, row: Row): StandingRule {
  const sealed: Sealed = JSON.parse(openReason(keys, text(row, 'id'), text(row, 'contents')))
  const { conditions, userId, credentials, reason } = sealed
  return {
    ...texts(row, 'id', 'tenant', 'principal', 'tool', 'approval'),
    ...{ conditions, userId, credentials, reason },
    definitionHash: text(row, 'definition'),
    tier: word(row, 'tier', TIERS),
    isUserProven: integer(row, 'user_proven') === 1,
    maxUses: optionalInteger(row, 'max_uses'),
    uses: integer(row, 'uses'),
    expiresAtMs: integer(row, 'expires_at'),
    createdBy: text(row, 'created_by'),
    createdAtMs: integer(row, 'created_at'),
    revokedBy: optionalText(row, 'revoked_by'),
    revokedAtMs: optionalInteger(row, 'revoked_at'),
  }
}

const STANDING_RULES: GuardedTable = {
  table: 'standing_rules',
  label: 'standing rules',
  columns: [
    ...['id', 'tenant', 'principal', 'tool', 'definition', 'tier', 'user_proven', 'approval', 'contents'],
    ...['max_uses', 'uses', 'expires_at', 'created_by', 'created_at', 'revoked_by', 'revoked_at'],
  ],
  names: ['id'],
  checkedReads: ['findStandingRule', 'listStandingRules', 'standingRulesFor'],
  *resealContents({ keys }, row) {
    const id = text(row, 'id')
    yield* write('resealStandingRule', resealReason(keys, id, text(row, 'contents')), id)
  },
  endOf: (row) => (row.revoked_at === null ? undefined : 'revoked'),
  endedBy: ({ type, rule = '' }) =>
    type === 'rule.revoked' ? { row: { id: rule }, state: 'revoked' } : undefined,
}

const queries = {
  insertStandingRule: `INSERT INTO standing_rules (id, tenant, principal, tool, definition, tier, user_proven, approval, contents,
      max_uses, expires_at, created_by, created_at, uses) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
  findStandingRule: 'SELECT * FROM standing_rules WHERE id = ?',
  standingRulesFor: `SELECT * FROM standing_rules WHERE tenant = ? AND principal = ? AND tool = ? AND revoked_at IS NULL
    AND expires_at > ? ORDER BY no`,
  listStandingRules: `SELECT * FROM standing_rules WHERE (CAST(? AS TEXT) IS NULL OR tenant = ?)
    AND (CAST(? AS TEXT) = 'all' OR (revoked_at IS NULL AND expires_at > ? AND (max_uses IS NULL OR uses < max_uses))) ORDER BY no DESC LIMIT ?`,
  /** Conditional, so that a rule that has ended grants nothing. */
  useStandingRule: `UPDATE standing_rules SET uses = uses + 1
    WHERE id = ? AND revoked_at IS NULL AND expires_at > ? AND (max_uses IS NULL OR uses < max_uses)`,
  revokeStandingRule:
    'UPDATE standing_rules SET revoked_at = ?, revoked_by = ? WHERE id = ? AND revoked_at IS NULL',
  resealStandingRule: 'UPDATE standing_rules SET contents = ? WHERE id = ?',
  deleteStandingRules: `DELETE FROM standing_rules
    WHERE no IN (SELECT no FROM standing_rules WHERE coalesce(revoked_at, expires_at) < ? LIMIT ?)`,
} as const

const tables = `
CREATE TABLE standing_rules (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  definition TEXT NOT NULL,
  tier TEXT NOT NULL,
  user_proven INTEGER NOT NULL,
  approval TEXT NOT NULL,
  contents TEXT NOT NULL,
  max_uses INTEGER,
  uses INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_by TEXT,
  revoked_at INTEGER,
  mac TEXT
) STRICT;

CREATE INDEX standing_rules_subject ON standing_rules (tenant, principal, tool);
CREATE INDEX standing_rules_end ON standing_rules (coalesce(revoked_at, expires_at));
`

export const standingRuleModule: StoreModule = {
  name: 'standing rules',
  ...{ tables, queries, guarded: [STANDING_RULES] },
  *forget({ nowMs, policy, limit }) {
    return yield* write('deleteStandingRules', nowMs - policy.journalMs, limit)
  },
}
