import type { Store } from '#core/ports/store'

export interface Id {
  readonly id: string
  readonly tenant: string
}

/** What was in the database before anybody damaged it. */
export interface Ids {
  readonly calls: readonly Id[]
  readonly runs: readonly Id[]
  readonly sessions: readonly Id[]
  readonly approvals: readonly Id[]
}

const NOW_MS = 5_000
const LIMIT = 100

/** Every way to read what is stored, and the changes that begin by reading; what calls ended with goes to `outcomes`. */
export function* readEverything(
  store: Store,
  { calls, runs, sessions, approvals }: Ids,
  outcomes: Map<string, string | undefined>,
): Generator<readonly [doing: string, read: () => Promise<unknown>]> {
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
  yield ['list', async () => await store.list({ limit: LIMIT })]
  yield ['approvals.list', async () => await store.approvals.list({ limit: LIMIT })]
  yield ['takeNotices', async () => await store.approvals.takeNotices(NOW_MS, 1, LIMIT)]
  yield [
    'keys',
    async () => {
      for (const { keyId } of await store.keys.listKeys({ limit: LIMIT })) await store.keys.findKey(keyId)
    },
  ]
  yield ['keys.epoch', async () => await store.keys.epoch()]
  yield ['audit', async () => await store.audit.readDenials({ after: 0, limit: LIMIT })]
  yield [
    'vault',
    async () => {
      for (const { ref } of await store.vault.list({ limit: LIMIT })) await store.vault.findByRef(ref)
    },
  ]
  yield [
    'pins',
    async () => {
      for (const source of await store.pins.sources()) await store.pins.read(source)
    },
  ]
  yield ['pins.epoch', async () => await store.pins.epoch()]
  yield ['sources', async () => await store.sources.list()]
  yield ['readJournal', async () => await store.readJournal([], LIMIT)]
  yield ['verify', async () => await store.verify()]
  yield ['recover', async () => await store.recover(NOW_MS)]
  yield ['expire', async () => await store.approvals.expire(NOW_MS)]
  yield ['workflows.expire', async () => await store.workflows.expire(NOW_MS)]
  yield ['probe', async () => await store.probe()]
}
