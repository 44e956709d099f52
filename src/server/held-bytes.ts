import type { ToolError } from '#core/errors'
import { limitRefusal } from '#core/limits/limit-refusal'

const RETRY_MS = 1_000

/** Bytes of request bodies that this process holds: as they arrive, until their reply is made. */
export class HeldBytes {
  readonly #most: number
  readonly #onRefused: () => void
  #held = 0

  constructor(most: number, onRefused: () => void) {
    this.#most = most
    this.#onRefused = onRefused
  }

  open(): HeldBody {
    return new HeldBody(this)
  }

  /** What arrives is counted, not what is announced: a slow sender takes no room it does not use. */
  add(bytes: number): ToolError | undefined {
    if (this.#held + bytes > this.#most) {
      this.#onRefused()
      return limitRefusal('body_bytes', RETRY_MS)
    }
    this.#held += bytes
    return undefined
  }

  free(bytes: number): void {
    this.#held -= bytes
  }
}

/** One body's share. */
export class HeldBody {
  readonly #all: HeldBytes
  #bytes = 0

  constructor(all: HeldBytes) {
    this.#all = all
  }

  /** The refusal, if there is no room. */
  add(bytes: number): ToolError | undefined {
    const refusal = this.#all.add(bytes)
    if (refusal === undefined) this.#bytes += bytes
    return refusal
  }

  free(): void {
    this.#all.free(this.#bytes)
    this.#bytes = 0
  }
}
