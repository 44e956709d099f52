import { Histogram, type Registry } from 'prom-client'
import type { CallTallies, ToolTally } from './call-tallies.ts'

const NAME = 'collet_call_duration_seconds'
const HELP = 'Time from taking a call to its outcome, its commit included; replays are left out.'

interface Sample {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly sharedLabels: Readonly<Record<string, string>>
  readonly value: number
}

/** Durations by tool, rendered from tallies instead of collected by the library. */
export class DurationHistogram extends Histogram {
  readonly #tallies: CallTallies

  constructor(tallies: CallTallies, registry: Registry) {
    super({ name: NAME, help: HELP, registers: [registry] })
    this.#tallies = tallies
  }

  /** Where the registry, and the inherited `get`, take samples from; the library's types leave it out. */
  async getForPromString(): Promise<object> {
    const values = [...this.#tallies.entries()].flatMap(([tool, tally]) => this.#samplesOf(tool, tally))
    return { name: NAME, help: HELP, type: 'histogram', aggregator: 'sum', values }
  }

  #samplesOf(tool: string, tally: Readonly<ToolTally>): readonly Sample[] {
    const { buckets, count, sumSeconds } = tally
    const sharedLabels = { tool }
    let below = 0
    const cumulative = this.#tallies.bounds.map((le, place) => {
      below += buckets[place] ?? 0
      return { metricName: `${NAME}_bucket`, labels: { le }, sharedLabels, value: below }
    })
    return [
      ...cumulative,
      { metricName: `${NAME}_bucket`, labels: { le: '+Inf' }, sharedLabels, value: count },
      { metricName: `${NAME}_sum`, labels: {}, sharedLabels, value: sumSeconds },
      { metricName: `${NAME}_count`, labels: {}, sharedLabels, value: count },
    ]
  }
}
