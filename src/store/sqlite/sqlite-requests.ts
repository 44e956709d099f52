import { StoreError } from '#core/errors'
import { isJsonObject, type JsonValue } from '#core/json'
import type {
  BegunRequest,
  KeptReply,
  NewRequest,
  RequestAddress,
  RequestStore,
} from '#core/ports/protocol-store'
import { sealOnce, unseal } from '#store/keys/sealer'
import { bytes, text } from '#store/sql/row'
import type { StoreWays } from './key-changes.ts'

/** Requests with keys in the database that every process shares. */
export class SqliteRequests implements RequestStore {
  readonly #ways: StoreWays
  readonly #sealingKey: Buffer
  readonly #writer: () => string

  constructor(
    ways: StoreWays,
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
    const sealed = sealOnce(this.#sealingKey, Buffer.from(JSON.stringify(reply)), placeOf(to))
    await submit(`requests ${to.id}`, () =>
      database.run('answerRequest', sealed, expiresAtMs, to.tenant, to.id, this.#writer()),
    )
  }

  async release({ tenant, id }: RequestAddress): Promise<void> {
    const { database, submit } = this.#ways
    await submit(`requests ${id}`, () => database.run('releaseRequest', tenant, id, this.#writer()))
  }

  #unseal(sealed: Uint8Array, address: RequestAddress): KeptReply {
    const plain: JsonValue = JSON.parse(unseal(this.#sealingKey, sealed, placeOf(address)).toString('utf8'))
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
function placeOf({ tenant, id }: RequestAddress): string {
  return JSON.stringify(['request', tenant, id])
}
