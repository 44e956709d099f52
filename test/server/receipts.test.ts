import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { requireTools } from '#kernel/tool/prepare-tools'
import { verified } from '../contracts/receipt-store-contract.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const tools = requireTools([
  {
    id: 'Bank.Pay@1.0.0',
    description: 'Pays.',
    input: z.object({ to: z.string().describe('Who is paid.') }),
    output: z.string(),
    policy: { safetyTier: 'write' },
    run: () => 'paid',
  },
])

describe('receipts over HTTP', () => {
  let server: PrincipalsServer
  let records: Readonly<Record<'acme' | 'beta', string>>
  const pay = (as: string, to: string) =>
    server.ask('/tools/call', {
      ...{ method: 'POST', key: as },
      body: { request: { call_id: `${as}-1`, tool_id: 'Bank.Pay', input: { to } } },
    })
  const make = (as: string, body: object) => server.ask('/admin/receipts', { method: 'POST', key: as, body })
  const recordOf = async (as: string) => (await server.ask('/admin/calls', { key: as })).json.calls[0].record

  beforeAll(async () => {
    server = await startPrincipalsServer(
      {
        tools,
        auth: {
          apiKeys: [
            key('agent', ['admin:calls']),
            key('auditor', ['audit:read']),
            key('reader', ['audit:read', 'calls:read']),
            key('agent-b', ['admin:calls'], { tenant: 'beta' }),
            key('auditor-b', ['audit:read'], { tenant: 'beta' }),
            key('chief', ['audit:read', 'admin:keys'], { tenant: 'default' }),
          ],
          jwt: undefined,
        },
      },
      'sqlite',
    )
    await Promise.all([pay('k-agent', 'ACME-secret'), pay('k-agent-b', 'BETA-secret')])
    records = { acme: await recordOf('k-agent'), beta: await recordOf('k-agent-b') }
  })
  afterAll(() => server.stop())

  it('are made for auditors of the tenant, and show nothing of another tenant', async () => {
    const { status, text, headers } = await make('k-auditor', { records: [records.acme] })
    expect([status, headers['content-type']]).toEqual([200, 'application/jsonl; charset=utf-8'])
    const { calls, header } = await verified(text)
    expect(calls.map(({ record }) => record)).toEqual([records.acme])
    expect(header.issuer).toBe(server.url)
    expect(text).not.toMatch(/beta|secret/i)
    expect(text).not.toContain(records.beta)
    expect((await make('k-auditor', { records: [records.beta] })).status).toBe(404)
    expect((await make('k-agent', { records: [records.acme] })).status).toBe(403)
    expect((await make('k-auditor', { records: [] })).status).toBe(400)
  })

  it('disclose the input only to those who may read inputs, which is journaled', async () => {
    const body = { records: [records.acme], contents: true }
    expect((await make('k-auditor', body)).status).toBe(403)
    const { text } = await make('k-reader', body)
    expect((await verified(text)).calls[0]?.contents.input?.json).toBe('{"to":"ACME-secret"}')
    const { events } = (await server.ask('/admin/journal/events?person=key:reader', { key: 'k-auditor' }))
      .json
    expect(events.map(({ type }: { type: string }) => type)).toEqual(['call.receipt_made', 'call.shown'])
  })

  it('are exported for all calls that match a filter, within the tenant', async () => {
    const { text } = await server.ask('/admin/export/receipts?tool=Bank.Pay', { key: 'k-auditor-b' })
    expect((await verified(text)).calls.map(({ record }) => record)).toEqual([records.beta])
    const none = await server.ask('/admin/export/receipts?state=failed', { key: 'k-auditor-b' })
    expect((await verified(none.text)).calls).toEqual([])
    const { events } = (await server.ask('/admin/journal/events?action=data', { key: 'k-auditor-b' })).json
    expect(events[0]).toMatchObject({ object: { id: 'receipts' }, facts: { filter: { state: 'failed' } } })
  })

  it('are signed with a key that everyone can read and an operator can replace', async () => {
    const path = '/.well-known/collet-receipt-keys.json'
    const { keys } = (await server.ask(path)).json
    const { header } = await verified((await make('k-auditor', { records: [records.acme] })).text)
    expect(keys).toMatchObject([{ ...header.key, algorithm: 'Ed25519', retired_at: null }])
    const rotate = (as: string) => server.ask('/admin/receipts/keys', { method: 'POST', key: as, body: {} })
    expect((await rotate('k-auditor')).status).toBe(403)
    expect((await rotate('k-chief')).json.keys).toHaveLength(2)
    const later = (await server.ask(path)).json.keys
    expect(later.map(({ retired_at: at }: { retired_at: string | null }) => at === null)).toEqual([
      true,
      false,
    ])
    expect(JSON.stringify(later)).not.toContain('private')
  })
})
