import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { Secret } from '#kernel/base/secret'
import { workflow } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { sqliteSettings } from '../test-settings.ts'

const PATIENCE = { timeout: 8_000, interval: 20 }
const ANN = 'ann-has-a-key-of-32-characters-x'
const BOB = 'bob-has-a-key-of-32-characters-x'
const WATCH = 'watch-has-a-key-of-32-characters'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'

const tool = (name: string, policy: object, run: (input: { n: number }) => unknown) => ({
  ...{ id: `${name}@1.0.0`, description: 'Does something.', output: {}, run },
  input: { n: z.number().describe('A number.') },
  policy: { safetyTier: 'write', egress: 'none', ...policy },
})
const key = (id: string, text: string, tenant: string, scopes: string[]) => ({
  ...{ id, tenant, scopes },
  key: new Secret(text),
})

const find = tool('Orders.Find', { safetyTier: 'read' }, ({ n }) => {
  throw Object.assign(new Error('raw'), { name: 'ToolError', n })
})
const pay = tool('Bank.Pay', { approval: 'always' }, () => 'paid')
const check = tool('Bank.Check', { safetyTier: 'read', cost: 2 }, () => 'fine')
const order = workflow({
  ...{
    id: 'Orders.Ship@1.0.0',
    description: 'Ships.',
    output: {},
    uses: ['Bank.Check@1.0.0', 'Bank.Pay@1.0.0'],
  },
  input: { n: z.number().describe('A number.') },
  run: async (input, { call }) => [
    await call('Bank.Check@1.0.0', input),
    await call('Bank.Pay@1.0.0', input),
  ],
})

const CALLS = z.object({ calls: z.array(z.looseObject({ record: z.string(), tool: z.string() })) })

describe('calls shown together', () => {
  let server: RunningServer
  const settings = sqliteSettings({
    tools: requireTools([find, pay, check, order]),
    auth: {
      apiKeys: [
        key('ann', ANN, 'acme', []),
        key('bob', BOB, 'other', []),
        key('watch', WATCH, 'acme', ['admin:calls', 'approvals:respond']),
      ],
      jwt: undefined,
    },
  })
  const call = async (credential: string, tool_id: string, more: object, headers = {}): Promise<void> => {
    const response = await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': credential, ...headers },
      body: JSON.stringify({ request: { tool_id, input: { n: 1 }, ...more } }),
    })
    await response.text()
  }
  const ask = async (path: string, credential = WATCH) => {
    const response = await fetch(`${server.url}/admin/calls${path}`, { headers: { 'x-api-key': credential } })
    return JSON.parse(await response.text())
  }
  const toolsIn = async (path: string) =>
    CALLS.parse(await ask(path)).calls.map(({ tool }) => tool.split('@')[0])

  beforeAll(async () => {
    server = await startServer(settings)
    const traceparent = `00-${TRACE}-00f067aa0ba902b7-01`
    await call(ANN, 'Orders.Find', { call_id: 'find-1' }, { traceparent })
    await call(ANN, 'Bank.Check', { call_id: 'check-1' }, { traceparent })
    await call(ANN, 'Orders.Find', { call_id: 'find-2' })
    await call(BOB, 'Orders.Find', { call_id: 'find-1' })
    await call(ANN, 'Orders.Ship', { call_id: 'ship-1' }, { 'collet-run': 'order-7' })
    await call(ANN, 'Bank.Check', { call_id: 'check-2' }, { 'collet-run': 'order-7' })
    await call(ANN, 'Orders.Lose', {})
  })
  afterAll(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true, force: true })
  })

  it('are found by any id that a person may have in hand, within the tenant', async () => {
    expect(await toolsIn('?id=find-1')).toEqual(['Orders.Find'])
    expect(await toolsIn(`?id=${TRACE}`)).toEqual(['Bank.Check', 'Orders.Find'])
    expect(await toolsIn(`?trace=00-${TRACE}-00f067aa0ba902b7-01`)).toEqual(['Bank.Check', 'Orders.Find'])
    expect(await toolsIn('?id=order-7')).toContain('Orders.Ship')
    expect(await toolsIn('?run=order-7&protocol=otc')).toContain('Orders.Ship')
    expect(await toolsIn('?id=none-of-them')).toEqual([])
    const [{ record = '' } = {}] = CALLS.parse(await ask('?call_id=check-1')).calls
    expect(await toolsIn(`?id=${record}`)).toEqual(['Bank.Check'])
    expect(await toolsIn(`?id=run_${record}`)).toEqual(['Bank.Check'])
    expect(await toolsIn(`?id=${record.slice(0, 10)}`)).toEqual(['Bank.Check'])
    const { approval } = await ask(
      `/${CALLS.parse(await ask('?tool=Bank.Pay')).calls[0]?.record}?contents=no`,
    ).then(({ call: found }) => found)
    expect(await toolsIn(`?id=${approval.id}`)).toEqual(['Bank.Pay'])
  })

  it('have the message of their error, their protocol, session and cost', async () => {
    const [failed] = (await ask('?call_id=find-1')).calls
    expect(failed).toMatchObject({ protocol: 'otc', session_id: null, error_code: 'tool_failed', cost: 1 })
    expect(failed.error_message).toMatch(/failed/)
    const [checked] = (await ask('?call_id=check-1')).calls
    expect(checked).toMatchObject({ error_message: null, cost: 2 })
  })

  it('are grouped by tool, code and message, with rejected requests', async () => {
    await vi.waitFor(async () => {
      const { errors, whole } = await ask('/errors')
      expect(whole).toBe(true)
      expect(
        errors.map(({ kind, tool: id, code, count }: Record<string, unknown>) => [kind, id, code, count]),
      ).toEqual([
        ['failed', 'Orders.Find', 'tool_failed', 2],
        ['rejected', null, 'tool_not_found', 1],
      ])
      const [failed, rejected] = errors
      expect(failed).toMatchObject({ principals: 1, last_record: expect.any(String) })
      expect(failed.buckets.reduce((sum: number, count: number) => sum + count)).toBe(2)
      expect(rejected.message).toMatch(/^Tool … was not found/)
    }, PATIENCE)
    expect((await ask('/errors?code=tool_failed')).errors).toHaveLength(1)
    expect((await ask('/errors?tool=Bank.*')).errors).toEqual([])
  })

  it('are one conversation, with steps and waits in order', async () => {
    const { calls, whole } = await ask('/conversation?run=order-7')
    expect(whole).toBe(true)
    expect(calls.map(({ tool: id }: { tool: string }) => id.split('@')[0])).toEqual([
      'Orders.Ship',
      'Bank.Check',
      'Bank.Pay',
      'Bank.Check',
    ])
    const [workflowCall, first, waiting] = calls
    expect(first.parent).toBe(workflowCall.record)
    expect(waiting).toMatchObject({ state: 'parked', waits: [{ approval: expect.any(String), until: null }] })
    expect(await toolsIn(`/conversation?trace=${TRACE}`)).toEqual(['Orders.Find', 'Bank.Check'])
    expect(
      (await fetch(`${server.url}/admin/calls/conversation`, { headers: { 'x-api-key': WATCH } })).status,
    ).toBe(400)
  })
})
