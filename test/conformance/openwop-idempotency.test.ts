import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '#server/start-server'
import { type ApprovalServer, startApprovalServer } from '../server/approval-stage.ts'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { KEYS, TWO_TENANTS } from './openwop-fixtures.ts'
import type { OpenwopAnswer } from './openwop-server.ts'
import { type RunServer, startRunServer } from './run-server.ts'
import { runTools } from './run-tools.ts'

const PUSH = 'openwop:Box.Push'
const REPLAY = 'openwop-idempotent-replay'

function isReplay({ headers }: OpenwopAnswer): boolean {
  return headers[REPLAY] === 'true'
}

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('Idempotency-Key on %s', (_store, settingsOf) => {
  let server: RunServer
  beforeAll(async () => {
    const bindUser = (_principal: unknown, userId: string) => userId !== 'forbidden'
    server = await startRunServer({ settingsOf, hooks: { bindUser } })
  })
  afterAll(() => server.close())

  const send = (method: string, path: string, id: string, { body = '', key = KEYS.root as string } = {}) =>
    server.ask(path, {
      ...{ method, key, headers: { 'content-type': 'application/json', 'idempotency-key': id } },
      ...(body === '' ? {} : { body }),
    })
  const open = (id: string, body: object, key?: string) =>
    send('POST', '/v1/sessions', id, { body: JSON.stringify(body), ...(key === undefined ? {} : { key }) })

  it('OWP-92: a session opened twice with one key is one session, answered twice', async () => {
    const before = server.done.length
    const first = await open('open-1', { toolId: PUSH, runId: 'keyed' })
    const again = await open('open-1', { runId: 'keyed', toolId: PUSH })
    expect([first.status, again.status, isReplay(first), isReplay(again)]).toEqual([201, 201, false, true])
    expect(again.text).toBe(first.text)
    expect(again.headers['content-type']).toBe(first.headers['content-type'])
    expect(server.done.slice(before)).toEqual(['open Box.Push'])
    const { status, json } = await open('open-1', { toolId: PUSH, runId: 'another' })
    expect([status, json.error]).toEqual([409, 'idempotency_key_mismatch'])
    const without = await server.open({ toolId: PUSH, runId: 'keyed' })
    expect([without.status, isReplay(without)]).toEqual([201, false])
    expect(without.json.sessionId).not.toBe(first.json.sessionId)
  })

  it('OWP-92: concurrent requests with one key open one session', async () => {
    const before = server.done.length
    const answers = await Promise.all(Array.from({ length: 8 }, () => open('at once', { toolId: PUSH })))
    const opened = answers.filter(({ status }) => status === 201)
    expect(new Set(opened.map(({ text }) => text)).size).toBe(1)
    expect(opened.filter((answer) => !isReplay(answer))).toHaveLength(1)
    for (const { status, json } of answers)
      if (status !== 201) expect(json.error).toBe('idempotency_in_flight')
    expect(server.done.slice(before)).toEqual(['open Box.Push'])
  })

  it('OWP-92: the key of another principal, and of another tenant, is another key', async () => {
    const first = await open('shared', { toolId: PUSH })
    const others = [
      await open('shared', { toolId: PUSH }, KEYS.narrow),
      await open('shared', { toolId: PUSH }, KEYS.other),
    ]
    for (const other of others) {
      expect(isReplay(other)).toBe(false)
      expect(other.text).not.toBe(first.text)
    }
  })

  it('OWP-92: a repeated DELETE is answered again, and performed once', async () => {
    const { json } = await open('to close', { toolId: PUSH, runId: 'to end' })
    const path = `/v1/sessions/${json.sessionId}`
    const closed = [await send('DELETE', path, 'close'), await send('DELETE', path, 'close')]
    expect(closed.map((answer) => [answer.status, isReplay(answer)])).toEqual([
      [204, false],
      [204, true],
    ])
    expect((await send('DELETE', path, 'close again')).status).toBe(404)
    const run = `/v1/runs/${encodeURIComponent('to end')}`
    const ended = [await send('DELETE', run, 'close'), await send('DELETE', run, 'close')]
    expect(ended.map((answer) => [answer.status, isReplay(answer)])).toEqual([
      [204, false],
      [204, true],
    ])
  })

  it('OWP-92: a request that is refused as invalid, unauthenticated or forbidden does not use the key', async () => {
    expect((await open('freed', { toolId: 5 })).status).toBe(400)
    expect((await open('freed', { toolId: PUSH }, 'no-such-key')).status).toBe(401)
    expect((await open('freed', { toolId: PUSH, userId: 'forbidden' })).status).toBe(403)
    const taken = await open('freed', { toolId: PUSH })
    expect([taken.status, isReplay(taken)]).toEqual([201, false])
    expect((await open('x'.repeat(257), { toolId: PUSH })).json.error).toBe('validation_error')
  })

  it('OWP-92: GET ignores the header', async () => {
    await open('looked', { toolId: PUSH, runId: 'looked at' })
    const path = `/v1/runs/${encodeURIComponent('looked at')}/events/poll`
    const first = await send('GET', path, 'get')
    await open('more', { toolId: PUSH, runId: 'looked at' })
    const second = await send('GET', path, 'get')
    expect([isReplay(first), isReplay(second)]).toEqual([false, false])
    expect([first.json.events.length, second.json.events.length]).toEqual([1, 2])
  })
})

describe('Idempotency-Key across a restart', () => {
  it('OWP-92: the answer is the same', async () => {
    const settings = sqliteSettings({ tools: runTools().tools, auth: TWO_TENANTS })
    const open = async () => {
      const server = await startServer(settings, { graceMs: 0 })
      const response = await fetch(`${server.url}/v1/sessions`, {
        method: 'POST',
        body: JSON.stringify({ toolId: PUSH }),
        headers: {
          authorization: `Bearer ${KEYS.root}`,
          'content-type': 'application/json',
          'idempotency-key': 'restarted',
        },
      })
      const text = await response.text()
      await server.close()
      return [response.status, response.headers.get(REPLAY), text]
    }
    const [status, replay, text] = await open()
    expect([status, replay]).toEqual([201, null])
    expect(await open()).toEqual([201, 'true', text])
    rmSync(settings.dataFolder, { recursive: true })
  })
})

describe('Idempotency-Key on interrupts', () => {
  let server: ApprovalServer
  beforeAll(async () => {
    server = await startApprovalServer({}, sqliteSettings)
  })
  afterAll(() => server.close())

  const resolve = (path: string, as: 'bob' | 'eve' | undefined, action = 'accept') =>
    server.ask(path, {
      ...{ as, body: { resumeValue: { action } }, headers: { 'idempotency-key': 'decision' } },
    })

  it('OWP-92: a decision repeated with its key gets the first answer', async () => {
    const { runId } = await server.park('keyed-yes')
    const { json } = await server.ask(`/v1/runs/${encodeURIComponent(runId)}/events/poll`, { as: 'alice' })
    const nodeId = json.events.find(({ type }: { type: string }) => type === 'interrupt.requested')?.nodeId
    const path = `/v1/runs/${encodeURIComponent(runId)}/interrupts/${nodeId}`
    const first = await resolve(path, 'bob')
    const again = await resolve(path, 'bob')
    expect([first.status, first.headers.get(REPLAY)]).toEqual([200, null])
    expect([again.status, again.headers.get(REPLAY), again.text]).toEqual([200, 'true', first.text])
    const changed = await resolve(path, 'bob', 'reject')
    expect([changed.status, changed.json.error]).toEqual([409, 'idempotency_key_mismatch'])
    const other = await resolve(path, 'eve')
    expect([other.status, other.json.error]).toEqual([409, 'interrupt_already_resolved'])
  })

  it('OWP-92: a decision with a signed link is replayed too; an invalid token stores nothing', async () => {
    const { id } = await server.park('keyed-link')
    const { json } = await server.ask(`/admin/approvals/${id}/link`, {
      as: 'bob',
      body: { approver: 'carol' },
    })
    const path = `/v1/interrupts/${json.token}`
    const first = await resolve(path, undefined)
    const again = await resolve(path, undefined)
    expect([first.status, again.status, again.headers.get(REPLAY)]).toEqual([200, 200, 'true'])
    for (let time = 0; time < 2; time += 1) {
      const unknown = await resolve('/v1/interrupts/nobody', undefined)
      expect([unknown.status, unknown.headers.get(REPLAY)]).toEqual([404, null])
    }
  })
})
