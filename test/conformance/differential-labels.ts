/** Ids that the server makes up: of sessions, of runs, and of challenges inside their addresses. */
const MADE = /\b(?:ses|run)_[A-Za-z0-9_-]{22,}|(?<=\/challenges\/)[A-Za-z0-9_-]{22,}/g

/** Names for made-up ids in the order in which one way first shows them: equal ways have equal names. */
export class Labels {
  readonly #names = new Map<string, string>()
  #unnamed = 0

  /** Gives an id this name unless it has one. */
  suggest(id: string, name: string): void {
    if (!this.#names.has(id)) this.#names.set(id, name)
  }

  known(id: string): string | undefined {
    return this.#names.get(id)
  }

  of(id: string): string {
    const known = this.#names.get(id)
    if (known !== undefined) return known
    this.#unnamed += 1
    const name = `id ${this.#unnamed}`
    this.#names.set(id, name)
    return name
  }

  /** A copy with every made-up id replaced. */
  in<Value extends object>(value: Value): Value {
    const text = JSON.stringify(value)
    const named = (text.match(MADE) ?? []).reduce((rest, id) => rest.replaceAll(id, this.of(id)), text)
    return JSON.parse(named)
  }
}

/** Where ways were not asked the same, ids cannot be told apart by their order. */
export function withoutLabels<Value extends object>(value: Value): Value {
  return JSON.parse(JSON.stringify(value).replaceAll(/\bid \d+/g, 'an id'))
}
