import type { Store } from '#store/collet-store'

interface Id {
  readonly id: string
  readonly tenant: string
}

/** Content of the database before the damage. */
export interface Ids {
  readonly calls: readonly Id[]
  readonly runs: readonly Id[]
  readonly sessions: readonly Id[]
  readonly approvals: readonly Id[]
  readonly challenges: readonly Id[]
  readonly consents: readonly Id[]
  /** Sessions of callers, and questions to callers. */
  readonly callerSessions: readonly Id[]
  readonly questions: readonly Id[]
  readonly keyedRequests: readonly Id[]
  readonly buckets: readonly string[]
}

const NOW_MS = 5_000
const LIMIT = 100
const DAY_MS = 86_400_000
const SPENT = { calls: 1, milliseconds: 1, cost: 1 }

/** Reads everything that is stored, and makes the changes that begin with a read; outcomes of calls go to `outcomes`. */
export function* readEverything(
  store: Store,
  ids: Ids,
  outcomes: Map<string, string | undefined>,
): Generator<readonly [doing: string, read: () => Promise<unknown>]> {
  const { calls, runs, sessions, approvals } = ids
  for (const { id: record, tenant } of calls) {
    yield [
      'find',
      async () => {
        const found = await store.find({ tenant, record })
        if (found?.outcome !== undefined) outcomes.set(record, JSON.stringify(found.outcome))
      },
    ]
    yield ['findByRecord', async () => await store.findByRecord(record)]
    yield ['approvals.findFor', async () => await store.approvals.findFor({ tenant, record })]
    yield ['openSteps', async () => await store.workflows.openSteps({ tenant, record })]
  }
  for (const { id: run, tenant } of runs) {
    yield ['findRun', async () => await store.findRun({ tenant, run })]
    yield ['readRun', async () => await store.readRun({ tenant, run }, -1, LIMIT)]
  }
  for (const { id: sessionId, tenant } of sessions) {
    yield ['findSession', async () => await store.findSession({ tenant, sessionId })]
    yield ['isParkedIn', async () => await store.approvals.isParkedIn({ tenant, sessionId })]
  }
  for (const { id } of approvals) yield ['approvals.findById', async () => await store.approvals.findById(id)]
  for (const { id } of ids.challenges) yield ['findChallenge', async () => await store.findChallenge(id)]
  for (const { id } of ids.consents) yield ['consents.find', async () => await store.consents.find(id)]
  for (const { id, tenant } of ids.callerSessions)
    yield ['callers.findSession', async () => await store.callers.findSession(tenant, id)]
  for (const { id, tenant } of ids.questions)
    yield ['callers.findAnswer', async () => await store.callers.findAnswer({ tenant, id })]
  for (const { id, tenant } of ids.keyedRequests)
    yield [
      'requests.begin',
      async () => await store.requests.begin({ tenant, id, asked: 'x', expiresAtMs: NOW_MS + DAY_MS }),
    ]
  for (const bucket of ids.buckets)
    yield ['rates.take', async () => await store.rates.take(bucket, 1, { perMs: 1, burst: 2, nowMs: NOW_MS })]
  for (const tenant of new Set(calls.map((call) => call.tenant))) {
    yield [
      'listOwn',
      async () => {
        const principals = new Set(
          (await store.list({ tenant, limit: LIMIT })).calls.map(({ principal }) => principal),
        )
        for (const principal of principals) {
          await store.listOwn({ tenant, principal, limit: LIMIT })
          await store.callers.openQuestions(tenant, principal, 'c')
          const window = { tenant, principal, lengthMs: 1_000, startMs: 0 }
          await store.budgets.read(window)
          await store.budgets.lease(window, SPENT, SPENT, 1_000)
        }
      },
    ]
  }
  yield ['cancelRequests', async () => await store.cancelRequests()]
  yield ['list', async () => await store.list({ limit: LIMIT })]
  yield ['approvals.list', async () => await store.approvals.list({ limit: LIMIT })]
  yield [
    'notices',
    async () => {
      await store.notices.listeners()
      for (const target of await store.notices.due(NOW_MS)) await store.notices.take(target, NOW_MS, 1, LIMIT)
    },
  ]
  yield [
    'keys',
    async () => {
      for (const key of await store.keys.listKeys({ limit: LIMIT })) {
        await store.keys.findKey(key.keyId)
        await store.keys.keysOf(key)
        await store.keys.isEnded(key)
      }
    },
  ]
  yield ['keys.epoch', async () => await store.keys.epoch()]
  yield ['audit', async () => await store.audit.readDenials({ after: 0, limit: LIMIT })]
  yield [
    'vault',
    async () => {
      for (const facts of await store.vault.list({ limit: LIMIT })) {
        await store.vault.findByRef(facts.ref)
        await store.vault.find(facts)
      }
    },
  ]
  yield [
    'pins',
    async () => {
      for (const source of await store.pins.sources()) {
        await store.pins.read(source)
        await store.pins.revision(source)
      }
    },
  ]
  yield ['pins.epoch', async () => await store.pins.epoch()]
  yield ['sources', async () => await store.sources.list()]
  yield ['sources.epoch', async () => await store.sources.epoch()]
  yield ['keyChange.status', async () => await store.keyChange.status()]
  yield ['keyChange.follow', async () => await store.keyChange.follow()]
  yield ['readJournal', async () => await store.readJournal([], LIMIT)]
  yield ['verify', async () => await store.verify()]
  yield ['recover', async () => await store.recover(NOW_MS)]
  yield ['expire', async () => await store.approvals.expire(NOW_MS)]
  yield ['workflows.expire', async () => await store.workflows.expire(NOW_MS)]
  yield ['consents.expire', async () => await store.consents.runs.expire(NOW_MS)]
  yield ['vault.rotate', async () => await store.vault.rotate('fuzz', NOW_MS)]
  yield ['purge', async () => await store.purge(NOW_MS + DAY_MS, { resultsMs: 1, journalMs: DAY_MS })]
  yield ['probe', async () => await store.probe()]
}
