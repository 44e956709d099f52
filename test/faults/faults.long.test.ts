import { describe, expect, it } from 'vitest'
import { findingsOf } from '../crash/crash-scenario.ts'
import { sized } from '../size.ts'
import { runFaultScenario } from './fault-scenario.ts'
import type { FaultName } from './faults.ts'

/** The same choices in every run; the timing of processes stays free. */
const SEED = process.env.COLLET_SEED === 'random' ? Date.now() % 1_000_000 : 20_261_116
const LIMIT_MS = sized(180_000, 3 * 3_600_000)
/** What a few seconds have time for; `npm run test:faults` brings all of them. */
const FEW: readonly FaultName[] = ['commit cut', 'connections dropped', 'database killed', 'network slow']

/**
 * Not in `npm test`: a commit that is cut while a session opens is answered with 404 or 500 instead of "come again", in one run of
 * four, and the judge takes "ended before it started" over MCP for an outcome.
 */
describe('three replicas of one database', () => {
  it('keep what docs/durable-call.md promises, whatever breaks (rules 5, 7, 8, 11, 15 to 20, 30, 31)', {
    timeout: LIMIT_MS,
  }, async () => {
    const isLong = sized(0, 1) === 1
    const result = await runFaultScenario({
      ...{ seed: SEED, replicas: 3 },
      ...(isLong ? {} : { only: FEW }),
      callers: isLong ? { calls: 32, sessions: 6, flows: 4 } : { calls: 6, sessions: 1, flows: 1 },
      plan: {
        ...{ calls: sized(60, 3_000), faults: sized(FEW.length, 44) },
        ...{ longShare: isLong ? 0.15 : 0, outageMs: sized(300, 3_000) },
      },
    })
    const { verdict, neighbours, journal, counts } = result
    expect(findingsOf(result), `seed ${SEED}`).toEqual([])
    expect(journal, `seed ${SEED}`).toMatchObject({ ok: true })
    // Silence of a run that met little means nothing.
    expect(verdict.effects).toBeGreaterThan(sized(30, 2_000))
    expect(neighbours.calls).toBeGreaterThan(0)
    expect(counts.size).toBeGreaterThanOrEqual(FEW.length)
  })
})
