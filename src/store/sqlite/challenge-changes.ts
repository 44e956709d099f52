import type { ChallengeRecord, NewChallenge } from '#core/ports/store'
import { challengeKey } from '#store/challenge-key'
import type { OpenGroup } from '#store/sql/open-group'
import { integer, type Row, text, word } from '#store/sql/row'
import type { Database } from './database.ts'

const STATUSES = ['pending', 'completed', 'failed'] as const

/** Rule 22: the unique index on open needs makes sure that there is one. */
export function openChallenge(
  database: Database,
  group: OpenGroup,
  challenge: NewChallenge,
): ChallengeRecord {
  const need = challengeKey(challenge)
  database.run('expireChallenge', need, challenge.atMs)
  const open = database.get('openChallenge', need)
  if (open !== undefined) return challengeFromRow(open)
  const { id, tenant, principal, user, provider, scopes, tool, atMs, expiresAtMs } = challenge
  const scopesJson = JSON.stringify(scopes)
  database.run(
    'insertChallenge',
    id,
    need,
    tenant,
    principal,
    user,
    provider,
    scopesJson,
    tool,
    atMs,
    expiresAtMs,
    challenge.consent === true ? 1 : 0,
  )
  group.append({ type: 'challenge.opened', at: atMs, challenge: id, tenant, principal, provider })
  return { ...challenge, status: 'pending' }
}

export function endChallenge(
  database: Database,
  group: OpenGroup,
  done: { readonly key: string; readonly as: 'completed' | 'failed'; readonly atMs: number },
): void {
  const row = database.get('openChallenge', done.key)
  if (row === undefined) return
  const { id, tenant, principal, provider } = challengeFromRow(row)
  database.run('endChallenge', done.as, id)
  group.append({ type: `challenge.${done.as}`, at: done.atMs, challenge: id, tenant, principal, provider })
}

export function challengeFromRow(row: Row): ChallengeRecord {
  const scopes: readonly string[] = JSON.parse(text(row, 'scopes'))
  return {
    id: text(row, 'id'),
    tenant: text(row, 'tenant'),
    principal: text(row, 'principal'),
    user: text(row, 'user'),
    provider: text(row, 'provider'),
    scopes,
    tool: text(row, 'tool'),
    status: word(row, 'status', STATUSES),
    atMs: integer(row, 'created_at'),
    expiresAtMs: integer(row, 'expires_at'),
    ...(integer(row, 'consent') === 1 ? { consent: true } : {}),
  }
}
