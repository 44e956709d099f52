import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ConfigError } from '#config/load'
import type { Settings } from '#config/settings'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { Reloaded } from '#server/reload'
import { type RunningServer, startServer } from '#server/start-server'
import { SOURCE_OPTIONS } from '#sources/source-types'
import { NO_LIMIT } from '#stages/limits/budgets'
import { NO_LIMITS, UNLIMITED } from '#stages/limits/settings'
import { sampleTool } from '../contracts/samples.ts'
import { testSettings } from '../test-settings.ts'
import { FakeIssuer } from './fake-issuer.ts'

const KEY = `${'k'.repeat(20)}abcdefghijklmnopqrstuv`
const ADMIN = `${'a'.repeat(20)}abcdefghijklmnopqrstuv`
const RIVAL = `${'r'.repeat(20)}abcdefghijklmnopqrstuv`
const entry = (id: string, key: string, tenant: string, scopes: readonly string[]) => ({
  ...{ id, key: new Secret(key), tenant, scopes },
})
const AUTH: Settings['auth'] = {
  apiKeys: [
    entry('agent', KEY, 'default', []),
    entry('admin', ADMIN, 'default', ['admin:reload']),
    entry('rival', RIVAL, 'rival', ['admin:reload']),
  ],
  jwt: undefined,
}

const KIT = [
  sampleTool('Kit.Do@1.0.0', () => 'done'),
  sampleTool('Kit.Large@1.0.0', () => 'x'.repeat(5_000)),
  sampleTool('Kit.Ask@1.0.0', () => 'done', { policy: { safetyTier: 'write', approval: 'always' } }),
]

const running: { server: RunningServer; folder: string }[] = []
afterEach(async () => {
  for (const { server, folder } of running.splice(0).toReversed()) {
    await server.close()
    rmSync(folder, { recursive: true, force: true })
  }
})

/** A server whose config is set by `change`. */
async function start(given: Partial<Settings> = {}) {
  let settings = testSettings({ auth: AUTH, ...given })
  const { dataFolder } = settings
  const reported: (Reloaded | Error)[] = []
  let broken: Error | undefined
  const server = await startServer(settings, {
    graceMs: 200,
    config: {
      read: async () => {
        if (broken !== undefined) throw broken
        return settings
      },
      onRead: (outcome) => reported.push(outcome),
    },
  })
  running.push({ server, folder: dataFolder })
  return {
    server,
    reported,
    change(changes: Partial<Settings>) {
      broken = undefined
      settings = { ...settings, ...changes }
    },
    breakWith(error: Error) {
      broken = error
    },
  }
}

async function post(url: string, path: string, key: string, body: object = {}) {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  const json: any = JSON.parse(text)
  return { status: response.status, code: response.headers.get('collet-error-code'), json }
}

const call = (url: string, tool: string, key = KEY) =>
  post(url, '/tools/call', key, { request: { call_id: randomUUID(), tool_id: tool, input: {} } })

describe('POST /admin/reload', () => {
  it('requires the start token or a server-wide admin:reload, and answers with the result', async () => {
    const { server, change, reported } = await start()
    change({
      calls: { retentionHours: 24, defaultTimeoutMs: 60_000, maxResultBytes: 5_000 },
      mcp: { enabled: true, name: 'x', instructions: undefined, pageSize: 1_000, taskAfterMs: 800 },
    })
    expect((await post(server.url, '/admin/reload', 'nobody')).status).toBe(401)
    expect((await post(server.url, '/admin/reload', KEY)).status).toBe(403)
    expect((await post(server.url, '/admin/reload', RIVAL)).status).toBe(403)
    expect(reported).toEqual([])
    const done = await post(server.url, '/admin/reload', ADMIN)
    const answer = { applied: ['calls.maxResultBytes'], needs_restart: ['mcp.name'], refused: [] }
    expect([done.status, done.json]).toEqual([200, answer])
    const token = readFileSync(server.startTokenFile, 'utf8').trim()
    expect((await post(server.url, '/admin/reload', token)).json).toEqual({ ...answer, applied: [] })
    expect(reported).toHaveLength(2)
  })

  it('refuses a bad config with its reasons, and keeps the previous config', async () => {
    const { server, change, breakWith, reported } = await start()
    breakWith(
      new ConfigError([{ severity: 'error', file: '/c.ts', where: 'limits.total', message: 'is wrong.' }]),
    )
    const bad = await post(server.url, '/admin/reload', ADMIN)
    expect([bad.status, bad.json.message]).toEqual([
      400,
      expect.stringMatching(/limits\.total: is wrong\.\n.*stays/),
    ])
    change({ auth: { apiKeys: [], jwt: undefined } })
    expect((await post(server.url, '/admin/reload', ADMIN)).json.message).toContain('Restart it')
    expect(reported.every((outcome) => outcome instanceof Error)).toBe(true)
    expect((await post(server.url, '/admin/reload', ADMIN)).status).toBe(400)
  })

  it('reports that there is no config to read', async () => {
    const settings = testSettings({ auth: AUTH })
    const server = await startServer(settings, { graceMs: 100 })
    running.push({ server, folder: settings.dataFolder })
    expect((await post(server.url, '/admin/reload', ADMIN)).json.message).toContain(
      'not started from a config file',
    )
  })
})

describe('the effects of a reload', () => {
  it('the policy of a source: at once for known tools, and running calls continue', async () => {
    const gate = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const tool = (id: string, run: () => unknown) => ({
      ...{
        id,
        description: 'Of upstream.',
        input: {},
        output: z.string(),
        policy: { safetyTier: 'read' },
        run,
      },
    })
    const upstream = await start({
      auth: { apiKeys: [], jwt: undefined },
      tools: requireTools([
        tool('Up.Quick@1.0.0', () => 'quick'),
        tool('Up.Slow@1.0.0', async () => {
          begun.resolve()
          await gate.promise
          return 'slow'
        }),
      ]),
    })
    const source = (more: object = {}) =>
      new Map([['Far', SOURCE_OPTIONS.parse({ type: 'otc', url: upstream.server.url, ...more })]])
    const { server, change } = await start({ sources: source() })
    const names = async () => {
      const response = await fetch(`${server.url}/tools`, { headers: { authorization: `Bearer ${KEY}` } })
      return [...new Set((await response.text()).match(/Far\.Up_\w+/g))].toSorted()
    }
    await expect.poll(names, { timeout: 10_000 }).toEqual(['Far.Up_Quick', 'Far.Up_Slow'])
    expect((await call(server.url, 'Far.Up_Quick')).json.result).toMatchObject({
      success: true,
      value: 'quick',
    })
    const slow = call(server.url, 'Far.Up_Slow')
    await begun.promise

    change({ sources: source({ policy: { approval: 'always' } }) })
    expect((await post(server.url, '/admin/reload', ADMIN)).json.applied).toEqual(['sources'])
    expect((await call(server.url, 'Far.Up_Quick')).code).toBe('approval_required')
    gate.resolve()
    expect((await slow).json.result).toMatchObject({ success: true, value: 'slow' })

    change({ sources: source({ exclude: ['Up.Slow'] }) })
    await post(server.url, '/admin/reload', ADMIN)
    expect((await call(server.url, 'Far.Up_Quick')).json.result).toMatchObject({ success: true })
    expect(await names()).toEqual(['Far.Up_Quick'])
    change({ sources: new Map() })
    await post(server.url, '/admin/reload', ADMIN)
    expect(await names()).toEqual([])
  })

  it('cached keys of issuers are kept, unless auth changed', async () => {
    const asked: string[] = []
    const listener = createServer(async ({ url = '' }, response) => {
      asked.push(url)
      response.end(await (await idp.document(`${idp.url}${url}`)).text())
    })
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
    const address = listener.address()
    const idp = new FakeIssuer(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
    await idp.addKey('k1')
    const issuer = {
      ...{
        issuer: idp.url,
        audiences: ['collet'],
        jwksUri: undefined,
        tenant: 'acme',
        algorithms: undefined,
      },
      claims: { tenant: undefined, scopes: undefined, roles: undefined },
    }
    const auth = { ...AUTH, issuers: [issuer] }
    const { server, change } = await start({ auth })
    // Another token each time, because verified tokens are cached.
    const callWithToken = async () => {
      const exp = Math.floor(Date.now() / 1_000) + 300
      return (await call(server.url, 'No.Tool', await idp.sign({ sub: randomUUID(), aud: 'collet', exp })))
        .code
    }
    expect(await callWithToken()).toBe('tool_not_found')
    expect(asked).toHaveLength(2)
    change({ auth: { ...AUTH, issuers: [{ ...issuer }] }, logLevel: 'warn' })
    await post(server.url, '/admin/reload', ADMIN)
    expect(await callWithToken()).toBe('tool_not_found')
    expect(asked).toHaveLength(2)
    change({ auth: { ...auth, issuers: [{ ...issuer, audiences: ['elsewhere'] }] } })
    await post(server.url, '/admin/reload', ADMIN)
    expect(await callWithToken()).toBe('unauthenticated')
    await new Promise((resolve) => listener.close(resolve).closeAllConnections())
  })

  it('budgets: a lower one refuses the next call', async () => {
    const tools = requireTools([
      {
        ...{ id: 'Kit.Do@1.0.0', description: 'Does it.', input: z.object({}), output: z.string() },
        run: () => 'done',
      },
    ])
    const budget = (calls: number): Settings['budgets'] => [
      {
        ...{ for: 'principal', of: undefined, windowMs: 3_600_000 },
        limit: { calls, milliseconds: NO_LIMIT, cost: NO_LIMIT },
      },
    ]
    const { server, change } = await start({ tools, budgets: budget(1_000) })
    expect((await call(server.url, 'Kit.Do')).json.result.success).toBe(true)
    change({ budgets: budget(1) })
    expect((await post(server.url, '/admin/reload', ADMIN)).json.applied).toEqual(['budgets'])
    expect((await call(server.url, 'Kit.Do')).code).toBe('budget_exceeded')
  })

  it('approval terms and roles: the new ones apply from the next call on', async () => {
    const tools = requireTools([
      {
        ...{ id: 'Pay.Out@1.0.0', description: 'Pays.', input: {}, output: z.string(), run: () => 'paid' },
        policy: { approval: 'conditional', safetyTier: 'write', scopes: ['pay:out'] },
      },
    ])
    const payer = { ...entry('payer', `p${KEY}`, 'default', []), roles: ['payer'] }
    const auth = (roles: Map<string, { scopes: string[] }>) => ({
      ...AUTH,
      apiKeys: [...AUTH.apiKeys, payer],
      roles,
    })
    const { server, change } = await start({ tools, auth: auth(new Map([['payer', { scopes: [] }]])) })
    expect((await call(server.url, 'Pay.Out', `p${KEY}`)).code).toBe('tool_not_found')
    change({ auth: auth(new Map([['payer', { scopes: ['pay:out'] }]])) })
    await post(server.url, '/admin/reload', ADMIN)
    expect((await call(server.url, 'Pay.Out', `p${KEY}`)).code).toBe('approval_required')
    change({ approvals: { ...DEFAULT_APPROVAL_RULES, when: () => false } })
    expect((await post(server.url, '/admin/reload', ADMIN)).json.applied).toEqual(['approvals'])
    expect((await call(server.url, 'Pay.Out', `p${KEY}`)).json).toMatchObject({ result: { value: 'paid' } })
  })

  it('limits: a lower rate applies from the next call on', async () => {
    const { server, change } = await start({ tools: KIT })
    expect((await call(server.url, 'Kit.Do')).json.result.success).toBe(true)
    change({
      limits: { ...NO_LIMITS, perPrincipal: { ...UNLIMITED, rate: { perMs: 1 / 3_600_000, burst: 1 } } },
    })
    expect((await post(server.url, '/admin/reload', ADMIN)).json.applied).toEqual(['limits.perPrincipal'])
    expect((await call(server.url, 'Kit.Do')).json.result.success).toBe(true)
    expect((await call(server.url, 'Kit.Do')).code).toBe('rate_limited')
  })

  it('the size of results: larger ones are kept from the next call on', async () => {
    const { calls } = testSettings()
    const { server, change } = await start({ tools: KIT, calls: { ...calls, maxResultBytes: 1_000 } })
    const large = async () => (await call(server.url, 'Kit.Large')).json.result
    expect((await large()).value).toBeUndefined()
    change({ calls: { ...calls, maxResultBytes: 10_000 } })
    expect((await post(server.url, '/admin/reload', ADMIN)).json.applied).toEqual(['calls.maxResultBytes'])
    expect((await large()).value).toBe('x'.repeat(5_000))
  })

  it('webhooks: an added one is notified of the next approval, also on this machine', async () => {
    const read = Promise.withResolvers<string>()
    const receiver = createServer((request, response) => {
      request.setEncoding('utf8').on('data', (text: string) => read.resolve(text))
      request.on('end', () => response.end())
    }).listen(0, '127.0.0.1')
    await once(receiver, 'listening')
    const bound = receiver.address()
    const url = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`
    const { server, change } = await start({ tools: KIT })
    change({
      webhooks: [
        {
          ...{ name: 'team', url, secret: undefined, format: 'json', approver: undefined, target: url },
          ...{ events: ['approval.requested'], kinds: new Set(['approval.requested']) },
        },
      ],
    })
    expect((await post(server.url, '/admin/reload', ADMIN)).json.applied).toEqual(['webhooks'])
    expect((await call(server.url, 'Kit.Ask')).code).toBe('approval_required')
    expect(await read.promise).toContain('Kit.Ask')
    receiver.close()
  })
})
