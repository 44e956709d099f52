import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { openwopOpenApi, openwopSettings } from '#protocols/openwop/routes'
import { DocumentCheck } from '../conformance/openapi-check.ts'
import { sqliteSettings } from '../test-settings.ts'
import { type ApprovalServer, AUTH, KEYS, startApprovalServer } from './approval-stage.ts'

const VOUCHING = randomBytes(32).toString('hex')
const ACCEPT = { resumeValue: { action: 'accept' } }
const openApi = new DocumentCheck(openwopOpenApi(openwopSettings({ serverVersion: '0.0.0-test' })))

describe.each([
  ['memory', undefined],
  ['SQLite', sqliteSettings],
] as const)('approvals over HTTP, on %s', (_name, settingsOf) => {
  let server: ApprovalServer
  beforeAll(async () => {
    server = await startApprovalServer({}, settingsOf)
  })
  afterAll(() => server.close())

  const resolve = (position: { runId: string; node: string }, as: 'bob' | 'eve', body: unknown = ACCEPT) =>
    server.ask(`/v1/runs/${position.runId}/interrupts/${position.node}`, { as, body })

  async function parkIn(callId: string) {
    const parked = await server.park(callId)
    const requested = (await server.events(parked.runId))[1]
    return { ...parked, node: requested.nodeId as string, requested }
  }

  it('rule 6: OTC answers 400 with the approval’s address and the call id, then runs once after approval', async () => {
    const before = server.ran.length
    const first = await server.pay('otc-1')
    expect([first.status, first.headers.get('collet-error-code')]).toEqual([400, 'approval_required'])
    const { id, url, check_url: check } = first.json.missing_requirements.approval
    expect(first.json.call_id).toBe('otc-1')
    expect([url, check]).toEqual([`${server.url}/approvals/${id}`, `${server.url}/approvals/${id}/status`])
    expect((await server.ask(check)).json).toEqual({ status: 'pending' })
    expect((await server.ask(url)).text).toContain('waits for an approval')
    expect((await server.pay('otc-1', { amount: 6 })).headers.get('collet-error-code')).toBe('key_conflict')
    const decided = await server.ask(`/admin/approvals/${id}/approve`, { as: 'bob', body: {} })
    expect(decided.json.approval).toMatchObject({ state: 'granted', input: { amount: 5 } })
    expect(server.ran.length).toBe(before)
    expect((await server.ask(check)).json).toEqual({ status: 'completed' })
    expect((await server.pay('otc-1')).json.result).toMatchObject({ success: true })
    expect((await server.pay('otc-1')).json.result).toMatchObject({ success: true })
    expect(server.ran.length).toBe(before + 1)
  })

  it('approvals:read shows who decided, when and why, without the input, and cannot decide', async () => {
    const first = await server.pay('read-1')
    const { id } = first.json.missing_requirements.approval
    const path = `/admin/approvals/${id}`
    const acts = [
      [`${path}/approve`, {}],
      [`${path}/reject`, { reason: 'no' }],
      [`${path}/link`, { approver: 'dana@acme.io' }],
    ] as const
    for (const [act, body] of acts) expect((await server.ask(act, { as: 'reader', body })).status).toBe(403)
    const waiting = await server.ask(path, { as: 'reader' })
    expect(waiting.json.approval).toMatchObject({ id, state: 'pending', decisions: [], obstacle: 'scope' })
    await server.ask(`${path}/approve`, { as: 'bob', body: { reason: 'It is right.' } })
    await server.pay('read-1')
    const decision = {
      ...{ by: 'key:bob', action: 'grant', reason: 'It is right.' },
      at: expect.stringMatching(/^\d{4}-.*Z$/),
    }
    const shown = (await server.ask(path, { as: 'reader' })).json.approval
    const listed = (await server.ask('/admin/approvals?limit=1000', { as: 'reader' })).json.approvals
    for (const view of [shown, listed.find((one: { readonly id: string }) => one.id === id)]) {
      expect(view).toMatchObject({ id, state: 'used', decisions: [decision], summary: null })
      expect(view).not.toHaveProperty('input')
    }
    const { call } = (await server.ask(`/admin/calls/${shown.record}?contents=no`, { as: 'reader' })).json
    expect(call.approval).toEqual({ id, decisions: [decision] })
    for (const as of ['alice', 'mallory', 'auditor'] as const)
      expect((await server.ask(path, { as })).status, as).toBe(403)
    expect((await server.ask(path, { as: 'stranger' })).status).toBe(404)
  })

  it('OpenTool answers with equal data, without a key too, and runs after approval', async () => {
    const call = () =>
      server.ask('/opentool/call', {
        as: 'alice',
        body: { jsonrpc: '2.0', method: 'Bank_Pay', params: { amount: 7 }, id: '1' },
      })
    const first = await call()
    const { data, message } = first.json.error
    expect(data).toMatchObject({ code: 'approval_required', missing_requirements: { approval: {} } })
    expect(message).toContain(data.missing_requirements.approval.url)
    const again = await call()
    expect(again.json.error.data.call_id).toBe(data.call_id)
    const { id } = data.missing_requirements.approval
    await server.ask(`/admin/approvals/${id}/approve`, { as: 'bob', body: {} })
    const done = await call()
    expect([done.json.error, done.headers.get('collet-call-id')]).toEqual([null, data.call_id])
  })

  it('OWP-64, OWP-65, OWP-72: openwop has events of the request, the decisions and the end, without content', async () => {
    const { runId, node, requested } = await parkIn('wop-1')
    expect(requested).toMatchObject({
      type: 'interrupt.requested',
      payload: {
        kind: 'approval',
        key: `${runId}:${node}:0`,
        data: { quorum: 1, actions: ['accept', 'reject'] },
      },
    })
    expect(JSON.stringify(requested)).not.toContain('amount')
    await server.pay('wop-1')
    const answered = await resolve({ runId, node }, 'bob')
    expect([answered.status, answered.json]).toEqual([
      200,
      { runId, nodeId: node, status: 'resumed', quorumProgress: { granted: 1, required: 1 } },
    ])
    await server.pay('wop-1')
    const events = await server.events(runId)
    expect(events.map(({ type }: { type: string }) => type)).toEqual([
      'agent.toolCalled',
      'interrupt.requested',
      'node.suspended',
      'approval.granted',
      'interrupt.resolved',
      'agent.toolReturned',
    ])
    expect(events[4].payload).toMatchObject({
      resolvedBy: expect.stringMatching(/^prn_/),
      outcome: 'granted',
    })
    expect(JSON.stringify(events)).not.toContain('key:bob')
    const path = '/v1/runs/{runId}/events/poll'
    const answer = { status: 200, headers: { 'content-type': 'application/json' } }
    const text = JSON.stringify({ events, isComplete: true })
    expect(openApi.findings({ method: 'GET', path, ...answer, text })).toEqual([])
  })

  it('OWP-66, OWP-69: only a credential with the scope, of the same tenant, decides; the run stays suspended', async () => {
    const { runId, node, id } = await parkIn('wop-2')
    const path = `/v1/runs/${runId}/interrupts/${node}`
    const statuses = []
    for (const as of [undefined, 'mallory', 'alice', 'stranger'] as const) {
      statuses.push((await server.ask(path, { as, body: ACCEPT })).status)
      statuses.push((await server.ask(path, { as })).status)
    }
    expect(statuses).toEqual([401, 401, 403, 403, 403, 403, 404, 404])
    for (const as of ['mallory', 'stranger'] as const) {
      const { status } = await server.ask(`/admin/approvals/${id}/approve`, { as, body: {} })
      expect(status).toBe(as === 'mallory' ? 403 : 404)
    }
    expect((await resolve({ runId: 'run_other', node }, 'bob')).status).toBe(404)
    const shown = await server.ask(path, { as: 'bob' })
    expect(shown.json.data.artifactData).toMatchObject({ input: { amount: 5 }, safetyTier: 'write' })
    expect(shown.json.status).toBe('pending')
    expect(
      openApi.findings({ method: 'GET', path: '/v1/runs/{runId}/interrupts/{nodeId}', ...plain(shown) }),
    ).toEqual([])
  })

  it('rule 30a: approvers who are refused are audited, for readers of their own tenant', async () => {
    const { runId, node, id } = await parkIn('audited')
    await server.ask(`/admin/approvals/${id}/approve`, { as: 'alice', body: {} })
    await server.ask(`/v1/runs/${runId}/interrupts/${node}`, { as: 'alice', body: ACCEPT })
    const override = { override: true, reason: 'x' }
    await server.ask(`/admin/approvals/${id}/approve`, { as: 'bob', body: override })
    const { json } = await server.ask('/admin/audit?limit=1000', { as: 'auditor' })
    const reported = json.events.filter(({ action }: { action: string }) => action === 'approval.decide')
    expect(reported).toContainEqual(
      expect.objectContaining({
        type: 'authorization.decided',
        principal: expect.stringMatching(/^prn_/),
        resource: 'approvals:override',
        reason: 'scope',
        allowed: false,
      }),
    )
    expect(reported).toContainEqual(
      expect.objectContaining({ resource: 'approvals:respond', reason: 'scope' }),
    )
    expect(JSON.stringify(json)).not.toContain('key:alice')
  })

  it('C7, C8: accepts all three vocabularies, and refuses everything else with INVALID_RESUME_VALUE', async () => {
    const words = [{ action: 'accept' }, { decision: 'granted' }, { decision: 'approved' }]
    for (const [index, resumeValue] of words.entries()) {
      const { runId, node } = await parkIn(`yes-${index}`)
      expect((await resolve({ runId, node }, 'bob', { resumeValue })).json.status).toBe('resumed')
    }
    for (const [index, resumeValue] of [{ action: 'reject' }, { decision: 'rejected' }].entries()) {
      const { runId, node } = await parkIn(`no-${index}`)
      expect((await resolve({ runId, node }, 'bob', { resumeValue })).json.status).toBe('rejected')
      expect((await server.pay(`no-${index}`)).headers.get('collet-error-code')).toBe('approval_rejected')
      const last = (await server.events(runId)).at(-1)
      expect(last.payload).toMatchObject({ status: 'forbidden', error: { code: 'approval_rejected' } })
      expect(last.payload).not.toHaveProperty('durationMs')
    }
    const { runId, node } = await parkIn('odd')
    const odd: unknown[] = [
      ...[
        {},
        [],
        'accept',
        { resumeValue: 'accept' },
        { resumeValue: {} },
        { resumeValue: { action: 'refine' } },
      ],
      ...[
        { resumeValue: { action: 'edit-accept', editedValue: {} } },
        { resumeValue: { action: 'toString' } },
      ],
      ...[
        { resumeValue: { action: 'accept', decision: 'rejected' } },
        { resumeValue: { action: 'override' } },
      ],
      { resumeValue: { action: 'reject', reason: 'x'.repeat(1_001) } },
    ]
    for (const body of odd) {
      const { status, json } = await resolve({ runId, node }, 'eve', body)
      expect([status, json.error, json.details.code]).toEqual([
        400,
        'INVALID_RESUME_VALUE',
        'validation_error',
      ])
    }
  })

  it('OWP-68: exactly one of two decisions at once wins, the other is 409; after a cancel it is 422', async () => {
    const { runId, node } = await parkIn('race')
    const both = await Promise.all([resolve({ runId, node }, 'bob'), resolve({ runId, node }, 'eve')])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
    expect(both.find(({ status }) => status === 409)?.json.error).toBe('interrupt_already_resolved')
    const gone = await parkIn('gone')
    await server.ask('/calls/gone', { as: 'alice', method: 'DELETE' })
    const late = await resolve(gone, 'bob')
    expect([late.status, late.json.error]).toEqual([422, 'interrupt_cancelled'])
  })

  it('OWP-70: an override needs its own scope and a reason, and is an event and a journal entry', async () => {
    const { runId, node } = await parkIn('override')
    const resumeValue = { action: 'override', reason: 'the house burns' }
    const refused = await resolve({ runId, node }, 'bob', { resumeValue })
    expect([refused.status, refused.json.details.scopeRequired]).toEqual([403, 'approvals:override'])
    expect((await resolve({ runId, node }, 'eve', { resumeValue })).status).toBe(200)
    const reported = (await server.events(runId)).find(
      ({ type }: { type: string }) => type === 'approval.overridden',
    )
    expect(reported.payload).toMatchObject({ gateId: expect.any(String), reason: 'the house burns' })
  })

  it('holds a request with Prefer: wait until an approver decides', async () => {
    const before = server.ran.length
    const { id } = await server.park('waits')
    const waiting = server.pay('waits', undefined, { headers: { prefer: 'respond-async, wait=30' } })
    await server.ask(`/admin/approvals/${id}/approve`, { as: 'bob', body: {} })
    expect((await waiting).json.result.success).toBe(true)
    const startedMs = performance.now()
    const { status } = await server.pay('waits-2', undefined, { headers: { prefer: 'wait=1' } })
    expect(status).toBe(400)
    expect(performance.now() - startedMs).toBeGreaterThan(900)
    expect(server.ran.length).toBe(before + 1)
  })

  it('rule 2: lists approvals of its own tenant only, newest first', async () => {
    const { id } = await server.park('listed')
    const mine = await server.ask('/admin/approvals?state=pending&limit=1', { as: 'bob' })
    expect(mine.json.approvals).toMatchObject([{ id, principal: 'key:alice', tenant: 'acme' }])
    expect((await server.ask('/admin/approvals', { as: 'stranger' })).json.approvals).toEqual([])
    expect((await server.ask('/admin/approvals', { as: 'mallory' })).status).toBe(403)
    expect((await server.ask('/admin/approvals')).status).toBe(401)
    expect((await server.ask('/admin/approvals?state=x', { as: 'bob' })).status).toBe(400)
    expect((await server.ask(`/admin/approvals/${id}/approve`, { as: 'alice', body: {} })).status).toBe(403)
  })
})

function plain({ status, headers, text }: { status: number; headers: Headers; text: string }) {
  return { status, headers: Object.fromEntries(headers), text }
}

describe('the user of a call', () => {
  it('OTC/T-27: approvers see whether the user is proven or only asserted by the caller, and approve exactly that', async () => {
    // A second key of the same principal, which may assert users.
    const vouching = { id: 'alice', key: new Secret(VOUCHING), tenant: 'acme', scopes: ['users:assert'] }
    const auth = { ...AUTH, apiKeys: [...AUTH.apiKeys, vouching] }
    const server = await startApprovalServer({ auth })
    try {
      const pay = (callId: string, key: string) =>
        server.ask('/tools/call', {
          headers: { authorization: `Bearer ${key}` },
          body: {
            request: {
              ...{ tool_id: 'Bank.Pay@1.0.0', call_id: callId, input: { amount: 5 } },
              context: { user_id: 'president' },
            },
          },
        })
      const parked = async (callId: string, key: string): Promise<string> =>
        (await pay(callId, key)).json.missing_requirements.approval.id
      const claimed = await parked('claimed', KEYS.alice)
      const asserted = await parked('asserted', VOUCHING)
      const show = async (id: string) =>
        (await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json.approval
      expect(await show(claimed)).toMatchObject({ user_id: 'president', user_proven: false })
      expect(await show(asserted)).toMatchObject({ user_id: 'president', user_proven: true })
      const pageOf = async (id: string) => {
        const asked = { as: 'bob', body: { approver: 'carol' } } as const
        const { json } = await server.ask(`/admin/approvals/${id}/link`, asked)
        return (await server.ask(json.url)).text
      }
      expect(await pageOf(claimed)).toContain('<dt>User (claimed, not proven)</dt><dd>president</dd>')
      expect(await pageOf(asserted)).toContain('<dt>User</dt><dd>president</dd>')
      // Approval for an asserted user does not cover a proven one.
      await server.ask(`/admin/approvals/${claimed}/approve`, { as: 'bob', body: {} })
      expect((await pay('claimed', VOUCHING)).headers.get('collet-error-code')).toBe('key_conflict')
      expect((await pay('claimed', KEYS.alice)).json.result).toMatchObject({ success: true })
    } finally {
      await server.close()
    }
  })
})

describe('an approval that was forged in the database', () => {
  it('is refused, and reported to the operator in the audit stream without its content', async () => {
    const server = await startApprovalServer({}, sqliteSettings)
    try {
      const { id } = await server.park('forged')
      const database = new DatabaseSync(join(server.settings.dataFolder, 'collet.db'))
      database.exec("UPDATE approvals SET state = 'granted'")
      database.close()
      expect((await server.pay('forged')).json.result?.success).not.toBe(true)
      expect(server.ran).toEqual([])
      const asOperator = { authorization: `Bearer ${startTokenOf(server)}` }
      await expect
        .poll(async () => (await server.ask('/admin/audit', { headers: asOperator })).json.events)
        .toMatchObject([
          {
            type: 'authorization.decided',
            action: 'store.read',
            resource: 'approvals',
            reason: 'changed_row',
          },
        ])
      const { text } = await server.ask('/admin/audit', { headers: asOperator })
      expect(text).not.toContain(id)
      expect((await server.ask('/admin/audit', { as: 'auditor' })).json.events).toEqual([])
    } finally {
      await server.close()
    }
  })
})

function startTokenOf({ url, settings }: ApprovalServer): string {
  return readFileSync(join(settings.dataFolder, `start-token-${new URL(url).port}`), 'utf8').trim()
}
