import { fault, type ToolError } from '#core/errors'
import type { KeyStore } from '#core/ports/key-store'
import type { MaybePromise } from '#core/ports/store'
import type { Clock } from '#core/runtime'

/** Rule 26: how long what was verified counts after the last good read of the epoch. */
const LONGEST_TRUST_MS = 1_000
/** Read again from here on, so that one failed read is not yet an outage. */
const READ_AGAIN_MS = 500

/** The number that every change of a key raises, as last read, and what to do when it moves. */
export class KeyEpoch {
  readonly #keys: Pick<KeyStore, 'epoch'>
  readonly #clock: Clock
  readonly #onChange: () => void
  #epoch = 0
  /** When the last good read was sent, not when it was answered. */
  #readAtMs = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(keys: Pick<KeyStore, 'epoch'>, clock: Clock, onChange: () => void) {
    this.#keys = keys
    this.#clock = clock
    this.#onChange = onChange
  }

  /** As last read; 0 while there has never been a key. */
  get value(): number {
    return this.#epoch
  }

  /** Makes sure that the epoch is of this second; throws `not_ready` when it cannot be read. */
  refresh(): MaybePromise<void> {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#readAtMs < READ_AGAIN_MS) return
    if (this.#reading !== undefined) return this.#reading
    try {
      const read = this.#keys.epoch()
      if (!(read instanceof Promise)) return this.#take(read, nowMs)
      this.#reading = this.#await(read, nowMs)
      return this.#reading
    } catch (cause) {
      this.#failClosed(cause)
    }
  }

  async #await(read: Promise<number>, sentAtMs: number): Promise<void> {
    try {
      this.#take(await read, sentAtMs)
    } catch (cause) {
      this.#failClosed(cause)
    } finally {
      this.#reading = undefined
    }
  }

  #take(epoch: number, sentAtMs: number): void {
    this.#readAtMs = sentAtMs
    if (epoch === this.#epoch) return
    this.#epoch = epoch
    this.#onChange()
  }

  #failClosed(cause: unknown): void {
    if (this.#clock.monotonicMs() - this.#readAtMs < LONGEST_TRUST_MS) return
    throw keysUnknown(cause)
  }
}

export function keysUnknown(cause: unknown): ToolError {
  const message = 'API keys cannot be checked right now. Try again shortly.'
  return fault('not_ready', message, { retryAfterMs: 1_000, cause })
}
