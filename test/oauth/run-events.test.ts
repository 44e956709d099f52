import { describe, expect, it, vi } from 'vitest'
import type { WireRunEvent } from '#protocols/openwop/wire'
import { expectWellFormed } from '../conformance/run-server.ts'
import { Browser } from './browser.ts'
import { AGENT, openStage, type Stage } from './oauth-stage.ts'
import { tamperedStore } from './stage-store.ts'

interface Reported {
  readonly events: readonly WireRunEvent[]
  readonly isComplete: boolean
}

async function eventsOf(stage: Stage, runId: string, query = ''): Promise<readonly WireRunEvent[]> {
  const path = `${stage.url}/v1/runs/${encodeURIComponent(runId)}/events/poll${query}`
  const response = await fetch(path, { headers: { authorization: `Bearer ${AGENT}` } })
  expect(response.status).toBe(200)
  const { events }: Reported = JSON.parse(await response.text())
  if (query === '') expectWellFormed(events, runId)
  return events
}

function typesOf(events: readonly WireRunEvent[]): readonly string[] {
  return events.map(({ type, payload: { status, outcome } }) =>
    [type, status ?? outcome].filter(Boolean).join(' '),
  )
}

const ASKED = ['interrupt.requested', 'node.suspended']
const GRANTED = ['connector.authorized', 'interrupt.resolved granted']
const RAN = ['agent.toolCalled', 'agent.toolReturned ok']

describe('the run of a call that lacks a consent', () => {
  it('OWP-45, OWP-64, OWP-78, OWP-79: has events of the interrupt, the authorization and the call, without a secret', async () => {
    await using stage = await openStage()
    const { id, url } = await stage.challenge({ callId: 'c1', run: 'mails' })
    const [question, suspended] = await eventsOf(stage, 'mails')
    const key = `mails:${question?.nodeId}:${id}`
    expect(question).toMatchObject({
      type: 'interrupt.requested',
      payload: {
        runId: 'mails',
        nodeId: question?.nodeId,
        interruptId: `int_${id}`,
        kind: 'approval',
        key,
        timeoutMs: expect.any(Number),
        data: {
          gateId: `gate_${id}`,
          reason: 'authorization-required',
          provider: 'mailer',
          scopes: ['mail.read'],
          url,
          artifactId: 'call:c1',
          title: 'Authorize mailer for openwop:Mail.Read',
        },
      },
    })
    expect(suspended?.payload).toEqual({
      nodeId: question?.nodeId,
      interruptId: `int_${id}`,
      kind: 'approval',
      key,
    })
    const waiting = eventsOf(stage, 'mails', '?lastSequence=1&timeout=30')
    const browser = new Browser()
    await browser.visit(url, { login: 'ann' })
    expect(typesOf(await waiting)).toEqual(GRANTED)
    expect((await stage.call({ callId: 'c1', run: 'mails' })).value).toBe('mail')
    const events = await eventsOf(stage, 'mails')
    expect(typesOf(events)).toEqual([...ASKED, ...GRANTED, ...RAN])
    expect(events[2]?.payload).toEqual({
      provider: 'mailer',
      credentialRef: expect.stringMatching(/^cred_/),
      scopes: expect.arrayContaining(['mail.read']),
    })
    const reported = JSON.stringify(events)
    const back = browser.visited.find((visited) => visited.includes('/oauth/callback')) ?? ''
    for (const name of ['code', 'state']) {
      const value = new URL(back).searchParams.get(name) ?? expect.fail(`no ${name}`)
      expect(reported).not.toContain(value)
    }
    for (const { token } of stage.given) expect(reported).not.toContain(token)
    expect(reported).not.toContain('/oauth/callback')
  })

  it('OWP-65: has one interrupt per call, however often the call is repeated', async () => {
    await using stage = await openStage()
    for (let time = 0; time < 25; time += 1) {
      const { headers } = await stage.call({ callId: 'c1', run: 'mails' })
      expect(headers.get('collet-run')).toBe('mails')
    }
    await stage.call({ callId: 'c2', run: 'mails' })
    const events = await eventsOf(stage, 'mails')
    expect(typesOf(events)).toEqual([...ASKED, ...ASKED])
    expect(new Set(events.map(({ payload }) => payload.key)).size).toBe(2)
  })

  it('OWP-50, OWP-99: a call outside any run gets its own run, which its answer names, and continues in it', async () => {
    await using stage = await openStage()
    const refused = await stage.call({ callId: 'c1' })
    const runId = refused.headers.get('collet-run') ?? expect.fail('no run')
    expect(typesOf(await eventsOf(stage, runId))).toEqual(ASKED)
    await new Browser().visit((await stage.challenge({ callId: 'c1' })).url, { login: 'ann' })
    expect(typesOf(await eventsOf(stage, runId))).toEqual([...ASKED, ...GRANTED])
    expect((await stage.call({ callId: 'c1' })).headers.get('collet-run')).toBe(runId)
    expect(typesOf(await eventsOf(stage, runId))).toEqual([...ASKED, ...GRANTED, ...RAN])
    expect((await eventsOf(stage, runId, '?lastSequence=4')).map(({ sequence }) => sequence)).toEqual([5])
  })

  it('OWP-78: a refused consent is recorded as a rejection, and nothing is authorized', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge({ callId: 'c1', run: 'mails' })
    await new Browser().visit(url, { login: 'ann', denies: true })
    const events = await eventsOf(stage, 'mails')
    expect(typesOf(events)).toEqual([...ASKED, 'interrupt.resolved rejected'])
    expect(events.at(-1)?.payload).toMatchObject({ reason: 'denied', resumeValue: { action: 'reject' } })
  })

  it('OWP-78: a refused refresh is recorded, and consent is requested again', async () => {
    await using stage = await openStage()
    await new Browser().visit((await stage.challenge()).url, { login: 'ann' })
    await tamperedStore(stage, async (store) => store.expireTokens('no-such-refresh-token'))
    const refused = await stage.call({ callId: 'r1', run: 'mails' })
    expect(refused.json.developer_message).toContain('connector_auth_expired')
    const events = await eventsOf(stage, 'mails')
    expect(typesOf(events)).toEqual(['connector.auth_expired', ...ASKED])
    expect(events[0]?.payload).toEqual({ provider: 'mailer' })
    await new Browser().visit((await stage.challenge({ callId: 'r1', run: 'mails' })).url, { login: 'ann' })
    expect((await stage.call({ callId: 'r1', run: 'mails' })).value).toBe('mail')
    expect(typesOf(await eventsOf(stage, 'mails')).slice(3)).toEqual([...GRANTED, ...RAN])
  })

  it('OWP-79: a token from the caller resolves the interrupt without a stored credential', async () => {
    await using stage = await openStage()
    await stage.call({ callId: 'c1', run: 'mails' })
    await stage.call({ callId: 'c1', run: 'mails', token: 'brought-along' })
    expect(typesOf(await eventsOf(stage, 'mails'))).toEqual([...ASKED, 'interrupt.resolved granted', ...RAN])
  })

  it('rule 16: events are in the store, where other processes read them too', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge({ callId: 'c1', run: 'mails' })
    const second = await openStage({ again: stage })
    try {
      const page = await new Browser().visit(url.replace(stage.url, second.url), {
        login: 'ann',
        clicks: false,
      })
      expect(page.status).toBe(200)
      expect(typesOf(await eventsOf(second, 'mails'))).toEqual(ASKED)
    } finally {
      await second.closeServer()
    }
    await new Browser().visit(url, { login: 'ann' })
    await vi.waitFor(async () =>
      expect(typesOf(await eventsOf(stage, 'mails'))).toEqual([...ASKED, ...GRANTED]),
    )
  })

  it('OWP-66: only a user at the provider resolves it', async () => {
    await using stage = await openStage()
    await stage.call({ callId: 'c1', run: 'mails' })
    const [question] = await eventsOf(stage, 'mails')
    const answer = await fetch(`${stage.url}/v1/runs/mails/interrupts/${question?.nodeId}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${AGENT}`, 'content-type': 'application/json' },
      body: JSON.stringify({ resumeValue: { action: 'accept' } }),
    })
    expect([answer.status, await answer.json()]).toMatchObject([403, { error: 'forbidden' }])
    expect(typesOf(await eventsOf(stage, 'mails'))).toEqual(ASKED)
  })
})
