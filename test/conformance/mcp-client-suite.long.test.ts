import { describe, expect, it } from 'vitest'
import { runClientSuite, type SuiteResult } from '../interop/suite-run.ts'

const LIMIT_MS = 900_000

const sum = (result: SuiteResult) =>
  [...result.values()].reduce(
    (all, { passed, failed }) => ({ passed: all.passed + passed, failed: all.failed + failed }),
    { passed: 0, failed: 0 },
  )

describe('the official client suite, through the source and the broker', () => {
  it.each([
    { revision: '2025-06-18', scenarios: 2, checks: 3 },
    { revision: '2025-11-25', scenarios: 25, checks: 342 },
    { revision: '2026-07-28', scenarios: 39, checks: 474 },
  ] as const)(
    'MCP-07, MCP-22, MCP-48, MCP-73, MCP-76, MCP-95, MCP-163, MCP-164: $revision, every scenario, scored or not',
    async ({ revision, scenarios, checks }) => {
      const results = await runClientSuite(revision)
      expect([...results].filter(([, { failed }]) => failed > 0)).toEqual([])
      expect(results.size).toBeGreaterThanOrEqual(scenarios)
      expect(sum(results).passed).toBeGreaterThanOrEqual(checks)
    },
    LIMIT_MS,
  )
})
