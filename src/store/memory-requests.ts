import type {
  BegunRequest,
  KeptReply,
  NewRequest,
  RequestAddress,
  RequestStore,
} from '#core/ports/protocol-store'

interface Begun {
  readonly asked: string
  readonly expiresAtMs: number
  readonly reply: KeptReply | undefined
}

/** The memory store's requests: they hold for one process, which is their only writer. */
export class MemoryRequests implements RequestStore {
  readonly #requests = new Map<string, Begun>()
  readonly #writer: string

  constructor(writer: string) {
    this.#writer = writer
  }

  begin({ asked, expiresAtMs, insteadOf, ...address }: NewRequest): BegunRequest {
    const found = this.#requests.get(keyOf(address))
    if (found !== undefined && found.asked !== asked) return { kind: 'mismatch' }
    if (found?.reply !== undefined) return { kind: 'answered', reply: found.reply }
    if (found !== undefined && insteadOf !== this.#writer) return { kind: 'under_way', writer: this.#writer }
    this.#requests.set(keyOf(address), { asked, expiresAtMs, reply: undefined })
    return { kind: 'begun' }
  }

  answer(to: RequestAddress, reply: KeptReply, expiresAtMs: number): void {
    const found = this.#requests.get(keyOf(to))
    if (found === undefined || found.reply !== undefined) return
    this.#requests.set(keyOf(to), { ...found, reply, expiresAtMs })
  }

  release(address: RequestAddress): void {
    if (this.#requests.get(keyOf(address))?.reply === undefined) this.#requests.delete(keyOf(address))
  }

  forget(nowMs: number): void {
    for (const [key, { expiresAtMs }] of this.#requests) if (expiresAtMs < nowMs) this.#requests.delete(key)
  }
}

function keyOf({ tenant, id }: RequestAddress): string {
  return JSON.stringify([tenant, id])
}
