import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { testSettings } from '../test-settings.ts'
import { type ApprovalServer, startApprovalServer } from './approval-stage.ts'

describe('an approval that is not decided in time', () => {
  let server: ApprovalServer
  beforeAll(async () => {
    server = await startApprovalServer({ approvals: { ...DEFAULT_APPROVAL_RULES, expiresAfterMs: 400 } })
  })
  afterAll(() => server.close())

  it('OWP-67, OWP-71: is refused automatically, with an event in its run, and 410 for a late decision', async () => {
    const { id, runId, check } = await server.park('late')
    const made = await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body: { approver: 'carol' } })
    const { url, token } = made.json
    await vi.waitFor(async () => expect((await server.ask(check)).json.status).toBe('failed'), 5_000)
    await vi.waitFor(async () => expect(await server.events(runId)).toHaveLength(5), 5_000)
    const [, { nodeId }, , resolved, returned] = await server.events(runId)
    expect(resolved).toMatchObject({
      type: 'interrupt.resolved',
      payload: { outcome: 'rejected', reason: 'timeout', resumeValue: { action: 'reject' } },
    })
    expect(resolved.payload).not.toHaveProperty('resolvedBy')
    expect(returned.payload).toMatchObject({ status: 'forbidden', error: { code: 'approval_rejected' } })
    const body = { resumeValue: { action: 'accept' } }
    const answers = [
      await server.ask(`/v1/runs/${runId}/interrupts/${nodeId}`, { as: 'bob', body }),
      await server.ask(`/v1/interrupts/${token}`, { body }),
    ]
    expect(answers.map(({ status, json }) => [status, json.error])).toEqual([
      [410, 'interrupt_expired'],
      [410, 'interrupt_expired'],
    ])
    expect((await server.ask(url)).status).toBe(410)
    expect((await server.ask(`/admin/approvals/${id}/approve`, { as: 'bob', body: {} })).status).toBe(410)
    expect((await server.pay('late')).headers.get('collet-error-code')).toBe('approval_rejected')
    expect(server.ran).toEqual([])
  })
})

describe('a read-only token', () => {
  it('OWP-67: resolves nothing: 403', async () => {
    const server = await startApprovalServer()
    const { id } = await server.park('inspect')
    const path = `/admin/approvals/${id}/link`
    const made = await server.ask(path, { as: 'bob', body: { approver: 'carol', power: 'inspect' } })
    const { token, url } = made.json
    expect((await server.ask(`/v1/interrupts/${token}`)).status).toBe(200)
    const body = { resumeValue: { action: 'accept' } }
    expect((await server.ask(`/v1/interrupts/${token}`, { body })).status).toBe(403)
    const page = await server.ask(url)
    expect([page.status, page.text.includes('<form')]).toEqual([200, false])
    await server.close()
  })

  it('rule 23: a caller who may approve calls of others cannot create a link to its own call', async () => {
    const server = await startApprovalServer()
    const body = { request: { tool_id: 'Bank.Pay@1.0.0', call_id: 'own', input: {} } }
    const { json } = await server.ask('/tools/call', { as: 'eve', body })
    const { id } = json.missing_requirements.approval
    const made = await server.ask(`/admin/approvals/${id}/link`, { as: 'eve', body: { approver: 'carol' } })
    expect(made.status).toBe(403)
    expect((await server.ask(`/admin/approvals/${id}/approve`, { as: 'eve', body: {} })).status).toBe(403)
    await server.close()
  })
})

describe('a server without credentials', () => {
  it('rule 29: accepts decisions only with the start token, on loopback too', async () => {
    const tool = sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { approval: 'always' } })
    const server = await startServer(testSettings({ tools: [tool] }), { graceMs: 0 })
    const call = () =>
      fetch(`${server.url}/tools/call`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ request: { tool_id: 'Bank.Pay', call_id: 'c', input: {} } }),
      })
    const parked = JSON.parse(await (await call()).text())
    const { id } = parked.missing_requirements.approval
    const token = readFileSync(server.startTokenFile, 'utf8').trim()
    const { json: run } = await interrupt()
    async function interrupt() {
      const answer = await fetch(`${server.url}/admin/approvals/${id}`, {
        headers: { authorization: `Bearer ${token}` },
      })
      return { json: JSON.parse(await answer.text()).approval }
    }
    const paths = [`/admin/approvals/${id}/approve`, `/v1/runs/${run.run_id}/interrupts/${run.record}`]
    const decide = async (path: string, credential: Record<string, string>) =>
      (
        await fetch(`${server.url}${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...credential },
          body: path.startsWith('/v1') ? '{"resumeValue":{"action":"accept"}}' : '{}',
        })
      ).status
    for (const path of paths) {
      expect(await decide(path, {})).toBe(401)
      expect(await decide(path, { authorization: 'Bearer guess' })).toBe(401)
    }
    expect(await decide(paths[1] ?? '', { authorization: `Bearer ${token}` })).toBe(200)
    expect(JSON.parse(await (await call()).text()).result.success).toBe(true)
    await server.close()
  })
})
