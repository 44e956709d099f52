import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tool, workflow } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { sqliteSettings } from '../test-settings.ts'
import { type ApprovalServer, AUTH, startApprovalServer } from './approval-stage.ts'

const AMOUNT = {
  type: 'object',
  properties: { amount: { type: 'number', description: 'How much.' } },
  required: ['amount'],
} as const

/** A shop whose orders are paid only after approval. */
function shop(effects: string[]) {
  const act = (id: string, approval: 'never' | 'always') =>
    tool({
      id,
      description: 'Acts.',
      input: AMOUNT,
      output: { type: 'string' },
      policy: { approval, egress: 'none', scopes: [] },
      run: ({ amount }) => {
        effects.push(`${id} ${amount}`)
        return `${id} ${amount}`
      },
    })
  const reserve = act('Shop.Reserve@1.0.0', 'never')
  const pay = act('Shop.Pay@1.0.0', 'always')
  const order = workflow({
    id: 'Shop.Order@1.0.0',
    description: 'Reserves and pays.',
    input: AMOUNT,
    output: { type: 'array', items: { type: 'string' } },
    uses: [reserve, pay],
    run: async (input, { call }) => [await call(reserve, input), await call(pay, input)],
  })
  return requireTools([reserve, pay, order])
}

const WITH_AUDITOR = {
  ...AUTH,
  apiKeys: AUTH.apiKeys.map((each) => (each.id === 'auditor' ? { ...each, scopes: ['admin:calls'] } : each)),
}

describe.each([
  ['memory', undefined],
  ['SQLite', sqliteSettings],
] as const)('a workflow over HTTP, on %s', (_name, settingsOf) => {
  const effects: string[] = []
  let server: ApprovalServer
  beforeAll(async () => {
    server = await startApprovalServer({ tools: shop(effects), auth: WITH_AUDITOR }, settingsOf)
  })
  afterAll(() => server.close())

  const order = (callId: string, amount: number, headers: Record<string, string> = {}) =>
    server.ask('/tools/call', {
      as: 'alice',
      headers,
      body: { request: { tool_id: 'Shop.Order', call_id: callId, input: { amount } } },
    })
  const approve = (id: string) => server.ask(`/admin/approvals/${id}/approve`, { as: 'bob', body: {} })
  const effectsOf = (amount: number) => effects.filter((effect) => effect.endsWith(` ${amount}`))

  it('openwop §7.2, OWP-31, OWP-35: is catalogued as a workflow', async () => {
    const found = await server.ask('/v1/tools/workflow%3AShop.Order', { as: 'alice' })
    expect(found.json).toMatchObject({
      toolId: 'workflow:Shop.Order',
      source: 'workflow',
      safetyTier: 'write',
      egress: 'none',
      approval: 'conditional',
    })
    const discovery = await server.ask('/.well-known/openwop')
    expect(discovery.json.toolCatalog.sources).toContain('workflow')
  })

  it('OTC: answers with the requirement of its step and its own call id, and continues after approval', async () => {
    const first = await order('otc', 1)
    expect([first.status, first.headers.get('collet-error-code')]).toEqual([400, 'approval_required'])
    expect(first.json.call_id).toBe('otc')
    expect((await server.ask('/calls/otc', { as: 'alice' })).json).toMatchObject({ state: 'parked' })
    expect(effectsOf(1)).toEqual(['Shop.Reserve@1.0.0 1'])
    expect((await approve(first.json.missing_requirements.approval.id)).status).toBe(200)
    const done = await order('otc', 1)
    const value = ['Shop.Reserve@1.0.0 1', 'Shop.Pay@1.0.0 1']
    expect(done.json.result).toMatchObject({ success: true, value })
    expect((await order('otc', 1)).text).toBe(done.text)
    expect(effectsOf(1)).toEqual(value)
  })

  it('has events of its steps in its run, between its own start and end', async () => {
    const first = await order('run', 2)
    const runId = first.headers.get('collet-run') ?? ''
    await approve(first.json.missing_requirements.approval.id)
    await order('run', 2)
    const events: { type: string; payload: { callId?: string } }[] = await server.events(runId)
    expect(events.map(({ type, payload }) => `${type} ${payload.callId ?? ''}`.trim())).toEqual([
      'agent.toolCalled run',
      'agent.toolCalled run/Shop.Reserve',
      'agent.toolReturned run/Shop.Reserve',
      'agent.toolCalled run/Shop.Pay',
      'interrupt.requested',
      'node.suspended',
      'approval.granted',
      'interrupt.resolved',
      'agent.toolReturned run/Shop.Pay',
      'agent.toolReturned run',
    ])
  })

  it('shows operators the reason why each of its steps waited', async () => {
    const first = await order('told', 9)
    await approve(first.json.missing_requirements.approval.id)
    await order('told', 9)
    const { json } = await server.ask('/admin/calls?tool=Shop.Order&limit=1', { as: 'auditor' })
    const shown = await server.ask(`/admin/calls/${json.calls[0].record}?contents=no`, { as: 'auditor' })
    const timelines = shown.json.call.steps.map(
      (step: { call_id: string; timeline: { event: string }[] }) => [
        step.call_id,
        ...step.timeline.map(({ event }) => event),
      ],
    )
    expect(timelines).toEqual([
      ['told/Shop.Reserve', 'called', 'returned'],
      [
        ...['told/Shop.Pay', 'called', 'interrupt.requested', 'node.suspended'],
        ...['approval.granted', 'interrupt.resolved', 'returned'],
      ],
    ])
    expect(shown.json.call.timeline.map(({ event }: { event: string }) => event)).toEqual([
      'called',
      'returned',
    ])
  })

  it('Prefer: wait waits for the approval of its step', async () => {
    const waiting = order('wait', 3, { prefer: 'wait=20' })
    const pending = async () => {
      const { json } = await server.ask('/admin/approvals?state=pending', { as: 'bob' })
      return json.approvals.find((each: { call_id: string }) => each.call_id === 'wait/Shop.Pay')?.id
    }
    await expect.poll(pending, { timeout: 5_000 }).toBeDefined()
    await approve(await pending())
    expect((await waiting).json.result).toMatchObject({ success: true })
  })

  it('OpenTool: a client without keys continues with the same request', async () => {
    const call = () =>
      server.ask('/opentool/call', {
        as: 'alice',
        body: { jsonrpc: '2.0', method: 'Shop_Order', params: { amount: 4 }, id: '1' },
      })
    const first = await call()
    const { data } = first.json.error
    expect(data).toMatchObject({ code: 'approval_required', missing_requirements: { approval: {} } })
    await approve(data.missing_requirements.approval.id)
    const done = await call()
    expect([done.json.error, done.headers.get('collet-call-id')]).toEqual([null, data.call_id])
    expect(effectsOf(4)).toHaveLength(2)
  })

  it('rule 10: is cancelled together with its waiting steps', async () => {
    const first = await order('cancel', 5)
    const { id } = first.json.missing_requirements.approval
    const cancelled = await server.ask('/calls/cancel', { as: 'alice', method: 'DELETE' })
    expect(cancelled.json).toMatchObject({ state: 'failed' })
    expect((await approve(id)).status).not.toBe(200)
    const again = await order('cancel', 5)
    expect([again.status, again.headers.get('collet-error-code')]).toEqual([200, 'cancelled'])
    expect(effectsOf(5)).toEqual(['Shop.Reserve@1.0.0 5'])
  })

  it('rule 6: its steps are not calls of the caller', async () => {
    await order('steps', 6)
    for (const id of ['steps/Shop.Reserve', 'steps/Shop.Pay']) {
      expect((await server.ask(`/calls/${encodeURIComponent(id)}`, { as: 'alice' })).status).toBe(404)
    }
  })
})
