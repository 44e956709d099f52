import { describe, expect, it } from 'vitest'
import { findingsOf } from '../crash/crash-scenario.ts'
import { sized } from '../size.ts'
import { runFaultScenario } from './fault-scenario.ts'
import { FAULT_NAMES, type FaultName } from './faults.ts'

/** All runs make the same random choices; the timing of processes varies. */
const SEED = process.env.COLLET_SEED === 'random' ? Date.now() % 1_000_000 : 20_261_116
const LIMIT_MS = sized(180_000, 3 * 3_600_000)
/** Faults that cost a lease or several starts, which takes longer than a short run. */
const SLOW: ReadonlySet<FaultName> = new Set(['replica killed', 'rolling restart', 'disk full'])
const QUICK = FAULT_NAMES.filter((name) => !SLOW.has(name))

describe('three replicas of one database', () => {
  it('keep the promises of docs/internals/durable-call.md despite all faults (rules 5, 7, 8, 11, 15 to 20, 30, 31)', {
    timeout: LIMIT_MS,
  }, async () => {
    const isLong = sized(0, 1) === 1
    const result = await runFaultScenario({
      ...{ seed: SEED, replicas: 3 },
      ...(isLong ? {} : { only: QUICK }),
      callers: isLong ? { calls: 32, sessions: 6, flows: 4 } : { calls: 6, sessions: 1, flows: 1 },
      plan: {
        ...{ calls: sized(60, 3_000), faults: sized(QUICK.length, 44) },
        ...{ longShare: isLong ? 0.15 : 0, outageMs: sized(300, 3_000) },
      },
    })
    const { verdict, neighbours, journal, counts } = result
    expect(findingsOf(result), `seed ${SEED}`).toEqual([])
    expect(journal, `seed ${SEED}`).toMatchObject({ ok: true })
    // A run with few events proves nothing.
    expect(verdict.effects).toBeGreaterThan(sized(30, 2_000))
    expect(neighbours.calls).toBeGreaterThan(0)
    expect(counts.size).toBeGreaterThanOrEqual(QUICK.length)
  })
})
