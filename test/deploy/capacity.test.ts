import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { firstToBreak, LOADS, MEASURED, needsOf, printModel } from '../../scripts/capacity.ts'

const page = readFileSync(new URL('../../docs/scale.md', import.meta.url), 'utf8')
const [, , billion] = LOADS

describe('docs/scale.md', () => {
  it('shows the output of the script', () => {
    expect(page).toContain(printModel(MEASURED, LOADS))
  })

  it('shows the input figures of the model', () => {
    expect(page).toContain(`WAL ${MEASURED.pureWal} bytes a call`)
    expect(page).toContain(`WAL ${MEASURED.writeWal} bytes a call`)
    expect(page).toContain(
      `${MEASURED.callBytes} bytes a call in calls and its indexes, ${MEASURED.resultBytes} in the journal`,
    )
    expect(page).toContain(`${MEASURED.serializedUs} µs a change`)
  })
})

describe('the model', () => {
  it('forms larger groups with fewer replicas, and needs fewer cores for them', () => {
    if (billion === undefined) throw new Error('no such load')
    const coresOf = (replicas: number) =>
      needsOf(MEASURED, { ...billion, replicas }).find(({ what }) => what.startsWith('cores for commits'))
        ?.needed ?? 0
    expect(coresOf(10)).toBeLessThan(coresOf(100) / 2)
  })

  it('lists the exceeded limits, worst first, and none for a small load', () => {
    const broken = LOADS.map((load) => firstToBreak(needsOf(MEASURED, load)))
    expect(broken[0]).toEqual([])
    const shares = (broken[2] ?? []).map(({ needed, max = Infinity }) => needed / max)
    expect(shares.length).toBeGreaterThan(0)
    expect(shares).toEqual(shares.toSorted((left, right) => right - left))
  })
})
