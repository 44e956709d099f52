import { Gauge, type Registry } from 'prom-client'
import type { SourceView } from '#core/imports/sources'

/** How sources are, asked at each scrape. */
export function addSourceMetrics(registry: Registry, read: () => readonly SourceView[]): void {
  const gauge = (name: string, help: string, measure: (source: SourceView) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ['source', 'type'],
      registers: [registry],
      collect() {
        this.reset()
        for (const source of read()) this.set({ source: source.key, type: source.type }, measure(source))
      },
    })
  }
  gauge('collet_source_up', 'Whether a source answers: 1, or 0 while it is down.', ({ state }) =>
    state === 'down' ? 0 : 1,
  )
  gauge('collet_source_tools', 'Tools of a source that agents can see.', ({ tools }) => tools)
  gauge('collet_source_waiting', 'Changed definitions that wait for an operator.', ({ waiting }) => waiting)
}
