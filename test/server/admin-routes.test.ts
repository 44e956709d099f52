import { afterEach, describe, expect, it } from 'vitest'
import { createAuthenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import type { CallPage, CallRecord, Settlement, SettleResult } from '#kernel/call/call-record'
import { createOperatorAccess } from '#server/admin/access'
import { createCallRoutes } from '#server/admin/calls'
import type { CallFilter } from '#store/call-filter'
import type { SummaryAccess } from '#store/calls/call-search'
import type { CallInput, InputAccess, TallyPage } from '#store/operator-views'
import { echoRoutes, startApp, stopApps } from './start-app.ts'

afterEach(stopApps)

const START_TOKEN = 'the-start-token'

const key = (id: string, tenant: string, scopes: string[]) => ({
  id,
  key: new Secret(`k-${id}`),
  tenant,
  scopes,
})
const AUTH: Settings['auth'] = {
  apiKeys: [
    key('settler', 'acme', ['calls:settle']),
    key('lister', 'acme', ['admin:*']),
    key('reader', 'acme', ['admin:calls', 'calls:read']),
    key('plain', 'acme', []),
    key('stranger', 'other', ['calls:settle', 'admin:calls']),
  ],
  jwt: undefined,
}

const call = (record: string, tenant: string): CallRecord => ({
  tenant,
  record,
  principal: 'key:ann',
  callId: `call-${record}`,
  runId: undefined,
  run: undefined,
  sessionId: undefined,
  toolId: 'openwop:Mail.Send',
  transport: 'native',
  argsHash: '',
  traceId: 't',
  userId: undefined,
  protocol: undefined,
  fingerprint: 'f',
  tool: 'Mail.Send@1.0.0',
  definitionHash: 'h',
  tier: 'write',
  replay: 'non-deterministic',
  rerunUntilMs: 0,
  state: 'ambiguous',
  attempt: 1,
  writer: 'w',
  createdAtMs: 0,
  finishedAtMs: undefined,
  outcome: undefined,
  expired: false,
  parent: undefined,
  root: undefined,
  resumable: false,
  waitsFor: undefined,
  late: { ok: true, valueJson: '"late s3cr3t"', durationMs: 1 },
})

class FakeCalls {
  readonly records = [call('r1', 'acme'), call('r2', 'other')]
  readonly settled: Settlement[] = []
  readonly filters: CallFilter[] = []
  readonly looks: InputAccess[] = []
  result: SettleResult = 'settled'
  readonly approvals = { findFor: () => undefined }

  list(filter: CallFilter): CallPage {
    this.filters.push(filter)
    return { calls: this.records }
  }
  findByPrefix(prefix: string): readonly CallRecord[] {
    return this.records.filter(({ record }) => record.startsWith(prefix))
  }
  findByRecords(records: readonly string[]): readonly CallRecord[] {
    return this.records.filter(({ record }) => records.includes(record))
  }
  newestCallers(): readonly [] {
    return []
  }
  recordOfApproval(): undefined {
    return undefined
  }
  digest(text: string): string {
    return text
  }
  async readInputs({ records, by, atMs }: SummaryAccess): Promise<ReadonlyMap<string, string>> {
    for (const record of records) this.looks.push({ record, by, atMs })
    return new Map(records.map((record) => [record, '{"to":"s3cr3t","password":"hunter2"}']))
  }
  readonly callLogs = { add: async () => undefined, read: () => [] }
  readonly rejections = { add: async () => undefined, list: () => [], count: () => [] }

  tally(): TallyPage {
    return { rows: [] }
  }
  journalOf(): readonly [] {
    return []
  }
  stepsOf(): readonly CallRecord[] {
    return []
  }
  readRun(): readonly [] {
    return []
  }
  async readInput(look: InputAccess): Promise<CallInput> {
    this.looks.push(look)
    return { json: '{"to":"s3cr3t"}' }
  }
  findByRecord(record: string): CallRecord | undefined {
    return this.records.find((item) => item.record === record)
  }
  isWriterAlive(): boolean {
    return true
  }
  async settle(settlement: Settlement): Promise<SettleResult> {
    this.settled.push(settlement)
    return this.result
  }
}

async function start(auth: Settings['auth'] = AUTH) {
  const calls = new FakeCalls()
  const authenticator = createAuthenticator(auth, SYSTEM_CLOCK)
  const startToken = { matches: (presented: string) => presented === START_TOKEN }
  const access = createOperatorAccess({ startToken, authenticator })
  const admin = createCallRoutes(access, { calls, clock: SYSTEM_CLOCK })
  const app = await startApp({ authenticator, routes: [...echoRoutes(), ...admin] })
  const ask = async (path: string, credential: string | undefined, body?: object) => {
    const headers = {
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    }
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const response = await fetch(`${app.url}${path}`, { headers, ...sent })
    return { status: response.status, body: JSON.parse(await response.text()) }
  }
  return { calls, ask }
}

const SETTLE = '/admin/calls/r1/settle'
const GOOD = { as: 'not-run', why: 'looked into the mailbox' }

describe('settling (rule 12)', () => {
  it('rule 29: accepts the start token, and records the actor and the reason', async () => {
    const { ask, calls } = await start()
    const { status, body } = await ask(SETTLE, START_TOKEN, GOOD)
    expect([status, body]).toEqual([200, { record: 'r1', settled_as: 'not-run' }])
    expect(calls.settled[0]).toMatchObject({ record: 'r1', ...GOOD, who: 'operator', valueJson: undefined })
  })

  it('accepts a principal with the scope calls:settle', async () => {
    const { ask, calls } = await start()
    expect((await ask(SETTLE, 'k-settler', GOOD)).status).toBe(200)
    expect(calls.settled[0]?.who).toBe('key:settler')
  })

  it('rule 29: refuses a request from loopback without a credential', async () => {
    const { ask, calls } = await start({ apiKeys: [], jwt: undefined })
    for (const credential of [undefined, 'guess']) {
      const { status, body } = await ask(SETTLE, credential, GOOD)
      expect([status, body.message]).toEqual([401, expect.stringContaining('start-token')])
    }
    expect((await ask(SETTLE, START_TOKEN, GOOD)).status).toBe(200)
    expect(calls.settled).toHaveLength(1)
  })

  it('refuses other principals: 401 unknown, 403 without the scope, 404 of another tenant', async () => {
    const { ask, calls } = await start()
    expect((await ask(SETTLE, undefined, GOOD)).status).toBe(401)
    expect((await ask(SETTLE, 'guess', GOOD)).status).toBe(401)
    expect((await ask(SETTLE, 'k-plain', GOOD)).status).toBe(403)
    expect((await ask(SETTLE, 'k-lister', GOOD)).status).toBe(403)
    expect((await ask(SETTLE, 'k-stranger', GOOD)).status).toBe(404)
    expect(calls.settled).toEqual([])
  })

  it('rule 12: carries a value only with succeeded, and a failure only with failed', async () => {
    const { ask, calls } = await start()
    await ask(SETTLE, START_TOKEN, { as: 'succeeded', value: { id: 1 }, why: 'log' })
    await ask(SETTLE, START_TOKEN, { as: 'succeeded', value: null, why: 'log' })
    await ask(SETTLE, START_TOKEN, { as: 'succeeded', why: 'log' })
    await ask(SETTLE, START_TOKEN, { as: 'failed', why: 'log' })
    expect(calls.settled.map((item) => [item.valueJson, item.error?.code])).toEqual([
      ['{"id":1}', undefined],
      ['null', undefined],
      [undefined, undefined],
      [undefined, 'tool_failed'],
    ])
  })

  it.each([
    undefined,
    [],
    {},
    { as: 'done', why: 'x' },
    { as: 'failed' },
    { as: 'failed', why: ' ' },
    { as: 'failed', why: 'x'.repeat(1_001) },
    { as: 'failed', why: 'x', value: 1 },
    { as: 'failed', why: 'x', who: 'me' },
    { as: 'failed', why: 7 },
  ])('refuses %j with 400', async (body) => {
    const { ask, calls } = await start()
    expect((await ask(SETTLE, START_TOKEN, body ?? [])).status).toBe(400)
    expect(calls.settled).toEqual([])
  })

  it('distinguishes a call that does not exist from one that is not ambiguous', async () => {
    const { ask, calls } = await start()
    expect((await ask('/admin/calls/none/settle', START_TOKEN, GOOD)).status).toBe(404)
    calls.result = 'not_ambiguous'
    const { status, body } = await ask(SETTLE, START_TOKEN, GOOD)
    expect([status, body.message]).toEqual([400, expect.stringContaining('not ambiguous')])
  })
})

describe('showing one call', () => {
  it('shows input and outcome to the scope calls:read, and records the reader', async () => {
    const { ask, calls } = await start()
    const { status, body } = await ask('/admin/calls/r1', 'k-reader')
    expect(status).toBe(200)
    expect(body.call).toMatchObject({
      record: 'r1',
      contents: 'shown',
      input: { to: 's3cr3t' },
      late_outcome: { ok: true, value: 'late s3cr3t' },
      timeline: [{ event: 'called' }, { event: 'returned', facts: { code: 'ambiguous' } }],
    })
    expect(calls.looks).toMatchObject([{ record: 'r1', by: 'key:reader' }])
  })

  it('shows everything else to the scope admin:calls, and records no reader', async () => {
    const { ask, calls } = await start()
    const { body } = await ask('/admin/calls/r1', 'k-lister')
    expect(body.call).toMatchObject({ record: 'r1', contents: 'hidden' })
    expect(JSON.stringify(body)).not.toContain('s3cr3t')
    expect(calls.looks).toEqual([])
  })

  it.each([
    ['k-stranger', 404],
    ['k-settler', 403],
    ['k-plain', 403],
    [undefined, 401],
  ])('does not show it to %s', async (credential, status) => {
    const { ask, calls } = await start()
    expect((await ask('/admin/calls/r1', credential)).status).toBe(status)
    expect(calls.looks).toEqual([])
  })
})

describe('listing', () => {
  it('shows the operator every tenant, without contents', async () => {
    const { ask, calls } = await start()
    const { status, body } = await ask('/admin/calls?state=ambiguous&limit=5', START_TOKEN)
    expect(status).toBe(200)
    expect(body.calls).toHaveLength(2)
    expect(body.calls[0]).toMatchObject({
      record: 'r1',
      tool: 'Mail.Send@1.0.0',
      state: 'ambiguous',
      has_late_result: true,
    })
    expect(JSON.stringify(body)).not.toContain('s3cr3t')
    expect(calls.filters).toEqual([{ states: ['ambiguous'], limit: 5 }])
  })

  it('reads every filter', async () => {
    const { ask, calls } = await start()
    const query = new URLSearchParams({
      ...{ tenant: 't', principal: 'key:ann', tool: 'Mail.Send', before: '9' },
      ...{ since: '1970-01-01T00:00:01Z', until: '1970-01-01T00:00:02Z', slow: '250', quick: '900' },
      ...{ state: 'error,parked' },
    })
    const { body } = await ask(`/admin/calls?${query}`, START_TOKEN)
    expect(body.next).toBe(null)
    expect(calls.filters).toMatchObject([
      {
        ...{ tenant: 't', principal: 'key:ann', tool: 'Mail.Send', before: 9 },
        ...{ sinceMs: 1_000, untilMs: 2_000, took: { minMs: 250, belowMs: 900 }, limit: 100 },
        states: ['failed', 'released', 'ambiguous', 'parked'],
      },
    ])
    await ask('/admin/calls?tenant=other', 'k-lister')
    expect(calls.filters[1]).toEqual({ limit: 100, tenant: 'acme' })
    expect((await ask('/admin/calls?record=r1', START_TOKEN)).body.calls).toHaveLength(1)
  })

  it('shows a principal with the scope admin:calls its own tenant', async () => {
    const { ask, calls } = await start()
    const { body } = await ask('/admin/calls', 'k-lister')
    expect(body.calls.map((item: { record: string }) => item.record)).toEqual(['r1'])
    expect(calls.filters).toEqual([{ limit: 100, tenant: 'acme' }])
    expect((await ask('/admin/calls', 'k-settler')).status).toBe(403)
    expect((await ask('/admin/calls', undefined)).status).toBe(401)
  })

  it.each([
    ...['state=odd', 'state=constructor', 'limit=0', 'limit=1001', 'limit=x', 'limit=1.5'],
    ...['since=yesterday', 'until=x', 'slow=-1', 'slow=1s', 'before=last'],
  ])('refuses ?%s with 400', async (query) => {
    const { ask } = await start()
    expect((await ask(`/admin/calls?${query}`, START_TOKEN)).status).toBe(400)
  })
})

describe('the start token', () => {
  it('rule 29: is refused on every other route', async () => {
    const { ask } = await start()
    expect((await ask('/tools', START_TOKEN)).status).toBe(401)
  })

  it('lists show the beginnings of inputs only with calls:read, and journal it', async () => {
    const { ask, calls } = await start()
    expect((await ask('/admin/calls?inputs=yes', 'k-lister')).status).toBe(403)
    expect(calls.looks).toEqual([])
    const { body } = await ask('/admin/calls?inputs=yes', START_TOKEN)
    expect(body.calls[0]).toMatchObject({ input_summary: 'to: "s3cr3t", password: [hidden]' })
    expect(calls.looks.map(({ record, by }) => [record, by])).toEqual([
      ['r1', 'operator'],
      ['r2', 'operator'],
    ])
  })
  it('some records are listed by their ids, within the tenant', async () => {
    const { ask } = await start()
    const listed = async (who: string) =>
      (await ask('/admin/calls?records=r2,r1,none', who)).body.calls.map(
        ({ record }: { record: string }) => record,
      )
    expect(await listed('k-lister')).toEqual(['r1'])
    expect(await listed(START_TOKEN)).toEqual(['r1', 'r2'])
    const many = Array.from({ length: 101 }, (_, n) => `r${n}`).join(',')
    expect((await ask(`/admin/calls?records=${many}`, START_TOKEN)).status).toBe(400)
  })
})
