import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { LIST_JOURNAL } from '#admin-api/journal'
import { requireTools } from '#kernel/tool/prepare-tools'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const tools = requireTools([
  {
    id: 'Bank.Pay@1.0.0',
    description: 'Pays.',
    input: z.object({ to: z.string().describe('Who is paid.'), amount: z.number().describe('How much.') }),
    output: z.string(),
    policy: { safetyTier: 'write', approval: 'always' },
    run: () => 'paid',
  },
  {
    id: 'Open.Say@1.0.0',
    description: 'Says.',
    input: z.object({}),
    output: z.string(),
    policy: { safetyTier: 'write' },
    run: () => 'said',
  },
])

describe('the journal and exports over HTTP', () => {
  let server: PrincipalsServer
  const pay = (id: string) =>
    server.ask('/tools/call', {
      ...{ method: 'POST', key: 'k-agent' },
      body: { request: { call_id: id, tool_id: 'Bank.Pay', input: { to: '=cmd()', amount: 40 } } },
    })
  const listed = async (query = '', as = 'k-auditor') =>
    z.parse(
      LIST_JOURNAL.answer?.() ?? z.never(),
      (await server.ask(`/admin/journal/events?${query}`, { key: as })).json,
    )

  beforeAll(async () => {
    server = await startPrincipalsServer(
      {
        tools,
        auth: {
          apiKeys: [
            key('agent', []),
            key('ann', ['approvals:respond']),
            key('auditor', ['audit:read', 'admin:calls', 'approvals:read']),
            key('other', ['audit:read', 'admin:calls'], { tenant: 'beta' }),
            key('chief', ['audit:read', 'admin:keys'], { tenant: 'default' }),
          ],
          jwt: undefined,
        },
      },
      'sqlite',
    )
    await pay('pay-1')
    const { json } = await server.ask('/admin/approvals', { key: 'k-ann' })
    const path = `/admin/approvals/${json.approvals[0].id}/approve`
    await server.ask(path, { method: 'POST', key: 'k-ann', body: { reason: '=the "invoice", checked' } })
    await pay('pay-1')
    await server.ask('/admin/keys', { key: 'k-agent' })
  })
  afterAll(() => server.stop())

  it('show who approved what and why', async () => {
    const { events } = await listed('action=approval.granted')
    expect(events).toMatchObject([
      { type: 'approval.granted', who: 'key:ann', tenant: 'acme', why: '=the "invoice", checked' },
    ])
    expect(events[0]?.object).toEqual({ kind: 'tool', id: 'Bank.Pay@1.0.0' })
    expect((await listed('action=call&object=bank.pay')).events.map(({ type }) => type)).toEqual([
      'call.succeeded',
      'call.claimed',
      'call.parked',
    ])
  })

  it('page through everything, and a tenant sees nothing of another', async () => {
    const whole = await listed()
    let [before, ids]: [string | null, string[]] = ['', []]
    while (before !== null) {
      const page = await listed(`limit=1&before=${before}`)
      ids = [...ids, ...page.events.map(({ id }) => id)]
      before = page.next
    }
    expect(ids).toEqual(whole.events.map(({ id }) => id))
    expect((await listed('', 'k-other')).events).toEqual([])
    expect((await server.ask('/admin/journal/events', { key: 'k-agent' })).status).toBe(403)
    expect((await server.ask('/admin/journal/events?before=x', { key: 'k-auditor' })).status).toBe(400)
    expect((await listed('action=writer', 'k-chief')).events).toMatchObject([{ type: 'writer.started' }])
  })

  it('export the same events that the list shows, as CSV and as JSON lines', async () => {
    const { events } = await listed('action=approval,call')
    const csv = await server.ask('/admin/export/journal?action=approval,call', { key: 'k-auditor' })
    expect(csv.headers['content-type']).toBe('text/csv; charset=utf-8; header=present')
    expect(csv.headers['content-disposition']).toMatch(
      /^attachment; filename="collet-journal-\d{4}-\d\d-\d\d.csv"$/,
    )
    const lines = csv.text.trimEnd().split('\r\n')
    expect(lines.length).toBe(events.length + 1)
    expect(lines[0]).toBe(
      'id,at,type,who,who_name,tenant,principal,object_kind,object,why,record,approval,facts,writer,group,link',
    )
    expect(csv.text).toContain(`,"'=the ""invoice"", checked",`)
    const jsonl = await server.ask('/admin/export/journal?action=approval,call&format=jsonl', {
      key: 'k-auditor',
    })
    const rows = jsonl.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(rows.map(({ id }) => id)).toEqual(events.map(({ id }) => id))
    expect(rows.find(({ type }) => type === 'approval.granted').why).toBe('=the "invoice", checked')
  })

  it('export calls, usage, approvals and denials to those who may list them, within their tenant', async () => {
    const rows = async (what: string, as = 'k-auditor') => {
      const { status, text } = await server.ask(`/admin/export/${what}`, { key: as })
      return status === 200
        ? text
            .trimEnd()
            .split('\n')
            .slice(what.includes('jsonl') ? 0 : 1)
        : status
    }
    expect(await rows('calls?state=succeeded&format=jsonl')).toEqual([
      expect.stringContaining('"call_id":"pay-1"'),
    ])
    expect(await rows('calls?tool=Open.Say')).toEqual([])
    expect(await rows('calls', 'k-other')).toEqual([])
    expect(await rows('usage')).toEqual([expect.stringContaining('acme,key:agent,Bank.Pay@1.0.0,1,0,')])
    expect(await rows('approvals')).toEqual([expect.stringContaining('key:ann')])
    expect(await rows('approvals', 'k-ann')).toHaveLength(1)
    expect(await rows('approvals', 'k-other')).toBe(403)
    expect(await rows('denials?format=jsonl')).toEqual(
      expect.arrayContaining([expect.stringContaining('"resource":"admin:keys"')]),
    )
    expect(await rows('denials?format=jsonl', 'k-other')).not.toContainEqual(
      expect.stringContaining('admin:keys'),
    )
    for (const what of ['journal', 'calls', 'usage', 'approvals', 'denials'])
      expect(await rows(what, 'k-agent'), what).toBe(403)
    expect(await rows('calls?format=xml')).toBe(400)
    expect(await rows('approvals?state=odd')).toBe(400)
  })

  it('record each export in the journal with its filter', async () => {
    await server.ask('/admin/export/calls?state=failed&since=2026-01-01T00:00:00Z', { key: 'k-auditor' })
    const { events } = await listed('action=data.exported&limit=1')
    expect(events).toMatchObject([
      {
        ...{ who: 'key:auditor', tenant: 'acme', object: { kind: 'export', id: 'calls' } },
        facts: { format: 'csv', filter: { state: 'failed', since: '2026-01-01T00:00:00Z' } },
      },
    ])
  })
})
