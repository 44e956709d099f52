import type { ChallengeNeed, ChallengeRecord, NewChallenge } from '#core/ports/store'
import {
  type AskedConsent,
  CONSENT_STAGES,
  type Consent,
  type ConsentEnd,
  type ConsentRunStore,
  type ConsentStore,
} from '#core/ports/vault-store'
import { askedConsentFacts, type CallLabel, endedConsentFacts } from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import { Secret } from '#core/secret'
import { type Database, storeErrorOf } from '#store/sqlite/database'
import type { CommitQueue } from './commit-queue.ts'
import type { CommitGroup } from './engine.ts'
import { boundText, callerToText, integer, text, word } from './rows.ts'
import type { RunChanges } from './runs.ts'
import type { Row } from './steps.ts'
import type { VaultParts, VaultSealer } from './vault.ts'

const STATUSES = ['pending', 'completed', 'failed'] as const

/** Rule 22: the unique index on open needs makes sure that there is one. */
export function openChallenge(
  database: Database,
  group: CommitGroup,
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
  group: CommitGroup,
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

/** Consents under way, in SQLite: any process may take the one that another began. */
export class SqliteConsents implements ConsentStore {
  readonly runs: SqliteConsentRuns
  readonly #database: Database
  readonly #queue: CommitQueue
  readonly #sealer: VaultSealer

  constructor({ database, queue, sealer, runs }: VaultParts & ConsentRunsParts) {
    this.runs = new SqliteConsentRuns({ database, queue, runs })
    this.#database = database
    this.#queue = queue
    this.#sealer = sealer
  }

  async begin(consent: Consent, most: number): Promise<void> {
    const { id, tenant, challenge, stage, browser, held, expiresAtMs } = consent
    this.#sealer.checkKey(tenant)
    await this.#queue.submit(id, () => {
      const key = this.#sealer.keyOf(tenant, expiresAtMs)
      const sealed = this.#sealer.seal(key, held.reveal(), placeOf(consent))
      this.#database.run('insertConsent', id, tenant, challenge, stage, browser, key.no, sealed, expiresAtMs)
      this.#database.run('trimConsents', challenge, stage, challenge, stage, most)
    })
  }

  find(id: string): Consent | undefined {
    try {
      const row = this.#database.get('findConsent', id)
      return row === undefined ? undefined : this.#consentOf(row)
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the consents')
    }
  }

  take(id: string): Promise<boolean> {
    return this.#queue.submit(id, () => this.#database.run('takeConsent', id) > 0)
  }

  async purge(nowMs: number): Promise<void> {
    await this.#queue.submit('', () => this.#database.run('deleteConsents', nowMs))
  }

  #consentOf(row: Row): Consent {
    const facts = {
      id: text(row, 'id'),
      tenant: text(row, 'tenant'),
      challenge: text(row, 'challenge'),
      stage: word(row, 'stage', CONSENT_STAGES),
      browser: text(row, 'browser'),
      expiresAtMs: integer(row, 'expires_at'),
    }
    const at = { tenant: facts.tenant, place: placeOf(facts) }
    return { ...facts, held: new Secret(this.#sealer.unseal(row, 'held', at)) }
  }
}

function placeOf({ id, tenant, challenge, stage, browser }: Omit<Consent, 'held'>): readonly string[] {
  return ['consent', id, tenant, challenge, stage, browser]
}

/** Stored events take their label from the caller text they point to. */
const IN_CALLER_TEXT: CallLabel = { callId: '', toolId: '', transport: 'native', argsHash: '', traceId: '' }

export interface ConsentRunsParts {
  readonly database: Database
  readonly queue: CommitQueue
  readonly runs: RunChanges
}

/** What runs tell of consents, in SQLite: whichever process ends one, every run that waits for it hears. */
export class SqliteConsentRuns implements ConsentRunStore {
  readonly #database: Database
  readonly #queue: CommitQueue
  readonly #runs: RunChanges

  constructor({ database, queue, runs }: ConsentRunsParts) {
    this.#database = database
    this.#queue = queue
    this.#runs = runs
  }

  isTold(challenge: string, record: string): boolean {
    return this.#read(() => this.#database.get('findConsentRun', challenge, record)) !== undefined
  }

  tell(asked: AskedConsent): Promise<boolean> {
    return this.#queue.submit(asked.record, (group) => this.#tell(group, asked))
  }

  async resolve(need: ChallengeNeed, end: ConsentEnd): Promise<readonly string[]> {
    const key = challengeKey(need)
    if (this.#read(() => this.#database.get('consentRunsOf', key)) === undefined) return []
    return await this.#queue.submit(key, () => this.#end(this.#database.all('consentRunsOf', key), end))
  }

  async expire(nowMs: number): Promise<readonly string[]> {
    if (this.#read(() => this.#database.get('expiredConsentRuns', nowMs)) === undefined) return []
    const end = { as: 'failed', reason: 'timeout', atMs: nowMs } as const
    return await this.#queue.submit('', () => this.#end(this.#database.all('expiredConsentRuns', nowMs), end))
  }

  #tell(group: CommitGroup, asked: AskedConsent): boolean {
    const { tenant, record, principal, place, challenge, need, expiresAtMs, atMs } = asked
    if (this.#isRecorded(place.run, record) || !this.#runs.open(place, atMs)) return false
    const { provider } = need
    const row = [challenge, record, challengeKey(need), tenant, place.run, provider, expiresAtMs]
    if (this.#database.run('insertConsentRun', ...row) === 0) return true
    const caller = group.addCaller(boundText(record, callerToText(asked)))
    const [position] = askedConsentFacts(asked, IN_CALLER_TEXT).map((fact) =>
      this.#runs.append(place.run, { fact, caller, atMs }),
    )
    group.append({ type: 'challenge.asked', at: atMs, challenge, tenant, principal, provider, ...position })
    return true
  }

  #end(rows: readonly Row[], { atMs, ...end }: ConsentEnd): readonly string[] {
    const told = new Set<string>()
    for (const row of rows) {
      const waiting = {
        record: text(row, 'record'),
        challenge: text(row, 'challenge'),
        provider: text(row, 'provider'),
      }
      this.#database.run('deleteConsentRun', waiting.challenge, waiting.record)
      const run = text(row, 'run')
      const found = this.#runs.find({ tenant: text(row, 'tenant'), run })
      if (found === undefined || isRunEnded(found, atMs) || this.#isRecorded(run, waiting.record)) continue
      for (const fact of endedConsentFacts(waiting, end))
        this.#runs.append(run, { fact, caller: undefined, atMs })
      told.add(run)
    }
    return [...told]
  }

  /** Whether the run is one of a call whose record tells the rest of it: nothing comes between. */
  #isRecorded(run: string, record: string): boolean {
    return run === record && this.#database.get('callerOf', record) !== undefined
  }

  #read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the consents')
    }
  }
}

/** What makes two challenges the same need (rule 22). */
export function challengeKey(need: ChallengeNeed): string {
  const { tenant, principal, user, provider, scopes } = need
  return JSON.stringify([tenant, principal, user, provider, scopes])
}
