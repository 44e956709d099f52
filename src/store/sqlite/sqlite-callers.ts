import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type {
  CallerRequest,
  CallerSession,
  CallerStore,
  NewQuestion,
  OpenQuestion,
  QuestionAddress,
  SessionRoom,
} from '#core/ports/protocol-store'
import type { GroupQueue } from '#store/sql/group-queue'
import { integer, type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'
import { storeErrorOf } from './sqlite-errors.ts'
import type { VaultParts } from './vault-entries.ts'
import type { VaultSealer } from './vault-sealer.ts'

/** Callers in the database that every process shares. */
export class SqliteCallers implements CallerStore {
  readonly #database: Database
  readonly #queue: GroupQueue
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
