/** A map that forgets what was set longest ago once it is full: of entries, or of their weights together. */
export class BoundedMap<Key, Value> {
  readonly #entries = new Map<Key, { readonly value: Value; readonly weight: number }>()
  readonly #most: number
  readonly #heaviest: number
  #weight = 0

  constructor(limits: { readonly entries?: number; readonly weight?: number }) {
    this.#most = limits.entries ?? Number.POSITIVE_INFINITY
    this.#heaviest = limits.weight ?? Number.POSITIVE_INFINITY
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
      if (this.#entries.size <= this.#most && this.#weight <= this.#heaviest) return
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
