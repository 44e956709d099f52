import type { Principal } from '#core/principal'

/** Streams one principal may hold open, whatever their revision (MCP-47). */
export const MOST_STREAMS = 100

/** Counts the streams of news that each principal holds open: nobody may take all connections of the server. */
export class OpenStreams {
  readonly #open = new Map<string, number>()

  isFull(principal: Principal): boolean {
    return this.#count(keyOf(principal)) >= MOST_STREAMS
  }

  /** A place for one more stream, to be given back; `undefined` when there is none. */
  take(principal: Principal): (() => void) | undefined {
    if (this.isFull(principal)) return undefined
    const key = keyOf(principal)
    this.#open.set(key, this.#count(key) + 1)
    return () => {
      const left = this.#count(key) - 1
      if (left > 0) this.#open.set(key, left)
      else this.#open.delete(key)
    }
  }

  #count(key: string): number {
    return this.#open.get(key) ?? 0
  }
}

function keyOf({ tenant, id }: Principal): string {
  return JSON.stringify([tenant, id])
}
