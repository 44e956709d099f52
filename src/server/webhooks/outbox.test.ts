import { createHmac } from 'node:crypto'
import { describe, expect, it, vi } from 'vitest'
import type { Webhook } from '#config/webhooks'
import { readLink } from '#kernel/approval/decisions'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import { NOTICE_KINDS, type NoticeKind } from '#kernel/journal/notices'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { FakeClock } from '#testing/test-gateway'
import { sampleParking, yesOf } from '../../../test/contracts/approval-store-contract.ts'
import { sampleCall } from '../../../test/contracts/samples.ts'
import { noticeContent } from './messages.ts'
import { startOutbox } from './outbox.ts'

const SECRET = 'a-secret-of-the-webhook'
const OPS: Webhook = {
  name: 'ops',
  target: 'ops',
  url: 'https://chat.example/hook?k=1',
  secret: new Secret(SECRET),
  approver: undefined,
  format: 'json',
  events: ['approval.requested'],
  kinds: new Set<NoticeKind>(['approval.requested']),
}
const DAY_MS = 86_400_000
const AMBIGUOUS = { tenant: 'default', principal: 'key:a', tool: 'Bank.Pay@1.0.0', attempt: 1 }

interface Sent {
  readonly url: string
  readonly headers: Headers
  readonly body: string
}

type ReceiverAnswer = number | Error | Response | 'hang'

interface Stage {
  /** Webhooks in the config of this process; by default only `webhook`. */
  readonly webhooks?: readonly Webhook[]
  readonly canSignIn?: boolean
  readonly consoleUrl?: string
  readonly approval?: Parameters<typeof sampleParking>[0]
}

/** A store with one parked call, and a receiver with prepared answers. */
async function stage(answers: readonly ReceiverAnswer[], webhook = OPS, more: Stage = {}) {
  const clock = new FakeClock(2_000)
  const store = openMemoryStore()
  store.notices.listen([webhook])
  await store.approvals.park(sampleCall(), sampleParking({ expiresAtMs: 3_600_000, ...more.approval }))
  const sent: Sent[] = []
  const fetchLike: typeof fetch = async (url, init) => {
    sent.push({ url: String(url), headers: new Headers(init?.headers), body: String(init?.body) })
    const answer = answers[sent.length - 1] ?? 204
    if (answer instanceof Error) throw answer
    if (answer instanceof Response) return answer
    if (answer !== 'hang') return new Response(null, { status: answer })
    return await new Promise((_, reject) =>
      init?.signal?.addEventListener('abort', () => reject(new Error('aborted'))),
    )
  }
  const open = () =>
    startOutbox({
      store,
      webhooks: () => more.webhooks ?? [webhook],
      fetch: fetchLike,
      clock,
      log: SILENT_LOGGER,
      canSignIn: more.canSignIn ?? false,
      publicUrl: () => 'https://tools.example',
      consoleUrl: () => more.consoleUrl,
    })
  return { clock, store, sent, open, webhooks: open() }
}

describe('webhooks of approvals', () => {
  it('send a pending approval once, signed over id, time and body, without secrets', async () => {
    const { sent, webhooks, clock } = await stage([204])
    expect(await webhooks.deliver()).toBe(1)
    expect(await webhooks.deliver()).toBe(0)
    const [{ url, headers, body } = expect.fail('nothing was sent')] = sent
    expect(url).toBe(OPS.url)
    const timestamp = String(Math.floor(clock.nowMs() / 1_000))
    const id = headers.get('collet-notice-id')
    expect([headers.get('webhook-id'), headers.get('webhook-timestamp')]).toEqual([id, timestamp])
    const expected = createHmac('sha256', SECRET).update(`${id}.${timestamp}.${body}`).digest('base64')
    expect(headers.get('webhook-signature')).toBe(`v1,${expected}`)
    expect(JSON.parse(body)).toMatchObject({
      type: 'approval.requested',
      data: { id: 'approval-1', state: 'pending', input: { doorbell_id: 'doorbell42' } },
    })
    expect(body).not.toContain(SECRET)
    expect(JSON.parse(body).data).not.toHaveProperty('link')
    await webhooks.close()
  })

  it('retry after a refusal and a broken connection, with growing delays', async () => {
    const { sent, webhooks, clock } = await stage([500, new Error('reset'), 200])
    await webhooks.deliver()
    expect(await webhooks.deliver()).toBe(0)
    clock.advance(2_000)
    await webhooks.deliver()
    clock.advance(2_000)
    expect(await webhooks.deliver()).toBe(0)
    clock.advance(2_000)
    await webhooks.deliver()
    clock.advance(3_000_000)
    expect(await webhooks.deliver()).toBe(0)
    expect(sent).toHaveLength(3)
    expect(new Set(sent.map(({ headers }) => headers.get('webhook-id'))).size).toBe(1)
    await webhooks.close()
  })

  it('continue after a restart', async () => {
    const { sent, webhooks, clock, open } = await stage([503])
    await webhooks.deliver()
    await webhooks.close()
    clock.advance(2_000)
    const next = open()
    expect(await next.deliver()).toBe(1)
    expect(sent).toHaveLength(2)
    await next.close()
  })

  it('leave messages for an unknown receiver to a replica that knows it', async () => {
    const known: Webhook[] = [{ ...OPS, target: 'other' }]
    const { sent, webhooks, open } = await stage([204], OPS, { webhooks: known })
    expect([await webhooks.deliver(), sent.length]).toEqual([0, 0])
    known.push(OPS)
    const reloaded = open()
    expect([await reloaded.deliver(), sent.length]).toEqual([1, 1])
    for (const each of [webhooks, reloaded]) await each.close()
  })

  it('stop when the approval is decided or expired', async () => {
    const answered = await stage([500])
    await answered.webhooks.deliver()
    await answered.store.approvals.decide(yesOf('key:bob', { atMs: 2_500 }))
    answered.clock.advance(10_000)
    await answered.webhooks.deliver()
    expect(answered.sent).toHaveLength(1)
    const late = await stage([])
    late.clock.advance(4_000_000)
    await late.webhooks.deliver()
    expect(late.sent).toHaveLength(0)
    for (const { webhooks } of [answered, late]) await webhooks.close()
  })

  it('rule 23: contain a link only for their approver, and none for an approver who may not decide', async () => {
    const webhook = { ...OPS, approver: 'carol@example.com' }
    const { sent, store, webhooks } = await stage([204], webhook)
    await webhooks.deliver()
    const { link } = JSON.parse(sent[0]?.body ?? '{}').data
    const token = link.replace('https://tools.example/approve/', '')
    expect(readLink(store, token)).toMatchObject({ approver: 'carol@example.com', power: 'decide' })
    await webhooks.close()
    for (const canSignIn of [false, true]) {
      const quorum = await stage([204], webhook, { canSignIn, approval: { quorum: 2 } })
      await quorum.webhooks.deliver()
      expect('link' in JSON.parse(quorum.sent[0]?.body ?? '{}').data).toBe(canSignIn)
      await quorum.webhooks.close()
    }
    // The caller is key:alice, so a fixed approver of that name gets no link.
    const own = await stage([204], { ...OPS, approver: 'alice' })
    await own.webhooks.deliver()
    expect('link' in JSON.parse(own.sent[0]?.body ?? '{}').data).toBe(false)
    await own.webhooks.close()
  })

  it.each(['slack', 'teams'] as const)(
    'are messages with a button in %s, in which a caller cannot mention users',
    async (format) => {
      const summaryJson = JSON.stringify({ note: '<!channel> [pay](https://evil.example) & more' })
      const chat = { ...OPS, format, secret: undefined, approver: 'ops@example.com' }
      const { sent, webhooks } = await stage([], chat, {
        approval: { subject: { ...sampleParking().approval.subject, summaryJson } },
      })
      await webhooks.deliver()
      await webhooks.close()
      const [{ headers, body } = { headers: new Headers(), body: '' }] = sent
      expect(headers.get('webhook-signature')).toBeNull()
      expect(body).toMatch(/"url":"https:\/\/tools\.example\/approve\/[^"]+"/)
      expect(body).toContain('<!channel> [pay](https://evil.example) & more')
      // Only these parts are read as markup.
      expect(body).not.toMatch(/mrkdwn|"TextBlock"/)
    },
  )

  it('contain the full input up to a limit, and its size beyond that', async () => {
    for (const length of [1_000, 100_000]) {
      const inputJson = JSON.stringify({ script: 'x'.repeat(length) })
      const { subject } = sampleParking().approval
      const { sent, webhooks } = await stage([204], OPS, { approval: { subject: { ...subject, inputJson } } })
      await webhooks.deliver()
      const { data } = JSON.parse(sent[0]?.body ?? '{}')
      expect([data.input_bytes, 'input' in data]).toEqual([inputJson.length, length === 1_000])
      await webhooks.close()
    }
  })

  it('are dropped at once if the receiver answers 410, otherwise after a day', async () => {
    const gone = await stage([410])
    await gone.webhooks.deliver()
    gone.clock.advance(DAY_MS)
    expect([await gone.webhooks.deliver(), gone.sent.length]).toEqual([0, 1])
    const [state] = await gone.store.notices.listeners()
    expect(state).toMatchObject({ waiting: 0, givenUp: 1, failure: 'answered 410' })
    const away = await stage([500, 500, 500], OPS, { approval: { expiresAtMs: 9 * DAY_MS } })
    await away.webhooks.deliver()
    expect((await away.store.notices.listeners())[0]).toMatchObject({ waiting: 1, givenUp: 0 })
    away.clock.advance(DAY_MS)
    await away.webhooks.deliver()
    away.clock.advance(DAY_MS)
    expect([await away.webhooks.deliver(), away.sent.length]).toEqual([0, 2])
    for (const { webhooks } of [gone, away]) await webhooks.close()
  })

  it('wait as long as Retry-After of the receiver requires', async () => {
    const busy = new Response(null, { status: 429, headers: { 'retry-after': '60' } })
    const { sent, webhooks, clock } = await stage([busy, 200])
    await webhooks.deliver()
    clock.advance(59_000)
    expect(await webhooks.deliver()).toBe(0)
    clock.advance(1_000)
    await webhooks.deliver()
    expect(sent).toHaveLength(2)
    await webhooks.close()
  })

  it('are not delayed by a receiver that hangs, nor lost if the waiting process stops', async () => {
    const other = { ...OPS, target: 'other', url: 'https://other.example/' }
    const { sent, webhooks, store, clock, open } = await stage(['hang', 204], OPS, { webhooks: [OPS, other] })
    store.notices.listen([OPS, other])
    const round = webhooks.deliver()
    await vi.waitUntil(() => sent.length === 1)
    await store.approvals.park(
      sampleCall({ record: 'record-2', callId: 'call-2', fingerprint: 'f2' }),
      sampleParking({ id: 'approval-2', expiresAtMs: 3_600_000 }),
    )
    expect(await webhooks.deliver()).toBe(1)
    expect(sent.map(({ url }) => url)).toEqual([OPS.url, other.url])
    await webhooks.close()
    await round
    // A stop in the middle of a delivery is not the receiver's failure, so it delays nothing.
    expect((await store.notices.listeners()).map(({ failure }) => failure)).toEqual([undefined, undefined])
    const next = open()
    clock.advance(30_000)
    expect(await next.deliver()).toBe(2)
    expect((await store.notices.listeners()).map(({ delivered }) => delivered)).toEqual([2, 1])
    await next.close()
  })
})

describe('webhooks of other notices', () => {
  const ALL: Webhook = { ...OPS, events: ['*'], kinds: new Set(NOTICE_KINDS) }

  async function sendAll(format: Webhook['format'], more: Stage = {}) {
    const held = await stage([], { ...ALL, format }, { approval: { expiresAtMs: 3_000 }, ...more })
    const { store, webhooks, sent, clock } = held
    await store.approvals.decide(yesOf('key:bob', { reason: 'because' }))
    const event = { type: 'pin.held', at: 2_000, source: 'Mail', hash: 'h', class: 'breaking' } as const
    await store.pins.write({
      ...{ source: 'Mail', seen: 0, pins: [], changesServed: false },
      events: [{ ...event, tool: 'Mail.Send' }],
    })
    const window = { tenant: 'acme', principal: undefined, lengthMs: DAY_MS, startMs: 0 }
    const spent = { calls: 10, milliseconds: 0, cost: 0 }
    await store.budgets.lease(window, spent, { ...spent, milliseconds: 1_000 }, 2_000)
    await webhooks.deliver()
    await webhooks.close()
    await store.close()
    return { sent, nowMs: clock.nowMs() }
  }

  it('name the event and its subject, without content from callers', async () => {
    const { sent } = await sendAll('json')
    const bodies = new Map(sent.map(({ body }) => [JSON.parse(body).type, JSON.parse(body).data]))
    expect([...bodies.keys()].sort()).toEqual(['approval.decided', 'budget.100', 'budget.80', 'pin.held'])
    expect(bodies.get('approval.decided')).toMatchObject({
      ...{ id: 'approval-1', decided: 'granted', decided_by: 'key:bob' },
      url: 'https://tools.example/approvals/approval-1',
    })
    expect(bodies.get('approval.decided')).not.toHaveProperty('input')
    expect(bodies.get('pin.held')).toEqual({
      ...{ source: 'Mail', count: 1 },
      tools: [{ tool: 'Mail.Send', class: 'breaking', hash: 'h' }],
    })
    expect(bodies.get('budget.80')).toEqual({
      ...{ percent: 80, tenant: 'acme', principal: null, window_seconds: 86_400 },
      ...{ resets_at: '1970-01-02T00:00:00.000Z', unit: 'calls', used: 10, limit: 10 },
    })
    expect(sent.every(({ headers }) => headers.get('webhook-signature')?.startsWith('v1,'))).toBe(true)
  })

  it('link to the page of the console that shows the event, if there is one', async () => {
    const consoleUrl = 'https://tools.example/console'
    const { sent } = await sendAll('json', { consoleUrl })
    const urls = sent.map(({ body }) => JSON.parse(body)).map(({ type, data }) => [type, data.url])
    expect(Object.fromEntries(urls)).toMatchObject({
      'pin.held': `${consoleUrl}/sources`,
      'budget.80': `${consoleUrl}/settings`,
      'budget.100': `${consoleUrl}/settings`,
    })
    for (const format of ['slack', 'teams'] as const) {
      const chat = await sendAll(format, { consoleUrl })
      expect(chat.sent.filter(({ body }) => body.includes(`${consoleUrl}/settings`))).toHaveLength(2)
    }
    const call = (record: string) => ({ ...AMBIGUOUS, record })
    const place = (...records: string[]) =>
      noticeContent({ kind: 'call.ambiguous', calls: records.map(call) }, consoleUrl).chat.action?.url
    expect([place('x1'), place('x1', 'x2')]).toEqual([
      `${consoleUrl}/calls/x1`,
      `${consoleUrl}/calls?q=state%3Aambiguous`,
    ])
  })

  it.each(['slack', 'teams'] as const)('are messages in %s', async (format) => {
    const { sent } = await sendAll(format)
    const all = sent.map(({ body }) => body).join('\n')
    for (const text of [
      'was approved',
      '1 changed definition of Mail waits',
      '100 % of a budget of the tenant acme',
    ])
      expect(all).toContain(text)
  })
})
