import { StoreError } from '#core/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { grantOf, isNothing, NOTHING, perUnit } from '#core/limits/budgets'
import type {
  BegunRequest,
  BudgetStore,
  BudgetWindow,
  CallerRequest,
  CallerSession,
  IdempotentRequestStore,
  KeptReply,
  NewQuestion,
  NewRequest,
  OpenQuestion,
  ProtocolSessionStore,
  QuestionAddress,
  RequestAddress,
  SessionRoom,
  Spending,
} from '#core/ports/protocol-store'
import { type Database, storeErrorOf } from '#store/sqlite/database'
import type { CommitQueue } from './commit-queue.ts'
import { sealOnce, unseal } from './encryption.ts'
import type { StoreContext } from './keys.ts'
import { bytes, integer, text } from './rows.ts'
import type { Row } from './steps.ts'
import type { VaultParts, VaultSealer } from './vault.ts'

/** Budgets in the database that every process shares: each lease is one step of a transaction, with no journal event. */
export class SqliteBudgets implements BudgetStore {
  readonly #database: Database
  readonly #queue: CommitQueue

  constructor(database: Database, queue: CommitQueue) {
    this.#database = database
    this.#queue = queue
  }

  /** A lease that grants nothing writes nothing. */
  lease(window: BudgetWindow, wanted: Spending, limit: Spending): Promise<Spending> {
    return this.#queue.submit('', () => {
      const granted = grantOf(wanted, limit, this.read(window))
      if (isNothing(granted)) return granted
      this.#database.run('openBudget', ...windowColumns(window))
      this.#add(window, granted)
      return granted
    })
  }

  giveBack(window: BudgetWindow, unspent: Spending): Promise<void> {
    return this.#queue.submit('', () =>
      this.#add(
        window,
        perUnit((unit) => 0 - unspent[unit]),
      ),
    )
  }

  read(window: BudgetWindow): Spending {
    const row = this.#database.get('findBudget', ...windowColumns(window))
    if (row === undefined) return NOTHING
    return {
      calls: integer(row, 'calls'),
      milliseconds: integer(row, 'milliseconds'),
      cost: integer(row, 'cost'),
    }
  }

  #add(window: BudgetWindow, { calls, milliseconds, cost }: Spending): void {
    this.#database.run('changeBudget', calls, milliseconds, cost, ...windowColumns(window))
  }
}

/** How long a window that is over is kept: clocks of several machines differ, by less than this. */
export const BUDGETS_KEPT_MS = 86_400_000

/** No principal's id is empty. */
const WHOLE_TENANT = ''

/** The columns that name a window, in the order of every query. */
export function windowColumns(window: BudgetWindow): readonly [string, string, number, number] {
  const { tenant, principal = WHOLE_TENANT, lengthMs, startMs } = window
  return [tenant, principal, lengthMs, startMs + lengthMs]
}

/** Requests with keys in the database that every process shares. */
export class SqliteRequests implements IdempotentRequestStore {
  readonly #ways: StoreContext
  readonly #sealingKey: Buffer
  readonly #writer: () => string

  constructor(
    ways: StoreContext,
    { sealingKey, writer }: { readonly sealingKey: Buffer; readonly writer: () => string },
  ) {
    this.#ways = ways
    this.#sealingKey = sealingKey
    this.#writer = writer
  }

  async begin({ tenant, id, asked, expiresAtMs, insteadOf }: NewRequest): Promise<BegunRequest> {
    const { database, submit } = this.#ways
    const begun = await submit(`requests ${id}`, () => {
      const row = database.get('findRequest', tenant, id)
      if (row !== undefined && text(row, 'asked') !== asked) return { kind: 'mismatch' as const }
      if (row !== undefined && row.reply !== null)
        return { kind: 'answered' as const, sealed: bytes(row, 'reply') }
      const writer = row === undefined ? undefined : text(row, 'writer')
      if (writer !== undefined && writer !== insteadOf) return { kind: 'under_way' as const, writer }
      database.run('beginRequest', tenant, id, asked, this.#writer(), expiresAtMs)
      return { kind: 'begun' as const }
    })
    // An unreadable answer is the trouble of who asks for it, not of all who are committed together.
    return begun.kind === 'answered'
      ? { kind: 'answered', reply: this.#unseal(begun.sealed, { tenant, id }) }
      : begun
  }

  async answer(to: RequestAddress, reply: KeptReply, expiresAtMs: number): Promise<void> {
    const { database, submit } = this.#ways
    const sealed = sealOnce(this.#sealingKey, Buffer.from(JSON.stringify(reply)), placeOfInSqliteRequests(to))
    await submit(`requests ${to.id}`, () =>
      database.run('answerRequest', sealed, expiresAtMs, to.tenant, to.id, this.#writer()),
    )
  }

  async release({ tenant, id }: RequestAddress): Promise<void> {
    const { database, submit } = this.#ways
    await submit(`requests ${id}`, () => database.run('releaseRequest', tenant, id, this.#writer()))
  }

  #unseal(sealed: Uint8Array, address: RequestAddress): KeptReply {
    const plain: JsonValue = JSON.parse(
      unseal(this.#sealingKey, sealed, placeOfInSqliteRequests(address)).toString('utf8'),
    )
    if (isJsonObject(plain) && typeof plain.status === 'number' && isJsonObject(plain.headers)) {
      const { status, body } = plain
      const headers = Object.fromEntries(
        Object.entries(plain.headers).map(([name, value]) => [name, String(value)]),
      )
      return { status, headers, body: typeof body === 'string' ? body : undefined }
    }
    throw new StoreError('unreadable', 'a kept answer is none')
  }
}

/** Bound to its request: an answer cannot be moved to another one. */
function placeOfInSqliteRequests({ tenant, id }: RequestAddress): string {
  return JSON.stringify(['request', tenant, id])
}

/** Callers in the database that every process shares. */
export class SqliteCallers implements ProtocolSessionStore {
  readonly #database: Database
  readonly #queue: CommitQueue
  readonly #sealer: VaultSealer
  /** Keyed one-way digest: call ids are callers' text (rule 15). */
  readonly #digest: (plain: string) => string

  constructor({ database, queue, sealer }: VaultParts, digest: (plain: string) => string) {
    this.#database = database
    this.#queue = queue
    this.#sealer = sealer
    this.#digest = digest
  }

  openSession(session: CallerSession, room?: SessionRoom): Promise<boolean> {
    const { tenant, id, principal, agreed, touchedAtMs } = session
    return this.#submit(() => {
      if (room !== undefined && !this.#makeRoom(session, room)) return false
      this.#database.run('openCallerSession', tenant, id, principal, JSON.stringify(agreed), touchedAtMs)
      return true
    })
  }

  #makeRoom({ tenant, principal }: CallerSession, { most, idleBeforeMs }: SessionRoom): boolean {
    const own = this.#database.all('callerSessionsOf', tenant, principal)
    const [oldest] = own
    if (own.length < most || oldest === undefined) return true
    if (integer(oldest, 'touched_at') >= idleBeforeMs) return false
    return this.#database.run('endCallerSession', tenant, text(oldest, 'id')) > 0
  }

  findSession(tenant: string, id: string): CallerSession | undefined {
    const row = this.#get(() => this.#database.get('findCallerSession', tenant, id))
    if (row === undefined) return undefined
    return {
      tenant,
      id,
      principal: text(row, 'principal'),
      agreed: objectOf(text(row, 'agreed')),
      touchedAtMs: integer(row, 'touched_at'),
    }
  }

  async touchSession(tenant: string, id: string, atMs: number): Promise<void> {
    await this.#submit(() => this.#database.run('touchCallerSession', atMs, tenant, id))
  }

  endSession(tenant: string, id: string): Promise<boolean> {
    return this.#submit(() => this.#database.run('endCallerSession', tenant, id) > 0)
  }

  async beginRequest({ tenant, session, requestId }: CallerRequest, atMs: number): Promise<void> {
    const request = this.#digest(requestId)
    await this.#submit(() => this.#database.run('beginCallerRequest', tenant, session, request, atMs))
  }

  cancelRequest({ tenant, session, requestId }: CallerRequest): Promise<boolean> {
    const request = this.#digest(requestId)
    return this.#submit(() => this.#database.run('cancelCallerRequest', tenant, session, request) > 0)
  }

  isCancelled({ tenant, session, requestId }: CallerRequest): boolean {
    const request = this.#digest(requestId)
    const row = this.#get(() => this.#database.get('findCallerRequest', tenant, session, request))
    return row !== undefined && integer(row, 'cancelled') === 1
  }

  async endRequest({ tenant, session, requestId }: CallerRequest): Promise<void> {
    const request = this.#digest(requestId)
    await this.#submit(() => this.#database.run('endCallerRequest', tenant, session, request))
  }

  async ask({ tenant, id, principal, callId, question, expiresAtMs }: NewQuestion): Promise<void> {
    this.#sealer.checkKey(tenant)
    await this.#submit(() => {
      const key = this.#sealer.keyOf(tenant, expiresAtMs)
      const sealed = this.#sealer.seal(key, JSON.stringify(question), placeOf('question', { tenant, id }))
      const call = this.#digest(callId)
      this.#database.run('askCaller', tenant, id, principal, call, key.no, sealed, expiresAtMs)
    })
  }

  /** Under the key of its question. */
  answer(to: QuestionAddress, principal: string, answer: JsonObject): Promise<boolean> {
    return this.#submit(() => {
      const row = this.#database.get('findQuestion', to.tenant, to.id)
      if (row === undefined) return false
      const sealed = this.#sealer.sealBeside(row, JSON.stringify(answer), {
        tenant: to.tenant,
        place: placeOf('answer', to),
      })
      return this.#database.run('answerQuestion', sealed, to.tenant, to.id, principal) > 0
    })
  }

  findAnswer(to: QuestionAddress): JsonObject | undefined {
    return this.#get(() => {
      const row = this.#database.get('findQuestion', to.tenant, to.id)
      return row === undefined || row.answer === null ? undefined : this.#unseal(row, 'answer', to)
    })
  }

  openQuestions(tenant: string, principal: string, callId: string): readonly OpenQuestion[] {
    return this.#get(() =>
      this.#database.all('openQuestions', tenant, this.#digest(callId), principal).map((row) => {
        const address = { tenant, id: text(row, 'id') }
        return { ...address, question: this.#unseal(row, 'question', address) }
      }),
    )
  }

  async endQuestion({ tenant, id }: QuestionAddress): Promise<void> {
    await this.#submit(() => this.#database.run('endQuestion', tenant, id))
  }

  spend(tenant: string, mark: string, expiresAtMs: number): Promise<boolean> {
    return this.#submit(() => this.#database.run('spendMark', tenant, mark, expiresAtMs) > 0)
  }

  #unseal(row: Row, column: 'question' | 'answer', address: QuestionAddress): JsonObject {
    const at = { tenant: address.tenant, place: placeOf(column, address) }
    return objectOf(this.#sealer.unseal(row, column, at))
  }

  #submit<T>(apply: () => T): Promise<T> {
    return this.#queue.submit('', apply)
  }

  #get<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the callers')
    }
  }
}

function placeOf(what: 'question' | 'answer', { tenant, id }: QuestionAddress): readonly string[] {
  return ['caller', what, tenant, id]
}

function objectOf(json: string): JsonObject {
  const value: JsonValue = JSON.parse(json)
  return isJsonObject(value) ? value : {}
}
