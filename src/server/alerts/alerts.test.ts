import { createServer, type Server } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { adHocWebhook } from '#config/webhooks'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { startAlerts } from '#server/alerts/alerts'
import { startOutbox } from '#server/webhooks/outbox'
import type { SourceView } from '#sources/kit/sources'
import type { Store } from '#store/collet-store'
import { failure, sampleCall, success } from '../../../test/contracts/samples.ts'
import { openStoreFolder, type StoreFolder } from '../../../test/store/store-folder.ts'

const MINUTE_MS = 60_000
const UNLIMITED = Number.MAX_SAFE_INTEGER

type Rules = NonNullable<Settings['alerts']>

interface Came {
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

const came: Came[] = []
let receiver: Server
let url = ''

beforeAll(async () => {
  receiver = createServer(async (request, response) => {
    came.push(JSON.parse(await text(request)))
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const address = receiver.address()
  url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/`
})
afterAll(() => receiver.close())
beforeEach(() => {
  came.length = 0
})

/** A replica with alerts and webhooks, whose clock and sources the test controls. */
class Replica {
  readonly store: Store
  readonly #folder: StoreFolder
  readonly #alerts: ReturnType<typeof startAlerts>
  readonly #outbox: ReturnType<typeof startOutbox>
  #calls = 0

  constructor(folder: StoreFolder, shared: { nowMs: number; rules: Rules; sources: SourceView[] }) {
    this.#folder = folder
    this.store = folder.open()
    const webhook = adHocWebhook(url, 'json')
    const clock = { nowMs: () => shared.nowMs, monotonicMs: () => shared.nowMs }
    this.store.rollups.collect()
    this.store.notices.listen([webhook])
    this.#alerts = startAlerts({
      ...{ store: this.store, clock, log: SILENT_LOGGER },
      rules: () => shared.rules,
      budgets: () => [{ for: 'tenant', of: undefined, windowMs: 60 * MINUTE_MS, limit: LIMIT }],
      sources: () => shared.sources,
    })
    this.#outbox = startOutbox({
      ...{ store: this.store, fetch, clock, log: SILENT_LOGGER, canSignIn: false },
      webhooks: () => [webhook],
      publicUrl: () => 'https://tools.example',
      consoleUrl: () => 'https://tools.example/console',
    })
  }

  async call(state: 'succeeded' | 'failed', atMs: number, tool = 'Mail.Send@1.0.0'): Promise<void> {
    this.#calls += 1
    const record = `${this.store.writer} ${this.#calls}`
    const outcome = state === 'failed' ? failure(false) : success('1')
    await this.store.insertFinished(sampleCall({ record, callId: record, tool }), { state, outcome, atMs })
  }

  async check(): Promise<void> {
    await this.#alerts.check()
    await this.#outbox.deliver()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#alerts.close(), this.#outbox.close()])
    await this.store.rollups.flush()
    await this.#folder.leaveBehind(this.store)
  }
}

const LIMIT = { calls: 100, milliseconds: UNLIMITED, cost: UNLIMITED }
const ERRORS: Rules[number] = {
  when: 'error-rate',
  above: 10,
  tool: 'Mail.Send',
  window: 5 * MINUTE_MS,
  minCalls: 4,
}
const types = () => came.map(({ type }) => type)

function source(key: string, state: SourceView['state'], sinceMs: number): SourceView {
  return {
    ...{ key, type: 'mcp', kind: 'mcp', state, sinceMs, tools: 1, prompts: 0, templates: 0, skills: 0 },
    ...{ offered: 1, waiting: 0, warnings: [], findings: [], toolWarnings: [], ineffective: [] },
  }
}

describe('alerts', () => {
  it('report an error rate when it begins and when it is over, once, and not again after a restart', async () => {
    const shared = { nowMs: 100 * MINUTE_MS, rules: [ERRORS], sources: [] }
    const folder = openStoreFolder(() => shared.nowMs)
    const first = new Replica(folder, shared)
    for (let nth = 0; nth < 3; nth += 1) await first.call('failed', shared.nowMs)
    await first.call('failed', shared.nowMs, 'Other.Tool@1.0.0')
    await first.check()
    expect(types()).toEqual([])
    await first.call('succeeded', shared.nowMs)
    await first.check()
    await first.check()
    expect(came).toEqual([
      {
        type: 'alert.started',
        timestamp: new Date(shared.nowMs).toISOString(),
        data: {
          ...{ name: 'error rate of Mail.Send', condition: 'error-rate', tool: 'Mail.Send', tenant: null },
          ...{ window_seconds: 300, above_percent: 10, percent: 75, calls: 4, errors: 3 },
          url: 'https://tools.example/console/calls?q=status%3Aerror%20tool%3AMail.Send',
        },
      },
    ])
    await first.stop()

    const second = new Replica(folder, shared)
    await second.check()
    expect(types()).toEqual(['alert.started'])
    shared.nowMs += 10 * MINUTE_MS
    // One call that fails is too little to say that it is over.
    await second.call('failed', shared.nowMs)
    await second.check()
    expect(types()).toEqual(['alert.started'])
    for (let nth = 0; nth < 20; nth += 1) await second.call('succeeded', shared.nowMs)
    await second.check()
    await second.check()
    expect(types()).toEqual(['alert.started', 'alert.ended'])
    expect(came[1]?.data).toMatchObject({
      reason: 'recovered',
      percent: 4.8,
      started_at: '1970-01-01T01:40:00.000Z',
    })
    await second.stop()
  })

  it('are sent once by replicas that check at the same time', async () => {
    const shared = { nowMs: 100 * MINUTE_MS, rules: [ERRORS], sources: [] }
    const folder = openStoreFolder(() => shared.nowMs)
    const replicas = [new Replica(folder, shared), new Replica(folder, shared)]
    for (const replica of replicas)
      for (let nth = 0; nth < 4; nth += 1) await replica.call('failed', shared.nowMs)
    for (const { store } of replicas) await store.rollups.flush()
    await Promise.all(replicas.map((replica) => replica.check()))
    await Promise.all(replicas.map((replica) => replica.check()))
    expect(types()).toEqual(['alert.started'])
    expect(came[0]?.data).toMatchObject({ calls: 8, errors: 8 })
    shared.nowMs += 10 * MINUTE_MS
    await Promise.all(replicas.map((replica) => replica.check()))
    await Promise.all(replicas.map((replica) => replica.check()))
    expect(types()).toEqual(['alert.started', 'alert.ended'])
    for (const replica of replicas) await replica.stop()
  })

  it('report a source that is down for long enough; a restart alone neither ends nor repeats it', async () => {
    const downAt = 100 * MINUTE_MS
    const rule: Rules[number] = { when: 'source-down', after: 5 * MINUTE_MS }
    const shared = {
      nowMs: downAt + 4 * MINUTE_MS,
      rules: [rule],
      sources: [source('Files', 'down', downAt)],
    }
    const folder = openStoreFolder(() => shared.nowMs)
    const first = new Replica(folder, shared)
    await first.check()
    expect(types()).toEqual([])
    shared.nowMs += 2 * MINUTE_MS
    await first.check()
    expect(came[0]).toMatchObject({
      type: 'alert.started',
      data: {
        name: 'source Files',
        source: 'Files',
        since: '1970-01-01T01:40:00.000Z',
        url: 'https://tools.example/console/sources',
      },
    })
    // Another replica that reaches the source does not end the alert of this one.
    const other = new Replica(folder, { ...shared, sources: [source('Files', 'ready', 0)] })
    await other.check()
    expect(types()).toEqual(['alert.started'])
    await other.stop()
    await first.stop()

    shared.sources = [source('Files', 'starting', shared.nowMs)]
    const second = new Replica(folder, shared)
    await second.check()
    shared.sources = [source('Files', 'down', shared.nowMs)]
    await second.check()
    expect(types()).toEqual(['alert.started'])
    shared.sources = [source('Files', 'ready', shared.nowMs)]
    await second.check()
    await second.check()
    expect(types()).toEqual(['alert.started', 'alert.ended'])
    await second.stop()
  })

  it('report a budget at its share until its window is over, and a rule that is removed', async () => {
    const shared = {
      nowMs: 100 * MINUTE_MS,
      rules: [{ when: 'budget', above: 90 }, ERRORS] as Rules,
      sources: [],
    }
    const folder = openStoreFolder(() => shared.nowMs)
    const replica = new Replica(folder, shared)
    const window = { tenant: 'acme', principal: undefined, lengthMs: 60 * MINUTE_MS, startMs: 60 * MINUTE_MS }
    const spend = (calls: number) =>
      replica.store.budgets.lease(window, { calls, milliseconds: 0, cost: 0 }, LIMIT, shared.nowMs)
    await spend(89)
    await replica.check()
    const alerts = () => came.filter(({ type }) => type.startsWith('alert.'))
    expect(alerts()).toEqual([])
    await spend(1)
    await replica.check()
    expect(alerts()[0]?.data).toMatchObject({
      name: 'budget of the tenant acme',
      unit: 'calls',
      used: 90,
      limit: 100,
      percent: 90,
    })
    shared.nowMs = 125 * MINUTE_MS
    for (let nth = 0; nth < 4; nth += 1) await replica.call('failed', shared.nowMs)
    await replica.check()
    const sent = alerts().map(({ type }) => type)
    expect(sent.toSorted()).toEqual(['alert.ended', 'alert.started', 'alert.started'])
    shared.rules = []
    await replica.check()
    await replica.check()
    expect(alerts().at(-1)?.data).toMatchObject({ name: 'error rate of Mail.Send', reason: 'removed' })
    expect(alerts()).toHaveLength(4)
    await replica.stop()
  })
})
