/** The keys under which one run is counted; what is `undefined` is not limited. */
export interface SlotKeys {
  readonly principal: string | undefined
  readonly tool: string | undefined
  /** Of a principal with a tool. */
  readonly pair: string | undefined
}

/** How many runs hold a place, by key. What nobody holds is forgotten, so it is as small as what runs. */
export class Places {
  readonly #taken = new Map<string, number>()

  taken(key: string | undefined): number {
    return key === undefined ? 0 : (this.#taken.get(key) ?? 0)
  }

  take(key: string): void {
    this.#taken.set(key, this.taken(key) + 1)
  }

  free(key: string): void {
    const left = this.taken(key) - 1
    if (left > 0) this.#taken.set(key, left)
    else this.#taken.delete(key)
  }
}

/** The places that runs take, until they have settled. */
export class RunningSlots {
  readonly principals = new Places()
  readonly tools = new Places()
  readonly pairs = new Places()

  enter(keys: SlotKeys): Slot {
    if (keys.principal !== undefined) this.principals.take(keys.principal)
    if (keys.tool !== undefined) this.tools.take(keys.tool)
    if (keys.pair !== undefined) this.pairs.take(keys.pair)
    return new Slot(this, keys)
  }

  free(keys: SlotKeys): void {
    if (keys.principal !== undefined) this.principals.free(keys.principal)
    if (keys.tool !== undefined) this.tools.free(keys.tool)
    if (keys.pair !== undefined) this.pairs.free(keys.pair)
  }
}

/** The places of one run. */
export class Slot {
  readonly #slots: RunningSlots | undefined
  readonly #keys: SlotKeys
  #isExtended = false

  constructor(slots: RunningSlots | undefined, keys: SlotKeys) {
    this.#slots = slots
    this.#keys = keys
  }

  /** Ended but not settled: the places stay taken until it has (rule 10). */
  extend(settled: Promise<unknown>): void {
    this.#isExtended = true
    const free = () => this.#slots?.free(this.#keys)
    settled.then(free, free)
  }

  leave(): void {
    if (!this.#isExtended) this.#slots?.free(this.#keys)
  }
}

const NO_KEYS: SlotKeys = { principal: undefined, tool: undefined, pair: undefined }

/** Of a run that nothing counts; of its own, because it may be extended. */
export function freeSlot(): Slot {
  return new Slot(undefined, NO_KEYS)
}
