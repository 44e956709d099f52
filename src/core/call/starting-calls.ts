/** A request that is on its way from the look-up to its answer. */
export class StartingCall {
  readonly #leave: () => void
  #ended: PromiseWithResolvers<void> | undefined

  constructor(leave: () => void) {
    this.#leave = leave
  }

  get ended(): Promise<void> {
    this.#ended ??= Promise.withResolvers<void>()
    return this.#ended.promise
  }

  end(): void {
    this.#leave()
    this.#ended?.resolve()
  }
}

/** The first of several requests with one key, from before it runs: the others may wait for it instead of being refused. */
export class StartingCalls {
  readonly #byRecord = new Map<string, StartingCall>()

  /** `undefined` when there is a first one already. */
  begin(record: string): StartingCall | undefined {
    if (this.#byRecord.has(record)) return undefined
    const starting = new StartingCall(() => this.#byRecord.delete(record))
    this.#byRecord.set(record, starting)
    return starting
  }

  get(record: string): StartingCall | undefined {
    return this.#byRecord.get(record)
  }
}
