import { describe, expect, it } from 'vitest'
import { findingsOf, runCrashScenario } from './crash-scenario.ts'

const LIMIT_MS = 120_000

describe('a server that is killed', () => {
  it.each([
    { writers: 1, kills: 5 },
    { writers: 2, kills: 3 },
  ] as const)(
    'keeps its promises with $writers writer(s) on one file and $kills kills (rules 7, 8, 16, 17, 20, 30, 31; OWP-41, OWP-98, OWP-99)',
    { timeout: LIMIT_MS },
    async ({ writers, kills }) => {
      const seed = Date.now() % 1_000_000
      const result = await runCrashScenario({ writers, kills, seconds: 0, seed })
      const { verdict, sessions, runs, approvals, flows, journal } = result

      expect(findingsOf(result), `seed ${seed}`).toEqual([])
      expect(journal, `seed ${seed}`).toMatchObject({ ok: true })
      expect(verdict.kills).toBe(kills)
      expect(verdict.acknowledged).toBeGreaterThan(0)
      expect(sessions.sessions).toBeGreaterThan(0)
      expect(runs.events).toBeGreaterThan(0)
      expect(approvals.used).toBeGreaterThan(0)
      expect(flows.flows).toBeGreaterThan(0)
    },
  )
})
