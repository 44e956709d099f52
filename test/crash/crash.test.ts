import { describe, expect, it } from 'vitest'
import { sized } from '../size.ts'
import { findingsOf, runCrashScenario } from './crash-scenario.ts'

const LIMIT_MS = sized(300_000, 3_600_000)
const KILLS = sized(5, 40)
/** Minimum numbers of events per scenario: a run without findings proves nothing below them. */
const FLOORS = {
  ...{ kills: KILLS, effects: 25 * KILLS, acknowledged: 25 * KILLS },
  ...{ sessions: 2 * KILLS, events: 50 * KILLS, used: 2 * KILLS, flows: KILLS },
}

/** All runs make the same random choices; the timing of processes varies. */
const SEED = process.env.COLLET_SEED === 'random' ? Date.now() % 1_000_000 : 20_261_116

describe('a server that is killed', () => {
  it.each([1, 2] as const)(
    'keeps its promises with %i writer(s) on one file (rules 7, 8, 16, 17, 20, 30, 31; OWP-41, OWP-98, OWP-99)',
    { timeout: LIMIT_MS },
    async (writers) => {
      const result = await runCrashScenario({ writers, kills: KILLS, seconds: 0, seed: SEED })
      const { verdict, sessions, runs, approvals, flows, journal } = result

      expect(findingsOf(result), `seed ${SEED}`).toEqual([])
      expect(journal, `seed ${SEED}`).toMatchObject({ ok: true })
      const met = {
        ...{ kills: verdict.kills, effects: verdict.effects, acknowledged: verdict.acknowledged },
        ...{ sessions: sessions.sessions, events: runs.events, used: approvals.used, flows: flows.flows },
      }
      for (const [what, floor] of Object.entries(FLOORS)) {
        expect(Object.entries(met).find(([name]) => name === what)?.[1], what).toBeGreaterThanOrEqual(floor)
      }
    },
  )
})
