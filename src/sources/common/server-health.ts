import type { SourceHealth } from '#core/ports/source'

/** How a server that we ask is, as its last answers tell. */
export class ServerHealth {
  #now: SourceHealth = { state: 'starting', reason: 'Its tools have not been read yet.' }

  get now(): SourceHealth {
    return this.#now
  }

  /** It answered. */
  ready(): void {
    this.#now = { state: 'ready' }
  }

  /** Its tools could not be read. */
  down(error: unknown): void {
    this.#now = { state: 'down', reason: reasonOf(error) }
  }

  /** A call found it out of reach; reading its tools will tell more. */
  degraded(error: unknown): void {
    this.#now = { state: 'degraded', reason: reasonOf(error) }
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'It cannot be asked.'
}
