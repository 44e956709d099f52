import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createMetrics } from '#server/telemetry/metrics'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

/** The names in the first column of the table below a heading. */
function listedUnder(heading: string, page: string): string[] {
  const [, part = ''] = read(page).split(`### ${heading}\n`)
  const [own = ''] = part.split(/^##/m)
  const rows = own.split('\n').filter((line) => line.startsWith('| `'))
  return rows.flatMap((row) =>
    [...(row.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
  )
}

describe('lists that operators rely on', () => {
  it('docs/cli.md lists every event of the journal, and no others', () => {
    const source = read('src/kernel/journal/events.ts')
    const types = [...source.matchAll(/'([a-z_]+\.[a-z_]+)'/g)].map(([, type = '']) => type)
    expect(types.length).toBeGreaterThan(40)
    expect(listedUnder('The events of the journal', 'docs/cli.md').toSorted()).toEqual(types.toSorted())
  })

  it('docs/operations.md lists every metric, and no others', async () => {
    const metrics = createMetrics()
    metrics.follow({ certificateEndsAtMs: () => 0 })
    const { text } = await metrics.render()
    const names = [...text.matchAll(/^# TYPE (collet_\w+) /gm)].map(([, name = '']) => name)
    expect(listedUnder('Every metric', 'docs/operations.md').toSorted()).toEqual(names.toSorted())
  })
})
