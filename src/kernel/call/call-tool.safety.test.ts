import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import { Registry } from '#kernel/tool/catalog'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import {
  ALICE,
  callRequest,
  errorOf,
  faultyStore,
  gist,
  openTestGateway,
  type StoreMethod,
} from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { StoreFolder } from '../../../test/store/store-folder.ts'
import { identifyCall } from './look-up.ts'
import { RunningCalls } from './running.ts'

let folder: StoreFolder
beforeEach(() => {
  folder = new StoreFolder(Date.now)
})
afterEach(() => folder.remove())

const DO = 'Kit.Do@1.0.0'
const journalOf = async (store: { readJournal: Store['readJournal'] } | ReturnType<typeof folder.open>) =>
  (await store.readJournal([], 100)).flatMap(({ events }) => events.map(({ type }) => type))

describe('a call that was cut in another process', () => {
  it.each([
    ['write', 'ambiguous', 1],
    ['exec', 'ambiguous', 1],
    ['read', 'ok "again"', 2],
    ['pure', 'ok "again"', 2],
  ] as const)('rule 8: of a %s answers %s', async (safetyTier, expected, most) => {
    let runs = 0
    const started = Promise.withResolvers<void>()
    const tool = sampleTool(
      DO,
      () => {
        runs += 1
        started.resolve()
        return runs === 1 ? new Promise<never>(() => undefined) : 'again'
      },
      { policy: { safetyTier } },
    )
    const first = folder.open()
    // In a named run, calls of every tier are claimed, so that each leaves a record.
    const request = callRequest(DO, { key: 'k', runId: 'run-1' })
    void openTestGateway([tool], { store: first }).call(ALICE, request)
    await started.promise
    await first.close()
    const second = folder.open()
    expect(gist(await openTestGateway([tool], { store: second }).call(ALICE, request))).toBe(expected)
    expect(runs).toBe(most)
    await second.close()
  })
})

describe('claims', () => {
  it.each(['write', 'exec'] as const)(
    'rule 7: %s runs only after its claim is committed',
    async (safetyTier) => {
      const store = folder.open()
      const seen: (string | undefined)[] = []
      const tool = sampleTool(
        DO,
        async () => {
          seen.push((await store.list({ limit: 1 })).calls[0]?.state)
          return null
        },
        { policy: { safetyTier } },
      )
      await openTestGateway([tool], { store }).call(ALICE, callRequest(DO, { key: 'k' }))
      expect(seen).toEqual(['running'])
      await store.close()
    },
  )

  it('rule 11: a claim whose commit was reported as failed runs once, for any number of requests', async () => {
    let runs = 0
    const tool = sampleTool(DO, async () => {
      runs += 1
      await new Promise(setImmediate)
      return runs
    })
    const after = new Set<StoreMethod>(['claim'])
    const store = faultyStore(openMemoryStore(), new Set(), after)
    const gateway = openTestGateway([tool], { store })
    const request = callRequest(DO, { key: 'k' })
    expect(gist(await gateway.call(ALICE, request))).toBe('not_ready')
    expect(runs).toBe(0)
    after.clear()
    await expect.poll(() => gateway.isReady(), { timeout: 5_000 }).toBe(true)
    const replies = await Promise.all([1, 2, 3].map(() => gateway.call(ALICE, request)))
    expect(replies.map(gist)).toEqual(['ok 1', 'ok 1', 'ok 1'])
    expect(runs).toBe(1)
    const record = (await store.list({ limit: 1 })).calls[0]
    expect([record?.state, record?.attempt]).toEqual(['succeeded', 2])
  })

  it('rule 11: an abandoned claim can be taken once', () => {
    const running = new RunningCalls()
    const tool = sampleTool(DO, () => null)
    const services = { store: openMemoryStore(), registry: new Registry([tool]) }
    const request = callRequest(DO, { key: 'k' })
    const call = identifyCall(services, { principal: ALICE, request, freshId: () => '' })
    const entry = running.start(call, tool, { run: undefined, session: undefined, live: undefined })
    running.noteAbandoned(entry)
    expect([running.takeAbandoned(call.record), running.takeAbandoned(call.record)]).toEqual([true, false])
  })
})

describe('an outcome that is not the first', () => {
  it('rule 10: of an attempt that was declared dead is stored as late, and the recorded outcome is returned', async () => {
    const store = folder.open()
    const tool = sampleTool(DO, async () => {
      folder.tamper("UPDATE calls SET state = 'ambiguous'")
      return 'done after all'
    })
    const gateway = openTestGateway([tool], { store })
    expect(gist(await gateway.call(ALICE, callRequest(DO, { key: 'k' })))).toBe('ambiguous')
    expect(await journalOf(store)).toContain('call.late')
    expect((await store.list({ limit: 1 })).calls[0]?.late).toMatchObject({
      ok: true,
      valueJson: '"done after all"',
    })
    await store.close()
  })

  it.each([
    ['another request', { n: 2 }, 'key_conflict'],
    ['the same request', { n: 1 }, 'ok "second 1"'],
  ])('rule 7: of a read whose key was taken in the meantime by %s', async (_what, other, expected) => {
    const gate = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const [first, second] = [folder.open(), folder.open()]
    const reads = (who: string, wait: Promise<void> | undefined) =>
      sampleTool(
        DO,
        async (input) => {
          if (wait !== undefined) started.resolve()
          await wait
          return `${who} ${JSON.stringify(input).replace(/\D/g, '')}`
        },
        { policy: { safetyTier: 'read' } },
      )
    const slow = openTestGateway([reads('first', gate.promise)], { store: first })
    const quick = openTestGateway([reads('second', undefined)], { store: second })
    const reply = slow.call(ALICE, callRequest(DO, { key: 'k', input: { n: 1 } }))
    await started.promise
    expect(gist(await quick.call(ALICE, callRequest(DO, { key: 'k', input: other })))).toBe(
      `ok "second ${other.n}"`,
    )
    gate.resolve()
    expect(gist(await reply)).toBe(expected)
    await Promise.all([first.close(), second.close()])
  })
})

describe('ending a call', () => {
  it('rules 2, 10: a credential that may not see the tool can neither read nor cancel it, running or waiting', async () => {
    const started = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<string>()
    const tool = sampleTool(
      DO,
      () => {
        started.resolve()
        return answer.promise
      },
      { policy: { scopes: ['kit:do'] } },
    )
    const wide = { ...ALICE, scopes: ['kit:do'] }
    const gateway = openTestGateway([tool])
    const reply = gateway.call(wide, callRequest(DO, { key: 'k' }))
    await started.promise
    expect(await gateway.readCall(ALICE, 'k')).toBeUndefined()
    expect(await gateway.cancelCall(ALICE, 'k')).toBeUndefined()
    answer.resolve('finished')
    expect(gist(await reply)).toBe('ok "finished"')
  })

  it('rule 10: a call that is cancelled before it starts is final: nothing runs, then or later', async () => {
    let runs = 0
    const tool = sampleTool(DO, () => {
      runs += 1
      return null
    })
    const gateway = openTestGateway([tool])
    const request = callRequest(DO, { key: 'k', leaving: { left: AbortSignal.abort() } })
    const error = errorOf(await gateway.call(ALICE, request))
    expect(error).toMatchObject({ code: 'cancelled', canRetry: false })
    expect((await gateway.readCall(ALICE, 'k'))?.state).toBe('failed')
    expect(gist(await gateway.call(ALICE, callRequest(DO, { key: 'k' })))).toBe('cancelled')
    expect(runs).toBe(0)
  })
})

describe('an error text', () => {
  it('T-20: contains no spelling of the call’s secrets, not even percent-encoded', async () => {
    const secret = 'p@ss word/1+ü'
    const tool = sampleTool(
      DO,
      () => {
        const encoded = [
          encodeURIComponent(secret),
          encodeURI(secret),
          new URLSearchParams({ q: secret }).toString(),
        ]
        throw new ToolError(`GET /?key=${encoded.join(' ')} failed`)
      },
      { requirements: { secrets: [{ id: 'K' }] } },
    )
    const secrets = new Map([['K', new Secret(secret)]])
    const { message } = errorOf(await openTestGateway([tool]).call(ALICE, callRequest(DO, { secrets })))
    expect(message).not.toContain(encodeURIComponent(secret))
    expect(message).not.toContain(secret)
  })
})
