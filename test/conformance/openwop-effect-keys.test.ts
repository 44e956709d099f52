import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'
import { OTC_OPTIONS } from '#sources/otc/options'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, gist, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../contracts/samples.ts'
import { type RecordingServer, startRecordingServer } from '../sources/openapi/recording-server.ts'
import { untilSourcesRead } from '../sources/read-sources.ts'
import { egressTo, sqliteSettings, testSettings } from '../test-settings.ts'

/** A gateway whose one tool records the keys it would send, and fails without effect a given number of times. */
function apiKeys(changes: Parameters<typeof openTestGateway>[1] = {}) {
  const sent: string[] = []
  const failures = { left: 0 }
  const send = sampleTool('Note.Send@1.0.0', (_input, context) => {
    sent.push(context.effectKey())
    if (failures.left-- > 0) throw new ToolError('Not now.', { canRetry: true })
    return [0, 1, 2].map((ordinal) => context.effectKey(ordinal))
  })
  const gateway = openTestGateway([send], changes)
  const keysOf = async (principal: Principal, key: string): Promise<readonly string[]> => {
    const { outcome } = await gateway.call(principal, callRequest('Note.Send', { key }))
    return outcome.ok ? JSON.parse(outcome.valueJson) : []
  }
  return { gateway, sent, failures, keysOf }
}

describe('keys of effects', () => {
  it('OWP-89, OWP-94: one per tenant, principal, call and ordinal, without any part of the caller’s key', async () => {
    const { keysOf } = apiKeys()
    const owners = new Map<string, string>()
    await fc.assert(
      fc.asyncProperty(
        fc.string({ minLength: 4, maxLength: 40 }).filter((key) => /^[\x20-\x7e]+$/.test(key)),
        fc.constantFrom('key:alice', 'key:bob'),
        fc.constantFrom('default', 'acme'),
        async (key, id, tenant) => {
          const keys = await keysOf({ ...ALICE, id, tenant }, key)
          expect(new Set(keys).size).toBe(3)
          for (const [ordinal, sent] of keys.entries()) {
            const owner = JSON.stringify([tenant, id, key, ordinal])
            expect(owners.get(sent) ?? owner).toBe(owner)
            owners.set(sent, owner)
            expect(sent).toMatch(/^[\w-]{43}$/)
            expect(sent).not.toContain(key)
          }
        },
      ),
    )
  })

  it('OWP-89: the same in every attempt, whichever run names it (OWP-90)', async () => {
    const { gateway, sent, failures } = apiKeys()
    failures.left = 2
    const call = (runId?: string) =>
      gateway.call(
        ALICE,
        callRequest('Note.Send', { key: 'business-1', ...(runId === undefined ? {} : { runId }) }),
      )
    await call('monday')
    await call('tuesday')
    expect(gist(await call())).toMatch(/^ok /)
    expect(gist(await call('wednesday'))).toMatch(/^ok /)
    expect(sent).toHaveLength(3)
    expect(new Set(sent).size).toBe(1)
  })

  it('OWP-89: the same after a restart, and different on a server with another secret', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-effects-'))
    const attempt = async (file: string, fill: number) => {
      const store = openSqliteStore({ path: join(folder, file), masterKey: Buffer.alloc(32, fill) })
      const { gateway, sent, failures } = apiKeys({ store })
      failures.left = 1
      await gateway.call(ALICE, callRequest('Note.Send', { key: 'k' }))
      await gateway.drain(0)
      await store.close()
      return sent
    }
    const first = await attempt('a.db', 1)
    expect(first).toHaveLength(1)
    expect(await attempt('a.db', 1)).toEqual(first)
    expect(await attempt('b.db', 2)).not.toEqual(first)
    rmSync(folder, { recursive: true })
  })

  it('OWP-94: a caller that sends an effect key as its own key names another call', async () => {
    const { gateway, keysOf } = apiKeys()
    const [first = ''] = await keysOf(ALICE, 'mine')
    const [second = ''] = await keysOf(ALICE, first)
    expect(second).not.toBe(first)
    expect((await gateway.readCall(ALICE, first))?.record).not.toBe(
      (await gateway.readCall(ALICE, 'mine'))?.record,
    )
  })
})

describe('keys that reach an upstream', () => {
  const LIMIT_MS = 30_000
  const folder = mkdtempSync(join(tmpdir(), 'collet-upstream-'))
  const upstreamSettings = testSettings()
  const settings = sqliteSettings()
  /** The keys of calls that arrived at the upstream server. */
  const arrived: string[] = []
  let failures = 0
  let api: RecordingServer
  let upstream: RunningServer
  let collet: RunningServer

  beforeAll(async () => {
    api = await startRecordingServer()
    const header = { name: 'Idempotency-Key', in: 'header', schema: { type: 'string' } }
    const post = { operationId: 'pay', parameters: [header], responses: { 200: { description: 'Paid.' } } }
    const document = { openapi: '3.0.3', info: { title: 'T', version: '1' }, paths: { '/pay': { post } } }
    writeFileSync(join(folder, 'api.json'), JSON.stringify(document))
    const pay = sampleTool('Bank.Pay@1.0.0', (_input, { callId }) => {
      arrived.push(callId)
      if (failures-- > 0) throw new ToolError('Not now.', { canRetry: true })
      return 'paid'
    })
    upstream = await startServer({ ...upstreamSettings, tools: [pay] }, { graceMs: 0 })
    collet = await startServer(
      {
        ...settings,
        egress: egressTo(api.host, new URL(upstream.url).host),
        sources: new Map<
          string,
          (typeof settings)['sources'] extends ReadonlyMap<string, infer S> ? S : never
        >([
          [
            'Api',
            OPENAPI_OPTIONS.parse({ type: 'openapi', file: join(folder, 'api.json'), baseUrl: api.origin }),
          ],
          ['Otc', OTC_OPTIONS.parse({ type: 'otc', url: upstream.url })],
          ['Mcp', MCP_OPTIONS.parse({ type: 'mcp', url: `${upstream.url}/mcp` })],
        ]),
      },
      { graceMs: 0 },
    )
    await untilSourcesRead(collet)
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    await upstream.close()
    await api.close()
    for (const made of [folder, upstreamSettings.dataFolder, settings.dataFolder])
      rmSync(made, { recursive: true })
  })

  async function call(tool: string, callId: string): Promise<boolean> {
    const response = await fetch(`${collet.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: tool, call_id: callId, input: {} } }),
    })
    const { result } = JSON.parse(await response.text())
    return result.success
  }

  it('OWP-89, OWP-94: an API gets one key for every attempt of a call, and never the caller’s', async () => {
    api.answer(() => ({ status: 503, body: '' }))
    expect(await call('Api.pay', 'invoice-77')).toBe(false)
    api.answer(() => ({ body: '{}' }))
    expect(await call('Api.pay', 'invoice-77')).toBe(true)
    expect(await call('Api.pay', 'invoice-77')).toBe(true)
    expect(await call('Api.pay', 'invoice-78')).toBe(true)
    const keys = api.requests.map(({ headers }) => headers['idempotency-key'])
    expect([keys.length, keys[1] === keys[0], keys[2] === keys[0]]).toEqual([3, true, false])
    expect(JSON.stringify(api.requests)).not.toMatch(/invoice-7/)
  })

  it.each([
    ['OTC', 'Otc.Bank_Pay'],
    ['MCP', 'Mcp.Bank_Pay'],
  ])('OWP-89, OWP-94: the same over %s', async (_protocol, tool) => {
    const before = arrived.length
    expect(await call(tool, `invoice-77-${tool}`)).toBe(true)
    expect(await call(tool, `invoice-77-${tool}`)).toBe(true)
    expect(await call(tool, `invoice-78-${tool}`)).toBe(true)
    const keys = arrived.slice(before)
    expect([keys.length, new Set(keys).size]).toEqual([2, 2])
    expect(keys.join()).not.toMatch(/invoice-7/)
  })

  it('OWP-89: a server that reports no effect gets the same key again', async () => {
    const before = arrived.length
    failures = 1
    expect(await call('Otc.Bank_Pay', 'again')).toBe(false)
    expect(await call('Otc.Bank_Pay', 'again')).toBe(true)
    const keys = arrived.slice(before)
    expect([keys.length, new Set(keys).size]).toEqual([2, 1])
  })
})
