import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sampleTool } from '../contracts/samples.ts'
import { sqliteSettings } from '../test-settings.ts'
import { type ApprovalServer, startApprovalServer } from './approval-stage.ts'

const DAY_MS = 86_400_000
const soon = () => new Date(Date.now() + DAY_MS).toISOString()
const UP_TO_100 = [
  { path: '/amount', max: 100 },
  { path: '/to', equals: 'Ann' },
]

describe.each([
  ['memory', undefined],
  ['SQLite', sqliteSettings],
] as const)('standing rules, on %s', (_name, settingsOf) => {
  let server: ApprovalServer
  beforeAll(async () => {
    server = await startApprovalServer({}, settingsOf)
  })
  afterAll(() => server.close())

  const make = (approval: string, changes: object = {}, as: 'alice' | 'bob' | 'eve' | 'stranger' = 'eve') =>
    server.ask('/admin/rules', {
      as,
      body: { approval, conditions: UP_TO_100, expires_at: soon(), ...changes },
    })
  const codeOf = async (callId: string, input: object) => {
    const answer = await server.pay(callId, input)
    return answer.headers.get('collet-error-code') ?? (answer.json.result.success === true ? 'ran' : 'failed')
  }

  it('approves similar calls up to an amount and a number of uses, until it is revoked', async () => {
    const { id } = await server.park('rule-1', { amount: 5, to: 'Ann' })
    const preview = await server.ask(`/admin/approvals/${id}/rule-preview`, { as: 'eve', body: {} })
    expect(preview.json).toEqual({
      conditions: [
        { path: '/amount', equals: 5 },
        { path: '/to', equals: 'Ann' },
      ],
      covered: 1,
      of: 1,
    })
    const made = await make(id, { max_uses: 3, reason: 'Small amounts to Ann.' })
    expect([made.status, made.json.rule]).toEqual([
      201,
      expect.objectContaining({
        ...{ state: 'active', tenant: 'acme', principal: 'key:alice', tool: 'Bank.Pay@1.0.0', uses: 0 },
        ...{ conditions: UP_TO_100, max_uses: 3, created_by: 'key:eve', approval: id, stale: false },
      }),
    ])
    const before = server.ran.length
    expect(await codeOf('rule-2', { amount: 100, to: 'Ann' })).toBe('ran')
    expect(await codeOf('rule-2', { amount: 100, to: 'Ann' })).toBe('ran')
    expect(server.ran.length).toBe(before + 1)
    for (const [index, other] of [
      { amount: 100.5, to: 'Ann' },
      { amount: 5, to: 'Bob' },
      { amount: 5 },
      { amount: 5, to: 'Ann', note: 'x' },
      { amount: '5', to: 'Ann' },
    ].entries())
      expect(await codeOf(`rule-other-${index}`, other), JSON.stringify(other)).toBe('approval_required')
    expect(await codeOf('rule-3', { amount: 1, to: 'Ann' })).toBe('ran')
    const second = await server.ask(`/admin/approvals/${id}/rule-preview`, {
      as: 'eve',
      body: { conditions: UP_TO_100 },
    })
    expect(second.json).toMatchObject({ covered: 3, of: 8 })
    const revoked = await server.ask(`/admin/rules/${made.json.rule.id}`, { as: 'eve', method: 'DELETE' })
    expect(revoked.json.rule).toMatchObject({ state: 'revoked', uses: 2, revoked_by: 'key:eve' })
    expect(await codeOf('rule-4', { amount: 1, to: 'Ann' })).toBe('approval_required')
    const again = await server.ask(`/admin/rules/${made.json.rule.id}`, { as: 'eve', method: 'DELETE' })
    expect(again.status).toBe(404)
  })

  it('decides in the name of the rule, which the approval and the journal show', async () => {
    const { id } = await server.park('named-1', { amount: 7, to: 'Ann' })
    const { rule } = (await make(id)).json
    await server.pay('named-2', { amount: 8, to: 'Ann' })
    const { approvals } = (await server.ask('/admin/approvals?state=used', { as: 'bob' })).json
    expect(approvals[0]).toMatchObject({ decisions: [{ by: `rule:${rule.id}`, action: 'grant' }] })
    const { rules } = (await server.ask('/admin/rules', { as: 'bob' })).json
    expect(rules).toEqual([expect.objectContaining({ id: rule.id, uses: 1, state: 'active' })])
    await server.ask(`/admin/rules/${rule.id}`, { as: 'eve', method: 'DELETE' })
    expect((await server.ask('/admin/rules', { as: 'bob' })).json.rules).toEqual([])
    const all = (await server.ask('/admin/rules?state=all', { as: 'bob' })).json.rules
    expect(all.map((one: { readonly id: string }) => one.id)).toContain(rule.id)
  })

  it('is made only by approvers with approvals:rules, for calls of others in their tenant', async () => {
    const { id } = await server.park('who-1', { amount: 5, to: 'Ann' })
    expect((await make(id, {}, 'bob')).status).toBe(403)
    expect((await make(id, {}, 'alice')).status).toBe(403)
    expect((await make(id, {}, 'stranger')).status).toBe(404)
    expect((await server.ask('/admin/rules', { as: 'stranger' })).json.rules).toEqual([])
    expect((await server.ask('/admin/rules', { as: 'alice' })).status).toBe(403)
  })

  it('is refused with what to change if it does not cover its request, or cannot be', async () => {
    const { id } = await server.park('bad-1', { amount: 5, to: 'Ann' })
    const cases = [
      [{ conditions: [{ path: '/amount', max: 100 }] }, 400, 'do not cover the request'],
      [{ conditions: [{ path: 'amount', any: true }] }, 400, 'JSON Pointer'],
      [{ conditions: [{ path: '/amount' }] }, 400, 'conditions'],
      [{ conditions: [] }, 400, 'conditions'],
      [{ expires_at: new Date(Date.now() - DAY_MS).toISOString() }, 400, 'future'],
      [{ expires_at: new Date(Date.now() + 400 * DAY_MS).toISOString() }, 400, 'a year'],
      [{ approval: 'unknown' }, 404, 'no such approval'],
    ] as const
    for (const [changes, status, text] of cases) {
      const refused = await make(id, changes)
      expect([refused.status, refused.text], JSON.stringify(changes)).toEqual([
        status,
        expect.stringContaining(text),
      ])
    }
    const body = { request: { tool_id: 'Host.Shell@1.0.0', call_id: 'shell-1', input: { command: 'ls' } } }
    const shell = await server.ask('/tools/call', { as: 'alice', body })
    const command = await make(shell.json.missing_requirements.approval.id, {
      conditions: [{ path: '/command', equals: 'ls' }],
    })
    expect([command.status, command.text]).toEqual([409, expect.stringContaining('one at a time')])
  })
})

describe('a standing rule and a changed tool', () => {
  it('approves nothing once the definition has changed, and is reported as stale', async () => {
    const first = await startApprovalServer({}, sqliteSettings)
    const { id } = await first.park('changed-1', { amount: 5, to: 'Ann' })
    const body = { approval: id, conditions: UP_TO_100, expires_at: soon() }
    expect((await first.ask('/admin/rules', { as: 'eve', body })).status).toBe(201)
    await first.stop()
    const unchanged = await startApprovalServer({}, () => first.settings)
    expect((await unchanged.pay('changed-2', { amount: 6, to: 'Ann' })).json.result.success).toBe(true)
    await unchanged.stop()
    const pay = sampleTool('Bank.Pay@1.0.0', () => 1, {
      ...{ definitionHash: 'changed', policy: { approval: 'always' } },
    })
    const changed = await startApprovalServer({ tools: [pay] }, (changes) => ({
      ...first.settings,
      ...changes,
    }))
    const refused = await changed.pay('changed-3', { amount: 6, to: 'Ann' })
    expect(refused.headers.get('collet-error-code')).toBe('approval_required')
    expect((await changed.ask('/admin/rules', { as: 'eve' })).json.rules).toMatchObject([
      { stale: true, uses: 1 },
    ])
    await changed.close()
  })
})
