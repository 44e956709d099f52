/** Ids that the server makes up: of sessions, of runs, and of challenges and approvals inside their addresses. */
const MADE = /\b(?:ses|run)_[A-Za-z0-9_-]{22,}|(?<=\/(?:challenges|approvals)\/)[A-Za-z0-9_-]{22,}/g

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
    // Each way has principals of its own, which a refusal names.
    const text = JSON.stringify(value).replaceAll(/key:[^"]*? (\d+)(?= may not act for)/g, 'key:caller $1')
    // An answer may have a run and a question, and ways show them in either order.
    const made = (text.match(MADE) ?? []).toSorted((left, right) => rank(left) - rank(right))
    const named = made.reduce((rest, id) => rest.replaceAll(id, this.of(id)), text)
    return JSON.parse(named)
  }
}

function rank(id: string): number {
  return id.startsWith('run_') ? 0 : 1
}

/** Where ways were not asked the same, ids cannot be told apart by their order. */
export function withoutLabels<Value extends object>(value: Value): Value {
  return JSON.parse(JSON.stringify(value).replaceAll(/\bid \d+/g, 'an id'))
}
