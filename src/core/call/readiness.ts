import { StoreError } from '#core/store-error'

/** Whether new calls are taken. Earlier outcomes are answered even when not. */
export class Readiness {
  #draining = false
  #storeFailed = false
  readonly #onStoreFailure: () => void

  /** `onStoreFailure` is told once per failure, to start probing. */
  constructor(onStoreFailure: () => void) {
    this.#onStoreFailure = onStoreFailure
  }

  isReady(): boolean {
    return !this.#draining && !this.#storeFailed
  }

  drain(): void {
    this.#draining = true
  }

  /** After a store write error health is 503 and no new write starts, until a probe succeeds (rule 11). */
  noteStoreFailure(error: unknown): void {
    if (!(error instanceof StoreError) || error.code === 'unreadable' || this.#storeFailed) return
    this.#storeFailed = true
    this.#onStoreFailure()
  }

  noteStoreWorks(): void {
    this.#storeFailed = false
  }
}
