const MOST_WARNINGS = 100
const MOST_NAMES = 10

/** What the operator should know, each thing once and never without end. */
export class Warnings {
  readonly #texts = new Set<string>()
  readonly #leftOut = new Map<string, string[]>()

  add(text: string): void {
    this.#texts.add(text)
  }

  /** Tools left out for the same reason share a line. */
  leaveOut(nativeName: string, problem: string): void {
    const names = this.#leftOut.get(problem)
    if (names === undefined) this.#leftOut.set(problem, [nativeName])
    else names.push(nativeName)
  }

  list(): readonly string[] {
    const left = [...this.#leftOut].map(([problem, names]) => {
      const shown = names.slice(0, MOST_NAMES).join(', ')
      const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : ''
      return `Left out because ${problem}: ${shown}${more}.`
    })
    const all = [...left, ...this.#texts]
    if (all.length <= MOST_WARNINGS) return all
    return [...all.slice(0, MOST_WARNINGS), `And ${all.length - MOST_WARNINGS} warnings more.`]
  }
}
