import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ConfigError } from '#config/load'
import type { Settings } from '#config/settings'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import { createLocalAccess } from '#server/admin/access'
import { callInProcess } from '#server/admin/in-process-client'
import { createReloadRoutes } from '#server/admin/reload'
import { NO_LIMITS, UNLIMITED } from '#stages/limits/settings'
import { sampleTool } from '../../test/contracts/samples.ts'
import { testSettings } from '../../test/test-settings.ts'
import { compareSettings, mergeSettings, type Reloaded, Reloads } from './reload.ts'

const before = testSettings({ dataFolder: '/data' })
const key = (text: string) => ({ id: 'a', key: new Secret(text), tenant: 'default', scopes: [] })

const ISSUER = {
  ...{ issuer: 'https://idp.example', audiences: ['collet'], jwksUri: undefined, tenant: 'default' },
  claims: { tenant: undefined, scopes: undefined, roles: undefined },
  algorithms: undefined,
}
const BUDGET: Settings['budgets'][number] = {
  ...{ for: 'principal', of: undefined, windowMs: 60_000 },
  limit: { calls: 1, milliseconds: 1, cost: 1 },
}
const TOOLSETS: Settings['toolsets'] = new Map([['crm', { include: ['Crm.*'], exclude: [] }]])
const WEBHOOK: NonNullable<Settings['webhooks']>[number] = {
  ...{ name: 'team', url: 'https://chat.example', secret: undefined, format: 'json' },
  ...{ approver: undefined, events: ['approval.requested'], target: 'team', kinds: new Set() },
}

/** One change of each section, and the name under which it is reported. */
const CHANGES: readonly (readonly [name: string, isLive: boolean, changes: Partial<Settings>])[] = [
  ['auth.apiKeys', true, { auth: { ...before.auth, apiKeys: [key('one')] } }],
  ['auth.roles', true, { auth: { ...before.auth, roles: new Map([['viewer', { scopes: ['a:b'] }]]) } }],
  [
    'auth.jwt',
    true,
    {
      auth: {
        ...before.auth,
        jwt: { secret: new Secret('s'), audiences: [], maxLifetimeSeconds: 900, tenant: 'default' },
      },
    },
  ],
  ['auth.issuers', true, { auth: { ...before.auth, issuers: [ISSUER] } }],
  ['budgets', true, { budgets: [BUDGET] }],
  ['toolsets', true, { toolsets: TOOLSETS }],
  ['webhooks', true, { webhooks: [WEBHOOK] }],
  ['auth.required', false, { auth: { ...before.auth, required: true } }],
  ['limits.perPrincipal', true, { limits: { ...NO_LIMITS, perPrincipal: { ...UNLIMITED, concurrent: 1 } } }],
  [
    'limits.total.bodyBytes',
    false,
    { limits: { ...before.limits, total: { ...before.limits.total, bodyBytes: 1 } } },
  ],
  ['approvals', true, { approvals: { ...before.approvals, quorum: 2 } }],
  [
    'sources',
    true,
    {
      sources: new Map([
        ['Fs', { type: 'custom', kind: 'mcp', open: () => Promise.reject(), tools: {} }],
      ]) as never,
    },
  ],
  ['calls.maxResultBytes', true, { calls: { ...before.calls, maxResultBytes: 2_000 } }],
  ['calls.retentionHours', false, { calls: { ...before.calls, retentionHours: 1 } }],
  ['log.level', true, { logLevel: 'debug' }],
  ['server.port', false, { server: { ...before.server, port: 1 } }],
  ['server.tls', false, { server: { ...before.server, tls: { cert: 'a', key: 'b' } } }],
  ['store', false, { store: 'sqlite:other.db', dataFolder: '/other' }],
  ['oauth.allowUnboundConsent', false, { oauth: { ...before.oauth, allowUnboundConsent: true } }],
  ['journal.retentionDays', false, { journal: { retentionDays: 1 } }],
  ['egress.allow', false, { egress: { ...before.egress, allow: ['127.0.0.1'] } }],
  ['telemetry.otlpEndpoint', false, { otlpEndpoint: 'http://127.0.0.1:4318' }],
  ['hooks.admit', false, { hooks: { admit: () => undefined } }],
  ['mcp.name', false, { mcp: { ...before.mcp, name: 'other' } }],
  ['console.enabled', false, { console: { ...before.console, enabled: !before.console.enabled } }],
  ['otc.strictRequests', false, { otc: { ...before.otc, strictRequests: true } }],
  ['opentool.title', false, { opentool: { ...before.opentool, title: 'other' } }],
  ['openwop.sessions', false, { openwop: { ...before.openwop, sessions: false } }],
  ['toolkits', false, { toolkits: new Map([['Kit', 'A kit.']]) }],
  ['tools', false, { tools: [sampleTool('Kit.Do@1.0.0', () => 1)] }],
]

function onlyChanged(from: object, to: object): object {
  return Object.fromEntries(Object.entries(to).filter(([name, value]) => Reflect.get(from, name) !== value))
}

describe('reloaded settings', () => {
  it.each(CHANGES)('%s: is live %s', (name, isLive, changes) => {
    const after = { ...before, ...changes }
    const { applied, needRestart } = compareSettings(before, after)
    expect({ applied, needRestart }).toEqual(
      isLive ? { applied: [name], needRestart: [] } : { applied: [], needRestart: [name] },
    )
    const merged = mergeSettings(before, after)
    expect(compareSettings(merged, merged)).toEqual({ applied: [], needRestart: [] })
    expect(compareSettings(merged, after).needRestart).toEqual(isLive ? [] : [name])
  })

  it('are all applied in one reload if they may change while calls run', () => {
    const live = CHANGES.filter(([, isLive]) => isLive)
    const [auth, limits] = [{ ...before.auth }, { ...before.limits }]
    let after: Settings = before
    for (const [, , changes] of live) {
      Object.assign(auth, changes.auth && onlyChanged(before.auth, changes.auth))
      Object.assign(limits, changes.limits && onlyChanged(before.limits, changes.limits))
      after = { ...after, ...changes }
    }
    after = { ...after, auth, limits }
    const names = live.map(([name]) => name)
    expect(names).toHaveLength(12)
    expect(compareSettings(before, after).applied.toSorted()).toEqual(names.toSorted())
    expect(compareSettings(before, after).needRestart).toEqual([])
    expect(mergeSettings(before, after)).toEqual(after)
  })

  it('are compared in every section', () => {
    const compared = new Set(CHANGES.flatMap(([, , changes]) => Object.keys(changes)))
    const given = ['folder', 'masterKey']
    expect(Object.keys(before).filter((name) => !compared.has(name) && !given.includes(name))).toEqual([])
  })

  it('are equal if secrets and functions have equal text', () => {
    const once = {
      ...before,
      auth: { ...before.auth, apiKeys: [key('x')] },
      hooks: { admit: () => undefined },
    }
    const again = {
      ...before,
      auth: { ...before.auth, apiKeys: [key('x')] },
      hooks: { admit: () => undefined },
    }
    expect(compareSettings(once, again)).toEqual({ applied: [], needRestart: [] })
  })
})

describe('a requested config reload', () => {
  beforeEach(() => vi.useFakeTimers())
  afterEach(() => vi.useRealTimers())

  const nothing: Reloaded = { applied: [], needRestart: [], refused: [] }
  const keys: Reloaded = { ...nothing, applied: ['auth.apiKeys'] }

  /** A server on a store with `epoch` earlier requests. Each reload has the next outcome; the last outcome repeats. */
  function createFixture(epoch: number, outcomes: readonly (Reloaded | Error)[]) {
    const fixture = { epoch, reported: [] as (Reloaded | Error)[], applied: 0, read: async () => before }
    const reloads = new Reloads({
      config: { read: () => fixture.read(), onRead: (outcome) => fixture.reported.push(outcome) },
      store: { reloads: { epoch: () => fixture.epoch, request: async () => ++fixture.epoch } },
      apply: async () => {
        const outcome = outcomes[Math.min(fixture.applied, outcomes.length - 1)] ?? nothing
        fixture.applied += 1
        if (outcome instanceof Error) throw outcome
        return outcome
      },
      log: SILENT_LOGGER,
    })
    return Object.assign(fixture, { reloads })
  }

  it('is retried after a failure of the store until it has a result, which is reported once', async () => {
    const away = new Error('the store is unavailable')
    const fixture = createFixture(0, [away, away, keys])
    fixture.epoch = 1
    await vi.advanceTimersByTimeAsync(5_000)
    expect(fixture.reported).toEqual([away, keys])
    expect(fixture.applied).toBe(3)
    fixture.reloads.close()
  })

  it('is logged with the principal that requested it over HTTP', async () => {
    const { reloads } = createFixture(0, [keys])
    const lines: unknown[] = []
    const log = { ...SILENT_LOGGER, info: (...line: unknown[]) => lines.push(line) }
    const routes = createReloadRoutes(createLocalAccess('ann'), {
      reloadEverywhere: () => reloads.reloadEverywhere(),
      log,
    })
    await callInProcess(routes, { method: 'POST', path: '/admin/reload', body: {} })
    expect(lines).toEqual([[{ principal: 'ann' }, 'config reload requested']])
    reloads.close()
  })

  it('is not repeated after the config was refused', async () => {
    const wrong = new ConfigError([{ severity: 'error', where: 'limits', message: 'is wrong.' }])
    const fixture = createFixture(0, [wrong])
    fixture.epoch = 1
    await vi.advanceTimersByTimeAsync(5_000)
    expect(fixture.reported).toEqual([wrong])
    fixture.reloads.close()
  })

  it.each([
    ['is reported if it arrived while the server started', keys, [keys]],
    ['that changes nothing at the start is not reported', nothing, []],
  ])('%s', async (_name, outcome, reported) => {
    const fixture = createFixture(7, [outcome])
    await vi.advanceTimersByTimeAsync(5_000)
    expect([fixture.applied, fixture.reported]).toEqual([1, reported])
    fixture.epoch = 8
    await vi.advanceTimersByTimeAsync(5_000)
    expect([fixture.applied, fixture.reported]).toEqual([2, [...reported, outcome]])
    fixture.reloads.close()
  })

  it('times out if the config never loads, and the next reload succeeds', async () => {
    const fixture = createFixture(0, [keys])
    fixture.read = () => new Promise(() => {})
    const hanging = fixture.reloads.reloadHere().catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(31_000)
    fixture.read = async () => before
    expect(await fixture.reloads.reloadHere()).toEqual(keys)
    expect(fixture.reported).toEqual([await hanging, keys])
    expect(String(fixture.reported[0])).toContain('not read within 30 seconds')
    fixture.reloads.close()
  })

  it('is abandoned when the server closes, and nothing is applied afterwards', async () => {
    const fixture = createFixture(0, [keys])
    const late = Promise.withResolvers<Settings>()
    fixture.read = () => late.promise
    const requested = [fixture.reloads.reloadHere(), fixture.reloads.reloadHere()]
    await vi.advanceTimersByTimeAsync(1)
    fixture.reloads.close()
    late.resolve(before)
    for (const each of requested) await expect(each).rejects.toThrow('is stopping')
    expect(fixture.applied).toBe(0)
  })
})
