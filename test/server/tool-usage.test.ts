import { describe, expect, it } from 'vitest'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { LiveRegistry } from '#kernel/tool/catalog'
import { openToolSearch } from '#search/tool-search'
import { createLocalAccess } from '#server/admin/access'
import { callInProcess } from '#server/admin/in-process-client'
import { createToolRoutes } from '#server/admin/tools'
import type { UsageQuery, UsageRow } from '#store/operator-views'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { TOOLS } from './principals-server.ts'

describe('calls of a tool over time', () => {
  const HOUR_MS = 3_600_000
  const asked: UsageQuery[] = []
  const row = { tenant: 'default', principal: 'key:ann', tool: 'Open.Say@1.0.0', isWithdrawn: false }
  const registry = new LiveRegistry(TOOLS, new Map())
  const clock = { nowMs: () => 500 * HOUR_MS, monotonicMs: () => 0 }
  const catalogFor = registry.catalogFor.bind(registry)
  const routes = createToolRoutes(createLocalAccess('operator'), {
    ...{ registry, clock },
    search: openToolSearch({ catalogFor, clock, log: SILENT_LOGGER }),
    store: {
      usage(query) {
        asked.push(query)
        const isSecond = query.before !== undefined
        const rows: readonly UsageRow[] = [
          { ...row, state: 'succeeded', tookMs: 20, bucket: isSecond ? 0 : 23, calls: 3 },
          { ...row, state: 'failed', tookMs: 40, bucket: 23, calls: 1 },
          { ...row, state: 'failed', tookMs: undefined, isWithdrawn: true, bucket: 1, calls: 1 },
        ]
        return isSecond ? { rows } : { rows, next: 7 }
      },
      digest: () => '',
      list: () => ({ calls: [] }),
      vault: openMemoryStore().vault,
    },
    listing: () => ({}),
    approvals: () => DEFAULT_APPROVAL_RULES,
    budgets: () => [],
    egressAllow: () => [],
    obstacle: () => 'no_provider',
    openCaller: () => undefined,
    scopeHolders: async () => () => true,
  })
  const ask = async (query: string) => {
    asked.length = 0
    return await callInProcess(routes, { method: 'GET', path: `/admin/tools/Open.Say/usage${query}` })
  }

  it('are counted in one pass, hour by hour', async () => {
    const { usage } = Object(await ask(''))
    const walk = { tool: 'Open.Say', sinceMs: 476 * HOUR_MS, untilMs: 500 * HOUR_MS, bucketMs: HOUR_MS }
    expect(asked).toEqual([walk, { ...walk, before: 7 }])
    expect([usage.calls, usage.errors, usage.whole, usage.buckets.length]).toEqual([10, 2, true, 24])
    expect(usage.buckets[0]).toMatchObject({ calls: 3, errors: 0, p50_ms: 20 })
    expect(usage.buckets[1]).toMatchObject({ calls: 2, errors: 0, p50_ms: null })
    expect(usage.buckets[23]).toMatchObject({ calls: 5, errors: 2, p50_ms: 20, p95_ms: 40 })
  })

  it('are counted for one version, and in wider steps for a longer time', async () => {
    const { usage } = Object(await ask(`?version=1.0.0&since=${new Date(HOUR_MS).toISOString()}`))
    expect(asked[0]).toEqual({
      ...{ tool: 'Open.Say@1.0.0', sinceMs: HOUR_MS, untilMs: 500 * HOUR_MS, bucketMs: 3 * HOUR_MS },
    })
    expect([usage.step_seconds, usage.buckets.length]).toEqual([3 * 3_600, 167])
  })
})
