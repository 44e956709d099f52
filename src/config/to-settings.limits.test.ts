import { describe, expect, it } from 'vitest'
import type { Tool } from '#kernel/tool/tool'
import { NO_LIMIT } from '#stages/limits/budgets'
import { sampleTool } from '../../test/contracts/samples.ts'
import { readEnvironment } from './environment.ts'
import { ConfigError, parseConfig } from './load.ts'
import { toSettings } from './to-settings.ts'

const FILE = '/app/collet.config.ts'
const TOOLS = [sampleTool('Mail.Send@1.0.0', () => 1), sampleTool('Mail.List@1.0.0', () => 1)]

function settingsOf(config: object, tools: readonly Tool[] = TOOLS) {
  const loaded = { file: FILE, folder: '/app', config: parseConfig(config, FILE) }
  return toSettings({ loaded, tools, flags: {}, environment: readEnvironment({}), workingFolder: '/app' })
}

function problemsOf(config: object, tools: readonly Tool[] = TOOLS): readonly string[] {
  try {
    settingsOf(config, tools)
  } catch (error) {
    if (error instanceof ConfigError)
      return error.problems.map(({ where, message }) => `${where ?? ''}: ${message}`)
    throw error
  }
  return []
}

describe('limits of a config', () => {
  it('are off by default, except those that protect the server', () => {
    const unlimited = { rate: undefined, concurrent: undefined }
    expect(settingsOf({}).limits).toEqual({
      perPrincipal: unlimited,
      byPrincipal: new Map(),
      perTool: { ...unlimited, perPrincipal: unlimited },
      byTool: new Map(),
      total: {
        rate: undefined,
        concurrent: 1_000,
        pendingWrites: 5_000,
        delayMs: 500,
        bodyBytes: 67_108_864,
      },
      waiting: { perPrincipal: 100, total: 1_000, maxMs: 60_000 },
    })
    expect(settingsOf({}).budgets).toEqual([])
  })

  it('become rates per millisecond, with a default burst of a tenth of the rate per minute', () => {
    const { limits } = settingsOf({
      limits: {
        perPrincipal: { callsPerMinute: 60 },
        perTool: { callsPerMinute: 6, burst: 4 },
        byPrincipal: { 'key:alice': { callsPerMinute: 0.3 } },
      },
    })
    expect(limits.perPrincipal.rate).toEqual({ perMs: 0.001, burst: 6 })
    expect(limits.perTool.rate).toEqual({ perMs: 0.0001, burst: 4 })
    expect(limits.byPrincipal.get('key:alice')?.rate).toEqual({ perMs: 0.3 / 60_000, burst: 1 })
  })

  it('of one principal or tool keep the general values that they do not set', () => {
    const { limits } = settingsOf({
      limits: {
        perPrincipal: { callsPerMinute: 60, concurrent: 3 },
        byPrincipal: { 'key:alice': { concurrent: 9 } },
        perTool: { concurrent: 5, perPrincipal: { concurrent: 2, callsPerMinute: 60 } },
        byTool: { 'Mail.Send': { perPrincipal: { concurrent: 1 } } },
      },
    })
    expect(limits.byPrincipal.get('key:alice')).toEqual({ rate: { perMs: 0.001, burst: 6 }, concurrent: 9 })
    expect(limits.byTool.get('Mail.Send')).toEqual({
      rate: undefined,
      concurrent: 5,
      perPrincipal: { rate: { perMs: 0.001, burst: 6 }, concurrent: 1 },
    })
  })

  it('are refused where they make no sense, with what to write', () => {
    expect(
      problemsOf({
        limits: {
          perPrincipal: { callsPerMinute: 0, concurrent: 1.5 },
          perTool: { perPrincipal: { burst: 0, callsPerMinute: 1 } },
          byPrincipal: { alice: { concurrent: 1 } },
          total: { concurrent: '9', queue: 1 },
          waiting: { perPrincipal: 0, longestSeconds: 61 },
        },
      }),
    ).toEqual([
      'limits.perPrincipal.callsPerMinute: must be more than 0.',
      'limits.perPrincipal.concurrent: expected a whole number, got 1.5.',
      'limits.perTool.perPrincipal.burst: must be at least 1.',
      'limits.total.concurrent: expected a number, got text.',
      'limits.total: unknown key "queue". Known here: callsPerMinute, burst, concurrent, pendingWrites, delayMs, bodyBytes.',
      'limits.waiting.perPrincipal: must be at least 1.',
      'limits.waiting.longestSeconds: must be at most 60.',
    ])
    expect(problemsOf({ limits: { perTool: { burst: 3 } } })).toEqual([
      'limits.perTool.burst: limits how many runs may start at once, so it needs "callsPerMinute" next to it.',
    ])
    expect(problemsOf({ limits: { byPrincipal: { alice: { concurrent: 1 } } } })).toEqual([
      'limits.byPrincipal.alice: is not a principal id: write "key:<id>", "jwt:<issuer>#<sub>" or "anonymous".',
    ])
    expect(problemsOf({ perTool: {} })).toEqual([': unknown key "perTool". Did you mean "limits.perTool"?'])
  })

  it('of an unknown tool are refused, because they protect nothing', () => {
    expect(problemsOf({ limits: { byTool: { 'Mail.Sent': { concurrent: 1 } } } })).toEqual([
      'limits.byTool.Mail.Sent: there is no such tool. Write a name without a version, such as "Mail.Send". Did you mean "Mail.Send"?',
    ])
  })
})

describe('budgets of a config', () => {
  it('count calls, milliseconds and thousandths of a cost unit', () => {
    const budgets = [
      { for: 'principal', window: '15m', calls: 100 },
      { for: 'tenant', of: ['acme'], window: '31d', seconds: 90, cost: 12.5 },
    ]
    expect(settingsOf({ budgets }).budgets).toEqual([
      {
        for: 'principal',
        of: undefined,
        windowMs: 900_000,
        limit: { calls: 100, milliseconds: NO_LIMIT, cost: NO_LIMIT },
      },
      {
        for: 'tenant',
        of: new Set(['acme']),
        windowMs: 2_678_400_000,
        limit: { calls: NO_LIMIT, milliseconds: 90_000, cost: 12_500 },
      },
    ])
  })

  it('are refused where they make no sense, with what to write', () => {
    const windows = ['', '1', '0h', 'h', '32d', '1w', '-1h', '1.5h']
    for (const window of windows) {
      expect(problemsOf({ budgets: [{ for: 'tenant', window, calls: 1 }] })).toEqual([
        'budgets[0].window: expected minutes, hours or days, such as "15m", "1h" or "1d", and at most "31d".',
      ])
    }
    expect(
      problemsOf({
        budgets: [
          { for: 'tenant', window: '1h' },
          { for: 'principal', of: ['alice'], window: '1h', calls: 1 },
          { for: 'key', window: '1h', calls: -1 },
        ],
      }),
    ).toEqual([
      'budgets[0]: limits nothing: write "calls", "seconds" or "cost".',
      'budgets[1].of[0]: is not a principal id: write "key:<id>", "jwt:<issuer>#<sub>" or "anonymous".',
      'budgets[2].for: expected one of "principal", "tenant".',
      'budgets[2].calls: must be at least 1.',
    ])
  })

  it('with fewer seconds than a tool reserves are refused, because the tool could never run', () => {
    expect(problemsOf({ budgets: [{ for: 'tenant', window: '1h', seconds: 4 }] })[0]).toContain(
      'budgets[0].seconds: is less than the timeoutMs of Mail.Send@1.0.0 (5000)',
    )
    expect(problemsOf({ budgets: [{ for: 'tenant', window: '1h', seconds: 5 }] })).toEqual([])
  })
})
