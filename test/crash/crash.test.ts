import { describe, expect, it } from 'vitest'
import { runCrashScenario } from './crash-scenario.ts'

const LIMIT_MS = 120_000

describe('a server that is killed', () => {
  it.each([
    { writers: 1, kills: 20 },
    { writers: 2, kills: 10 },
  ] as const)(
    'keeps its promises with $writers writer(s) on one file and $kills kills (rules 7, 8, 17)',
    { timeout: LIMIT_MS },
    async ({ writers, kills }) => {
      const seed = Date.now() % 1_000_000
      const { verdict, journal } = await runCrashScenario({ writers, kills, seconds: 0, seed })

      expect(verdict.findings, `seed ${seed}`).toEqual([])
      expect(journal, `seed ${seed}`).toMatchObject({ ok: true })
      expect(verdict.kills).toBe(kills)
      expect(verdict.acknowledged).toBeGreaterThan(kills)
    },
  )
})
