import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { ApprovalWebhook } from '#core/approvals/approvals'
import { readLink } from '#core/approvals/decisions'
import { SILENT_LOGGER } from '#core/runtime'
import { Secret } from '#core/secret'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { sampleParking, yesOf } from '#testing/approval-store-contract'
import { sampleCall } from '#testing/samples'
import { FakeClock } from '#testing/test-gateway'
import { startApprovalWebhooks } from './approval-webhooks.ts'

const SECRET = 'a-secret-of-the-webhook'
const OPS: ApprovalWebhook = {
  target: 'ops',
  url: 'https://chat.example/hook?k=1',
  secret: new Secret(SECRET),
  approver: undefined,
  format: 'standard',
}

interface Sent {
  readonly url: string
  readonly headers: Headers
  readonly body: string
}

interface Stage {
  /** Where it is told; by default the webhook alone. */
  readonly webhooks?: readonly ApprovalWebhook[]
  readonly canSignIn?: boolean
  readonly approval?: Parameters<typeof sampleParking>[0]
}

/** A store with one parked call to tell of, and a receiver that answers as told. */
async function stage(answers: readonly (number | Error)[], webhook = OPS, more: Stage = {}) {
  const clock = new FakeClock(2_000)
  const store = openMemoryStore()
  const notices = [{ id: 'msg-1', target: 'ops' }]
  await store.approvals.park(
    sampleCall(),
    sampleParking({ notices, expiresAtMs: 3_600_000, ...more.approval }),
  )
  const sent: Sent[] = []
  const fetchLike: typeof fetch = async (url, init) => {
    sent.push({ url: String(url), headers: new Headers(init?.headers), body: String(init?.body) })
    const answer = answers[sent.length - 1] ?? 204
    if (answer instanceof Error) throw answer
    return new Response(null, { status: answer })
  }
  const open = () =>
    startApprovalWebhooks({
      approvals: store.approvals,
      rules: () => ({ webhooks: more.webhooks ?? [webhook] }),
      fetch: fetchLike,
      clock,
      log: SILENT_LOGGER,
      canSignIn: more.canSignIn ?? false,
      publicUrl: () => 'https://tools.example',
    })
  return { clock, store, sent, open, webhooks: open() }
}

describe('webhooks of approvals', () => {
  it('tell of a question once, signed over id, time and body, without anything secret', async () => {
    const { sent, webhooks, clock } = await stage([204])
    expect(await webhooks.deliver()).toBe(1)
    expect(await webhooks.deliver()).toBe(0)
    const [{ url, headers, body } = expect.fail('nothing was sent')] = sent
    expect(url).toBe(OPS.url)
    const timestamp = String(Math.floor(clock.nowMs() / 1_000))
    expect([headers.get('webhook-id'), headers.get('webhook-timestamp')]).toEqual(['msg-1', timestamp])
    const expected = createHmac('sha256', SECRET).update(`msg-1.${timestamp}.${body}`).digest('base64')
    expect(headers.get('webhook-signature')).toBe(`v1,${expected}`)
    expect(JSON.parse(body)).toMatchObject({
      type: 'approval.requested',
      data: { id: 'approval-1', state: 'pending', input: { doorbell_id: 'doorbell42' } },
    })
    expect(body).not.toContain(SECRET)
    expect(JSON.parse(body).data).not.toHaveProperty('link')
    await webhooks.stop()
  })

  it('try again after a refusal and a broken connection, later each time', async () => {
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
    expect(sent.map(({ headers }) => headers.get('webhook-id'))).toEqual(['msg-1', 'msg-1', 'msg-1'])
    await webhooks.stop()
  })

  it('go on after a restart', async () => {
    const { sent, webhooks, clock, open } = await stage([503])
    await webhooks.deliver()
    await webhooks.stop()
    clock.advance(2_000)
    const next = open()
    expect(await next.deliver()).toBe(1)
    expect(sent).toHaveLength(2)
    await next.stop()
  })

  it('leave what is for a receiver they do not know to a replica that does, as long as the question is open', async () => {
    const known = [{ ...OPS, target: 'other' }]
    const { sent, webhooks, clock, open } = await stage([204], OPS, { webhooks: known })
    expect(await webhooks.deliver()).toBe(1)
    clock.advance(2_000)
    known.push(OPS)
    const reloaded = open()
    expect([await reloaded.deliver(), sent.length]).toEqual([1, 1])
    const late = await stage([], OPS, { webhooks: [] })
    await late.webhooks.deliver()
    late.clock.advance(4_000_000)
    expect([await late.webhooks.deliver(), await late.webhooks.deliver()]).toEqual([1, 0])
    late.clock.advance(4_000_000)
    expect([await late.webhooks.deliver(), late.sent]).toEqual([0, []])
    for (const each of [webhooks, reloaded, late.webhooks]) await each.stop()
  })

  it('stop when the question is answered or out of time', async () => {
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
    for (const { webhooks } of [answered, late]) await webhooks.stop()
  })

  it('rule 23: carry a link only for the approver they are for, and none that could not decide', async () => {
    const webhook = { ...OPS, approver: 'carol@example.com' }
    const { sent, store, webhooks } = await stage([204], webhook)
    await webhooks.deliver()
    const { link } = JSON.parse(sent[0]?.body ?? '{}').data
    const token = link.replace('https://tools.example/approve/', '')
    expect(readLink(store.approvals, token)).toMatchObject({ approver: 'carol@example.com', power: 'decide' })
    await webhooks.stop()
    for (const canSignIn of [false, true]) {
      const quorum = await stage([204], webhook, { canSignIn, approval: { quorum: 2 } })
      await quorum.webhooks.deliver()
      expect('link' in JSON.parse(quorum.sent[0]?.body ?? '{}').data).toBe(canSignIn)
      await quorum.webhooks.stop()
    }
    // The call is of key:alice: a fixed approver of that name gets no link to it.
    const own = await stage([204], { ...OPS, approver: 'alice' })
    await own.webhooks.deliver()
    expect('link' in JSON.parse(own.sent[0]?.body ?? '{}').data).toBe(false)
    await own.webhooks.stop()
  })

  it.each(['slack', 'teams'] as const)(
    'are a message with a button in %s, where a caller can mention nobody',
    async (format) => {
      const summaryJson = JSON.stringify({ note: '<!channel> [pay](https://evil.example) & more' })
      const chat = { ...OPS, format, secret: undefined, approver: 'ops@example.com' }
      const { sent, webhooks } = await stage([], chat, {
        approval: { subject: { ...sampleParking().approval.subject, summaryJson } },
      })
      await webhooks.deliver()
      await webhooks.stop()
      const [{ headers, body } = { headers: new Headers(), body: '' }] = sent
      expect(headers.get('webhook-signature')).toBeNull()
      expect(body).toMatch(/"url":"https:\/\/tools\.example\/approve\/[^"]+"/)
      expect(body).toContain('<!channel> [pay](https://evil.example) & more')
      // Only these parts are read as markup.
      expect(body).not.toMatch(/mrkdwn|"TextBlock"/)
    },
  )

  it('hold the whole input up to a bound, and say how large it is beyond', async () => {
    for (const length of [1_000, 100_000]) {
      const inputJson = JSON.stringify({ script: 'x'.repeat(length) })
      const { subject } = sampleParking().approval
      const { sent, webhooks } = await stage([204], OPS, { approval: { subject: { ...subject, inputJson } } })
      await webhooks.deliver()
      const { data } = JSON.parse(sent[0]?.body ?? '{}')
      expect([data.input_bytes, 'input' in data]).toEqual([inputJson.length, length === 1_000])
      await webhooks.stop()
    }
  })
})
