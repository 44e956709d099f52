/**
 * A map with a bound on its number of entries, or on the sum of their weights. Caches across the server use it.
 * When the bound is exceeded, the entries that were set first are dropped.
 */
export class BoundedMap<Key, Value> {
  readonly #entries = new Map<Key, { readonly value: Value; readonly weight: number }>()
  readonly #maxEntries: number
  readonly #maxWeight: number
  #weight = 0

  constructor(limits: { readonly entries?: number; readonly weight?: number }) {
    this.#maxEntries = limits.entries ?? Number.POSITIVE_INFINITY
    this.#maxWeight = limits.weight ?? Number.POSITIVE_INFINITY
  }

  get size(): number {
    return this.#entries.size
  }

  has(key: Key): boolean {
    return this.#entries.has(key)
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key)?.value
  }

  set(key: Key, value: Value, weight = 1): void {
    this.delete(key)
    this.#entries.set(key, { value, weight })
    this.#weight += weight
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#maxEntries && this.#weight <= this.#maxWeight) return
      this.delete(oldest)
    }
  }

  delete(key: Key): void {
    const entry = this.#entries.get(key)
    if (entry === undefined) return
    this.#weight -= entry.weight
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
    this.#weight = 0
  }
}
