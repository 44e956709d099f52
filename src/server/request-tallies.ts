export interface RequestTally {
  readonly route: string
  readonly method: string
  readonly status: number
  count: number
}

/** Counts of answered requests in plain numbers, for the reason given at `CallTallies`. */
export class RequestTallies {
  readonly #byRoute = new Map<string, Map<string, Map<number, RequestTally>>>()
  readonly #all: RequestTally[] = []

  add(route: string, method: string, status: number): void {
    const known = this.#byRoute.get(route)?.get(method)?.get(status)
    if (known === undefined) this.#open(route, method, status)
    else known.count += 1
  }

  entries(): readonly Readonly<RequestTally>[] {
    return this.#all
  }

  #open(route: string, method: string, status: number): void {
    const tally = { route, method, status, count: 1 }
    this.#all.push(tally)
    const byMethod = this.#byRoute.get(route) ?? new Map<string, Map<number, RequestTally>>()
    const byStatus = byMethod.get(method) ?? new Map<number, RequestTally>()
    this.#byRoute.set(route, byMethod.set(method, byStatus.set(status, tally)))
  }
}
