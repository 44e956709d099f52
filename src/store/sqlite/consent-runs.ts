import type { ChallengeNeed } from '#core/ports/store'
import type { AskedConsent, ConsentEnd, ConsentRunStore } from '#core/ports/vault-store'
import { askedConsentFacts, type CallLabel, endedConsentFacts } from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import { challengeKey } from '#store/challenge-key'
import { boundText, callerToText } from '#store/sql/call-row'
import type { GroupQueue } from '#store/sql/group-queue'
import type { OpenGroup } from '#store/sql/open-group'
import { type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'
import type { RunChanges } from './run-changes.ts'
import { storeErrorOf } from './sqlite-errors.ts'

/** Stored events take their label from the caller text they point to. */
const IN_CALLER_TEXT: CallLabel = { callId: '', toolId: '', transport: 'native', argsHash: '', traceId: '' }

export interface ConsentRunsParts {
  readonly database: Database
  readonly queue: GroupQueue
  readonly runs: RunChanges
}

/** What runs tell of consents, in SQLite: whichever process ends one, every run that waits for it hears. */
export class SqliteConsentRuns implements ConsentRunStore {
  readonly #database: Database
  readonly #queue: GroupQueue
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

  #tell(group: OpenGroup, asked: AskedConsent): boolean {
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
