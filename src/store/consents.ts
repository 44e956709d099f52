import { Secret } from '#kernel/base/secret'
import type { RunScope } from '#kernel/call/call-record'
import type { ChallengeNeed, ChallengeRecord, NamedCall, NewChallenge } from '#kernel/call/stages'
import type { CallLabel, RunFact } from '#kernel/run/events'
import { isRunEnded } from '#kernel/run/runs'
import { appendFact, findRun, openRun } from '#kernel/store/calls/runs'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { boundText, callerToText, integer, NO_LABEL, text, word } from '#kernel/store/rows'
import { mapped, texts } from './steps.ts'
import { checkVaultKey, openSealed, sealUnder, vaultKeyOf } from './vault.ts'

/**
 * Challenges (credentials that calls lack), consents (a browser's round trips to a provider), and the events of both in runs.
 * The credentials stage opens challenges; the consent pages complete them.
 * At most one challenge is open per need (rule 22), and a consent can be used once.
 */

const { get, all, write } = statements<keyof typeof queries>()

const STATUSES = ['pending', 'completed', 'failed'] as const

/** `sign_in` and `approver` prove who uses the browser, before a consent or a decision. `provider` requests the authorization. */
export const CONSENT_STAGES = ['sign_in', 'provider', 'approver'] as const

/** A redirect to a provider, whose return is expected: the data behind `state`, which never leaves the server. */
export interface Consent {
  /** Keyed digest of `state`. */
  readonly id: string
  readonly tenant: string
  /** Id of the challenge that the consent is for, or the digest of an approver's link. */
  readonly challenge: string
  readonly stage: (typeof CONSENT_STAGES)[number]
  /** Keyed digest of a cookie that only the browser that started the consent has (rule 25). */
  readonly browser: string
  /** PKCE verifier and nonce; stored sealed. */
  readonly held: Secret
  readonly expiresAtMs: number
}

/** A call that lacks a consent. Only the events of its run record it (rule 20). */
export interface ConsentRequest extends NamedCall {
  /** The run that reports the request; created if it does not exist. */
  readonly scope: RunScope
  readonly challenge: string
  readonly need: ChallengeNeed
  /** A page on this server, never on the provider's (OWP-78). */
  readonly url: string
  /** The provider refused to renew the previous authorization. */
  readonly hasExpired: boolean
  readonly expiresAtMs: number
  readonly atMs: number
}

export interface ConsentEnd {
  readonly as: 'completed' | 'failed'
  /** The entry in the vault; absent if the caller sent its own token. */
  readonly credential?: { readonly ref: string; readonly scopes: readonly string[] }
  readonly reason?: 'denied' | 'scopes' | 'timeout'
  readonly atMs: number
}

export function openChallenges({ exclusive, read }: StoreContext) {
  const isOpen = read((key: string) => get('openChallenge', key))
  const end = exclusive((key: string) => key, endChallenge)
  return {
    /** Returns the open challenge for the same need, or stores this one. */
    openChallenge: exclusive(({ id }) => id, openChallenge),
    findChallenge: read((id: string) =>
      mapped(get('findChallenge', id), (row) => row && challengeFromRow(row)),
    ),
    /** Ends the open challenge for this need, if any, because its token has arrived or was refused (OTC-78). */
    async endChallenge(need: ChallengeNeed, as: 'completed' | 'failed', atMs: number) {
      // Reads before it writes, because most calls with a token were never challenged.
      const key = challengeKey(need)
      if ((await isOpen(key)) !== undefined) await end(key, as, atMs)
    },
  }
}

export type ChallengeStore = ReturnType<typeof openChallenges>

/** The unique index on open needs allows only one open challenge for each (rule 22). */
function* openChallenge(group: CommitGroup, challenge: NewChallenge): Steps<ChallengeRecord> {
  const need = challengeKey(challenge)
  yield* write('expireChallenge', need, challenge.atMs)
  const open = yield* get('openChallenge', need)
  if (open !== undefined) return challengeFromRow(open)
  const { id, tenant, principal, user, provider, scopes, tool, atMs, expiresAtMs } = challenge
  const columns = [id, need, tenant, principal, user, provider, JSON.stringify(scopes), tool] as const
  yield* write('insertChallenge', ...columns, atMs, expiresAtMs, challenge.consent === true ? 1 : 0)
  group.append({ type: 'challenge.opened', at: atMs, challenge: id, tenant, principal, provider })
  return { ...challenge, status: 'pending' }
}

function* endChallenge(
  group: CommitGroup,
  key: string,
  as: 'completed' | 'failed',
  atMs: number,
): Steps<void> {
  const row = yield* get('openChallenge', key)
  if (row === undefined) return
  const { id, tenant, principal, provider } = challengeFromRow(row)
  yield* write('endChallenge', as, id)
  group.append({ type: `challenge.${as}`, at: atMs, challenge: id, tenant, principal, provider })
}

/** Equal for challenges with the same need (rule 22). */
export function challengeKey(need: ChallengeNeed): string {
  const { tenant, principal, user, provider, scopes } = need
  return JSON.stringify([tenant, principal, user, provider, scopes])
}

function challengeFromRow(row: Row): ChallengeRecord {
  return {
    ...texts(row, 'id', 'tenant', 'principal', 'provider', 'tool'),
    user: text(row, 'user_id'),
    scopes: JSON.parse(text(row, 'scopes')),
    status: word(row, 'status', STATUSES),
    atMs: integer(row, 'created_at'),
    expiresAtMs: integer(row, 'expires_at'),
    ...(integer(row, 'consent') === 1 ? { consent: true } : {}),
  }
}

/** Consents between redirect and return. Any process can continue a consent. */
export function openConsents(context: StoreContext) {
  const { exclusive, read, keys } = context
  const checkKey = read((tenant: string) => checkVaultKey(keys, tenant))
  const begin = exclusive(({ id }: Consent) => id, beginConsent)
  return {
    runs: openConsentRuns(context),
    /** Keeps at most `max` consents per challenge and stage, and removes the oldest. */
    async begin(consent: Consent, max: number) {
      await checkKey(consent.tenant)
      await begin(consent, max)
    },
    find: read((id: string) => findConsent(keys, id)),
    /** Returns `true` to exactly one of several callers. */
    take: exclusive(
      (id) => id,
      (_group: CommitGroup, id: string) => mapped(write('takeConsent', id), Boolean),
    ),
  }
}

export type ConsentStore = ReturnType<typeof openConsents>

function* beginConsent(group: CommitGroup, consent: Consent, max: number): Steps<void> {
  const { id, tenant, challenge, stage, browser, held, expiresAtMs } = consent
  const { no, key } = yield* vaultKeyOf(group, tenant, expiresAtMs)
  const sealed = sealUnder(key, held.reveal(), sealContext(consent))
  yield* write('insertConsent', id, tenant, challenge, stage, browser, no, sealed, expiresAtMs)
  yield* write('trimConsents', challenge, stage, challenge, stage, max)
}

function* findConsent(keys: KeyRing, id: string): Steps<Consent | undefined> {
  const row = yield* get('findConsent', id)
  if (row === undefined) return undefined
  const facts = {
    ...texts(row, 'id', 'tenant', 'challenge', 'browser'),
    stage: word(row, 'stage', CONSENT_STAGES),
    expiresAtMs: integer(row, 'expires_at'),
  }
  return { ...facts, held: new Secret(openSealed(keys, row, 'held', sealContext(facts))) }
}

function sealContext({ id, tenant, challenge, stage, browser }: Omit<Consent, 'held'>): readonly string[] {
  return ['consent', id, tenant, challenge, stage, browser]
}

/** Consent events in runs. For each call that waits, the end of the consent is recorded once. */
function openConsentRuns({ exclusive, read }: StoreContext) {
  const waiting = read((key: string) => get('consentRunsOf', key))
  const firstExpired = read((nowMs: number) => get('expiredConsentRuns', nowMs))
  const resolve = exclusive((key: string) => key, resolveConsent)
  const expire = exclusive(() => '', expireConsents)
  return {
    /** Whether the call's run contains the request for this consent but not yet its end. */
    isAsked: read((challenge: string, record: string) =>
      mapped(get('findConsentRun', challenge, record), Boolean),
    ),
    /** Appends the request once per challenge and call; `false` if the run accepts no more events. */
    ask: exclusive(({ record }) => record, askInRun),
    /** Appends the end of the consent for every call that waits for this need; returns their runs. */
    async resolve(need: ChallengeNeed, end: ConsentEnd) {
      const key = challengeKey(need)
      return (await waiting(key)) === undefined ? [] : await resolve(key, end)
    },
    /** Ends requests for consent that were not answered in time; returns the runs of their calls. */
    expire: async (nowMs: number) => ((await firstExpired(nowMs)) === undefined ? [] : await expire(nowMs)),
  }
}

function* askInRun(group: CommitGroup, asked: ConsentRequest): Steps<boolean> {
  const { tenant, record, principal, scope, challenge, need, expiresAtMs, atMs } = asked
  if ((yield* isRecorded(scope.run, record)) || !(yield* openRun(scope, atMs))) return false
  const { provider } = need
  const row = [challenge, record, challengeKey(need), tenant, scope.run, provider, expiresAtMs]
  if ((yield* write('insertConsentRun', ...row)) === 0) return true
  const caller = group.addCaller(boundText(record, callerToText(asked)))
  const positions = []
  for (const fact of consentRequestFacts(asked, NO_LABEL))
    positions.push(yield* appendFact(scope.run, { fact, caller, atMs }))
  const event = { type: 'challenge.asked', at: atMs, challenge, tenant, principal, provider } as const
  group.append({ ...event, ...positions[0] })
  return true
}

function* resolveConsent(_group: CommitGroup, key: string, end: ConsentEnd): Steps<readonly string[]> {
  return yield* endInRuns(yield* all('consentRunsOf', key), end)
}

function* expireConsents(_group: CommitGroup, nowMs: number): Steps<readonly string[]> {
  const end = { as: 'failed', reason: 'timeout', atMs: nowMs } as const
  return yield* endInRuns(yield* all('expiredConsentRuns', nowMs), end)
}

/** Returns the runs that the end was appended to. */
function* endInRuns(rows: readonly Row[], { atMs, ...end }: ConsentEnd): Steps<readonly string[]> {
  const runs = new Set<string>()
  for (const row of rows) {
    const { tenant, run, ...waiting } = texts(row, 'tenant', 'run', 'record', 'challenge', 'provider')
    yield* write('deleteConsentRun', waiting.challenge, waiting.record)
    const found = yield* findRun({ tenant, run })
    if (found === undefined || isRunEnded(found, atMs) || (yield* isRecorded(run, waiting.record))) continue
    for (const fact of endedConsentFacts(waiting, end)) yield* appendFact(run, { fact, atMs })
    runs.add(run)
  }
  return [...runs]
}

/** Run facts for a call that lacks a consent: the refused renewal, the request, and the wait (OWP-64, OWP-78). */
function consentRequestFacts(asked: ConsentRequest, call: CallLabel): readonly RunFact[] {
  const { record, challenge, need, url, hasExpired, expiresAtMs, atMs } = asked
  const { provider, scopes } = need
  const timeoutMs = Math.max(0, expiresAtMs - atMs)
  const expired = { type: 'connector.auth_expired', record, provider } as const
  return [
    ...(hasExpired ? [expired] : []),
    { type: 'consent.requested', record, challenge, call, provider, scopes, url, timeoutMs },
    { type: 'consent.suspended', record, challenge },
  ]
}

/** Run facts for the end of a consent. They name a credential in the vault by its reference only (OWP-79). */
function endedConsentFacts(
  { record, challenge, provider }: Readonly<Record<'record' | 'challenge' | 'provider', string>>,
  { as, credential, reason }: Omit<ConsentEnd, 'atMs'>,
): readonly RunFact[] {
  const action = as === 'completed' ? 'accept' : 'reject'
  const why = reason === undefined ? {} : { reason }
  const resolved = { type: 'consent.resolved', record, challenge, action, ...why } as const
  if (as !== 'completed' || credential === undefined) return [resolved]
  const { ref: credentialRef, scopes } = credential
  return [{ type: 'connector.authorized', record, provider, credentialRef, scopes }, resolved]
}

/** Whether the run belongs to a recorded call, whose record describes everything else in it. */
function* isRecorded(run: string, record: string): Steps<boolean> {
  return run === record && (yield* get('callerOf', record)) !== undefined
}

const queries = {
  expireChallenge:
    "UPDATE challenges SET status = 'failed' WHERE need = ? AND status = 'pending' AND expires_at <= ?",
  openChallenge: "SELECT * FROM challenges WHERE need = ? AND status = 'pending'",
  insertChallenge: `INSERT INTO challenges (id, need, tenant, principal, user_id, provider, scopes, tool, status, created_at, expires_at, consent)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?)`,
  findChallenge: 'SELECT * FROM challenges WHERE id = ?',
  endChallenge: "UPDATE challenges SET status = ? WHERE id = ? AND status = 'pending'",
  deleteChallenges:
    'DELETE FROM challenges WHERE id IN (SELECT id FROM challenges WHERE expires_at < ? LIMIT ?)',
  insertConsent: `INSERT INTO consents (id, tenant, challenge, stage, browser, data_key, held, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  trimConsents: `DELETE FROM consents WHERE challenge = ? AND stage = ? AND no NOT IN
    (SELECT no FROM consents WHERE challenge = ? AND stage = ? ORDER BY no DESC LIMIT ?)`,
  findConsent: `SELECT c.*, k.wrapped FROM consents c LEFT JOIN vault_keys k ON k.no = c.data_key AND k.tenant = c.tenant
    WHERE c.id = ?`,
  takeConsent: 'DELETE FROM consents WHERE id = ?',
  deleteConsents: 'DELETE FROM consents WHERE expires_at < ?',
  deleteConsentsOfTenant: 'DELETE FROM consents WHERE tenant = ?',
  insertConsentRun: `INSERT INTO consent_runs (challenge, record, need, tenant, run, provider, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
  findConsentRun: 'SELECT run FROM consent_runs WHERE challenge = ? AND record = ?',
  consentRunsOf: 'SELECT * FROM consent_runs WHERE need = ?',
  expiredConsentRuns: 'SELECT * FROM consent_runs WHERE expires_at <= ? ORDER BY expires_at LIMIT 500',
  deleteConsentRun: 'DELETE FROM consent_runs WHERE challenge = ? AND record = ?',
} as const

/** A row of `consent_runs` is deleted once the end of the consent is in its run. */
const tables = `
CREATE TABLE challenges (
  id TEXT PRIMARY KEY,
  need TEXT NOT NULL,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  user_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  scopes TEXT NOT NULL,
  tool TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  consent INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX challenges_open ON challenges (need) WHERE status = 'pending';

CREATE TABLE consents (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  challenge TEXT NOT NULL,
  stage TEXT NOT NULL,
  browser TEXT NOT NULL,
  data_key INTEGER NOT NULL,
  held BLOB NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX consents_challenge ON consents (challenge, no);
CREATE INDEX consents_tenant ON consents (tenant);
CREATE INDEX consents_expiry ON consents (expires_at);

CREATE TABLE consent_runs (
  challenge TEXT NOT NULL,
  record TEXT NOT NULL,
  need TEXT NOT NULL,
  tenant TEXT NOT NULL,
  run TEXT NOT NULL,
  provider TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (challenge, record)
) STRICT, WITHOUT ROWID;

CREATE INDEX consent_runs_need ON consent_runs (need);
CREATE INDEX consent_runs_expiry ON consent_runs (expires_at);
`

export const consentModule: StoreModule = {
  name: 'consents',
  ...{ tables, queries },
  *forget({ nowMs, policy, limit }) {
    yield* write('deleteConsents', nowMs)
    return yield* write('deleteChallenges', nowMs - policy.resultsMs, limit)
  },
}
