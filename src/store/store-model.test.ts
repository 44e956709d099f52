import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { JournalEvent } from '#core/journal/journal-event'
import type { JournalHead } from '#core/journal/journal-group'
import type { Outcome } from '#core/outcome'
import type { CallRecord, CallState, NewChallenge, Store } from '#core/ports/store'
import { StoreError } from '#core/store-error'
import type { ReplayPolicy, SafetyTier } from '#core/tool'
import { attemptAt, failure, sampleCall, success } from '#testing/sample-call'
import { MemoryStore } from './memory.ts'
import { SqliteStore } from './sqlite/sqlite-store.ts'

/** Raise for a longer search; each run is a fresh pair of stores and up to `LONGEST` steps. */
const RUNS = 100
const LONGEST = 40
const LIMIT_MS = 120_000

const DAY_MS = 86_400_000
const POLICY = { resultsMs: DAY_MS, journalMs: 90 * DAY_MS }
const RECORDS = ['record-0', 'record-1', 'record-2'] as const
const TENANTS = ['default', 'other'] as const
const STATES = ['parked', 'running', 'succeeded', 'failed', 'released', 'ambiguous'] as const

type Finished = { readonly state: 'succeeded' | 'failed' | 'released'; readonly outcome: Outcome }

/** One thing done to both stores. */
type Step =
  | {
      readonly do: 'claim'
      readonly record: string
      readonly tier: SafetyTier
      readonly replay: ReplayPolicy
    }
  | { readonly do: 'claim twice at once'; readonly record: string }
  | {
      readonly do: 'insertFinished'
      readonly record: string
      readonly tier: SafetyTier
      readonly end: Finished
    }
  | { readonly do: 'finish'; readonly record: string; readonly attempt: number; readonly end: Finished }
  | {
      readonly do: 'finish twice at once'
      readonly record: string
      readonly attempt: number
      readonly end: Finished
    }
  | {
      readonly do: 'recordLate'
      readonly record: string
      readonly attempt: number
      readonly outcome: Outcome
    }
  | { readonly do: 'look'; readonly record: string }
  /** With a record that an earlier `look` saw: the newest, or a stale one. */
  | { readonly do: 'reclaim'; readonly age: number }
  | { readonly do: 'requestCancel'; readonly record: string; readonly tenant: string }
  | { readonly do: 'settle'; readonly record: string; readonly as: 'succeeded' | 'failed' | 'not-run' }
  | { readonly do: 'openChallenge'; readonly need: string; readonly lifetimeMs: number }
  | { readonly do: 'completeChallenge'; readonly need: string }
  | {
      readonly do: 'list'
      readonly state: CallState | undefined
      readonly tenant: string | undefined
      readonly limit: number
    }
  | { readonly do: 'purge' }
  | { readonly do: 'wait'; readonly ms: number }

const record = fc.constantFrom(...RECORDS)
const attempt = fc.integer({ min: 1, max: 3 })
const tier = fc.constantFrom('read', 'write', 'write', 'exec') satisfies fc.Arbitrary<SafetyTier>
const outcome = fc.constantFrom<Outcome>(success('"✓"'), success('{"n":1}'), failure(false), failure(true))
const end = fc.record<Finished>({
  state: fc.constantFrom('succeeded', 'failed', 'released', 'released'),
  outcome,
})

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('claim'),
      record,
      tier,
      replay: fc.constantFrom('idempotent', 'non-deterministic'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('claim twice at once'), record }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('insertFinished'), record, tier, end }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('finish'), record, attempt, end }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('finish twice at once'), record, attempt, end }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('recordLate'), record, attempt, outcome }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('look'), record }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('reclaim'), age: fc.nat(3) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('requestCancel'), record, tenant: fc.constantFrom(...TENANTS) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('settle'),
      record,
      as: fc.constantFrom('succeeded', 'failed', 'not-run'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('openChallenge'),
      need: fc.constantFrom('google', 'github'),
      lifetimeMs: fc.constantFrom(1_000, 10 * 60_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('completeChallenge'), need: fc.constantFrom('google', 'github') }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('list'),
      state: fc.option(fc.constantFrom(...STATES), { nil: undefined }),
      tenant: fc.option(fc.constantFrom(...TENANTS), { nil: undefined }),
      limit: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('purge') }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('wait'),
      ms: fc.constantFrom(1, 1_000, 10 * 60_000, DAY_MS / 2, DAY_MS, DAY_MS + 1, 45 * DAY_MS, 91 * DAY_MS),
    }),
  },
)

/** One store under test, with what a caller of it remembers. */
class Subject {
  readonly store: Store
  readonly #clock: { nowMs: number }
  readonly #seen: CallRecord[] = []
  readonly #challenges: string[] = []
  #heads: readonly JournalHead[] = []

  constructor(store: Store, clock: { nowMs: number }) {
    this.store = store
    this.#clock = clock
  }

  /** What the step gave, or the code of its refusal. */
  async apply(taken: Step): Promise<unknown> {
    try {
      return shown(await this.#act(taken))
    } catch (error) {
      if (error instanceof StoreError) return { refused: error.code }
      throw error
    }
  }

  async #act(taken: Step): Promise<unknown> {
    const { store } = this
    const atMs = this.#clock.nowMs
    switch (taken.do) {
      case 'claim':
        return await store.claim(callOf(taken.record, atMs, taken))
      case 'claim twice at once':
        return await Promise.all(
          ['one', 'two'].map((fingerprint) => store.claim(callOf(taken.record, atMs, { fingerprint }))),
        )
      case 'insertFinished':
        return await store.insertFinished(callOf(taken.record, atMs, { tier: taken.tier }), {
          ...taken.end,
          atMs,
        })
      case 'finish':
        return await store.finish({
          run: attemptAt(callOf(taken.record, atMs), taken.attempt),
          ...taken.end,
          atMs,
        })
      case 'finish twice at once': {
        const run = attemptAt(callOf(taken.record, atMs), taken.attempt)
        return await Promise.all([
          store.finish({ run, ...taken.end, atMs }),
          store.finish({ run, state: 'failed', outcome: failure(false), atMs }),
        ])
      }
      case 'recordLate':
        return await store.recordLate(
          attemptAt(callOf(taken.record, atMs), taken.attempt),
          taken.outcome,
          atMs,
        )
      case 'look': {
        const found = await store.find({ tenant: 'default', record: taken.record })
        if (found !== undefined) this.#seen.unshift(found)
        return found
      }
      case 'reclaim': {
        const seen = this.#seen[taken.age]
        return seen === undefined ? 'nothing seen' : await store.reclaim(seen, atMs)
      }
      case 'requestCancel':
        return await store.requestCancel({ tenant: taken.tenant, record: taken.record }, 'key:alice', atMs)
      case 'settle':
        return await store.settle({
          record: taken.record,
          as: taken.as,
          valueJson: undefined,
          error: undefined,
          who: 'op',
          why: 'test',
          atMs,
        })
      case 'openChallenge': {
        const id = `challenge-${this.#challenges.length}`
        this.#challenges.unshift(id)
        return await store.openChallenge(challengeOf(id, taken, atMs))
      }
      case 'completeChallenge':
        return await store.completeChallenge(challengeOf('', { ...taken, lifetimeMs: 0 }, atMs), atMs)
      case 'list': {
        const { state, tenant, limit } = taken
        return await store.list({
          limit,
          ...(state === undefined ? {} : { state }),
          ...(tenant === undefined ? {} : { tenant }),
        })
      }
      case 'purge':
        // What is forgotten was last seen a day ago; nobody holds on to a record for so long.
        this.#seen.length = 0
        return await store.purge(atMs, POLICY)
      case 'wait':
        return undefined
    }
  }

  /** Everything the store holds, and the events since the last look. */
  async state(): Promise<unknown> {
    const { store } = this
    return {
      calls: shown(await store.list({ limit: 100 })),
      byRecord: shown(await Promise.all(RECORDS.map((name) => store.findByRecord(name)))),
      cancelRequests: (await store.cancelRequests()).map((address) => address.record).sort(),
      challenges: await Promise.all(this.#challenges.map((id) => store.findChallenge(id))),
      events: await this.#newEvents(),
    }
  }

  async #newEvents(): Promise<readonly JournalEvent[]> {
    const groups = await this.store.readJournal(this.#heads, 1_000)
    const newest = new Map([...this.#heads, ...groups].map((head) => [head.writer, head]))
    this.#heads = [...newest.values()]
    return groups
      .flatMap(({ events }) => events)
      .filter(({ type }) => !type.startsWith('writer.') && !type.startsWith('retention.'))
  }
}

function callOf(name: string, atMs: number, changes: Partial<Parameters<typeof sampleCall>[0]> = {}) {
  const { tier: safety = 'write', replay = 'non-deterministic', fingerprint = 'one' } = changes
  return sampleCall({ record: name, callId: `id of ${name} ✓`, tier: safety, replay, fingerprint, atMs })
}

function challengeOf(
  id: string,
  { need, lifetimeMs }: { readonly need: string; readonly lifetimeMs: number },
  atMs: number,
): NewChallenge {
  return {
    id,
    tenant: 'default',
    principal: 'key:alice',
    user: '',
    provider: need,
    scopes: [],
    tool: 'Gmail.GetEmails@1.2.0',
    atMs,
    expiresAtMs: atMs + lifetimeMs,
  }
}

/** Without what must differ between two stores: the name of the writer. */
function shown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shown)
  if (typeof value !== 'object' || value === null) return value
  if ('writer' in value && 'fingerprint' in value) return shownRecord({ ...value })
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shown(member)]))
}

/** A tombstone keeps key, fingerprint, state and time; the caller's text goes with the journal (rule 13). */
function shownRecord({ writer: _, cancelRequested: __, ...rest }: Record<string, unknown>): object {
  return rest.expired === true ? { ...rest, callId: '', traceId: '', userId: undefined } : rest
}

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-model-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

it('the SQLite store does what the memory store does, whatever is done to both', {
  timeout: LIMIT_MS,
}, async () => {
  const masterKey = randomBytes(32)
  let file = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: LONGEST, size: 'max' }), async (steps) => {
      file += 1
      const clock = { nowMs: 1_000 }
      const sqlite = new SqliteStore({
        path: join(folder, `${file}.db`),
        masterKey,
        nowMs: () => clock.nowMs,
      })
      const [reference, subject] = [new Subject(new MemoryStore(), clock), new Subject(sqlite, clock)]
      try {
        for (const taken of steps) {
          if (taken.do === 'wait') clock.nowMs += taken.ms
          const expected = await reference.apply(taken)
          expect({ taken, gave: await subject.apply(taken) }).toEqual({ taken, gave: expected })
          expect({ taken, state: await subject.state() }).toEqual({ taken, state: await reference.state() })
        }
        expect(sqlite.verify()).toMatchObject({ ok: true })
        await expectAllForgotten(sqlite, clock)
      } finally {
        await sqlite.close()
      }
    }),
    { numRuns: RUNS },
  )
})

/** Rule 13: once every call has ended and all times are over, nothing but the note of the last purge is left. */
async function expectAllForgotten(sqlite: SqliteStore, clock: { nowMs: number }): Promise<void> {
  for (const { record: name, attempt: last, tenant, principal, tool } of sqlite.list({
    state: 'running',
    limit: 100,
  })) {
    const run = { tenant, record: name, principal, tool, attempt: last }
    await sqlite.finish({ run, state: 'succeeded', outcome: success('1'), atMs: clock.nowMs })
  }
  for (let round = 0; round < 3; round += 1) {
    clock.nowMs += 200 * DAY_MS
    await sqlite.purge(clock.nowMs, POLICY)
  }
  expect(sqlite.list({ limit: 100 })).toEqual([])
  const left = sqlite.readJournal([], 1_000).flatMap(({ events }) => events.map(({ type }) => type))
  expect(left.filter((type) => type !== 'retention.purged')).toEqual([])
  expect(sqlite.verify()).toMatchObject({ ok: true })
}
