import type { RunPosition } from '#core/journal/events'
import type { RunAddress, RunRecord } from '#core/ports/store'
import { opens, type RunEvent, type RunFact } from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

interface Run extends Mutable<RunRecord> {
  readonly events: RunEvent[]
}

/** The memory store's runs, with the same rules as any other's. */
export class MemoryRuns {
  readonly #runs = new Map<string, Run>()

  find({ tenant, run }: RunAddress): RunRecord | undefined {
    const found = this.#runs.get(run)
    if (found?.tenant !== tenant) return undefined
    const { events: _events, ...record } = found
    return record
  }

  read({ tenant, run }: RunAddress, after: number, limit: number): readonly RunEvent[] {
    const found = this.#runs.get(run)
    return found?.tenant === tenant ? found.events.slice(after + 1, after + 1 + limit) : []
  }

  /** Makes the run if it is new; `false` when it takes nothing any more. */
  open(place: RunAddress & { readonly principal: string }, atMs: number): boolean {
    const { tenant, run, principal } = place
    const found = this.#runs.get(run)
    if (found !== undefined) return !isRunEnded(found, atMs)
    const touchedAtMs = atMs
    this.#runs.set(run, { tenant, run, principal, open: 0, touchedAtMs, endedAtMs: undefined, events: [] })
    return true
  }

  append(run: string, fact: RunFact, atMs: number): RunPosition {
    const found = this.#runs.get(run)
    if (found === undefined) throw new Error(`run ${run} was not opened`)
    const sequence = found.events.length
    found.events.push({ ...fact, sequence, atMs })
    found.open += opens(fact)
    found.touchedAtMs = Math.max(found.touchedAtMs, atMs)
    return { run, sequence }
  }

  end(address: RunAddress, atMs: number): RunRecord | undefined {
    const found = this.#runs.get(address.run)
    if (found === undefined || found.tenant !== address.tenant || isRunEnded(found, atMs)) return undefined
    found.endedAtMs = atMs
    return found
  }

  remove(run: string): void {
    this.#runs.delete(run)
  }

  purge(beforeMs: number): void {
    for (const [key, run] of this.#runs) {
      if (run.open === 0 && run.touchedAtMs < beforeMs) this.#runs.delete(key)
    }
  }
}
