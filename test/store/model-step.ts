import fc from 'fast-check'
import type { CallState, Outcome } from '#kernel/call/call'
import type { SessionOutcome } from '#kernel/run/events'
import type { ReplayPolicy, SafetyTier } from '#kernel/tool/tool'
import { DAY_MS, failure, scopeAt, success } from '../contracts/samples.ts'

export const RECORDS = ['record-0', 'record-1', 'record-2'] as const
const RUNS = ['run-a', 'run-b'] as const
/** All possible runs: the named ones, and the own runs of calls. */
export const RUN_KEYS = [...RUNS.map((name) => scopeAt(name).run), ...RECORDS]
const TENANTS = ['default', 'other'] as const
const STATES = ['parked', 'running', 'succeeded', 'failed', 'released', 'ambiguous'] as const

type Finished = { readonly state: 'succeeded' | 'failed' | 'released'; readonly outcome: Outcome }

/** Where a call is claimed: which run it names, and whether in a session of its own or in a named one (by age). */
export interface Where {
  readonly run: (typeof RUNS)[number] | undefined
  readonly session: 'none' | 'own' | number
}

/** One operation on both stores. */
export type Step =
  | {
      readonly do: 'claim'
      readonly record: string
      readonly tier: SafetyTier
      readonly replay: ReplayPolicy
      readonly where: Where
    }
  | { readonly do: 'claim twice at once'; readonly record: string }
  | { readonly do: 'claim all at once'; readonly where: Where }
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
  | { readonly do: 'openSession'; readonly run: (typeof RUNS)[number] }
  | { readonly do: 'beginSessionClose'; readonly age: number; readonly tenant: string }
  | {
      readonly do: 'closeSession'
      readonly age: number
      readonly tenant: string
      readonly outcome: SessionOutcome
    }
  | { readonly do: 'endRun'; readonly run: (typeof RUNS)[number]; readonly tenant: string }
  | { readonly do: 'noteRefusal'; readonly run: (typeof RUNS)[number]; readonly tenant: string }
  | { readonly do: 'lease' | 'returnUnspent'; readonly tenant: string; readonly calls: number }
  | { readonly do: 'readRun'; readonly run: string; readonly after: number; readonly limit: number }
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
const run = fc.constantFrom(...RUNS)
const age = fc.nat(2)
const tenant = fc.constantFrom(...TENANTS)
const ownTenant = fc.constantFrom('default', 'default', 'default', 'other')
const where = fc.record<Where>({
  run: fc.constantFrom(undefined, ...RUNS),
  session: fc.constantFrom<Where['session']>('none', 'none', 'own', 0, 1),
})
const need = fc.constantFrom('google', 'github')

const calls: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('claim'),
      record,
      tier,
      replay: fc.constantFrom('idempotent', 'non-deterministic'),
      where,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('claim twice at once'), record }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('claim all at once'), where }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('insertFinished'), record, tier, end }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('finish'), record, attempt, end }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('finish twice at once'), record, attempt, end }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('recordLate'), record, attempt, outcome }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('look'), record }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('reclaim'), age: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('requestCancel'), record, tenant }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('settle'),
      record,
      as: fc.constantFrom('succeeded', 'failed', 'not-run'),
    }),
  },
)

const runsAndSessions: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('openSession'), run }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('beginSessionClose'), age, tenant: ownTenant }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('closeSession'),
      age,
      tenant: ownTenant,
      outcome: fc.constantFrom('completed', 'failed', 'cancelled'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('endRun'), run, tenant: ownTenant }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('noteRefusal'), run, tenant: ownTenant }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('readRun'),
      run: fc.constantFrom(...RUN_KEYS),
      after: fc.integer({ min: -1, max: 5 }),
      limit: fc.integer({ min: 1, max: 4 }),
    }),
  },
)

const others: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('openChallenge'),
      need,
      lifetimeMs: fc.constantFrom(1_000, 10 * 60_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('completeChallenge'), need }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom('lease', 'returnUnspent'), tenant, calls: fc.nat(5) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('list'),
      state: fc.option(fc.constantFrom(...STATES), { nil: undefined }),
      tenant: fc.option(tenant, { nil: undefined }),
      limit: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('purge') }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('wait'),
      ms: fc.constantFrom(
        1,
        1_000,
        5 * 60_000,
        15 * 60_000,
        DAY_MS / 2,
        DAY_MS,
        DAY_MS + 1,
        45 * DAY_MS,
        91 * DAY_MS,
      ),
    }),
  },
)

export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 23, arbitrary: calls },
  { weight: 10, arbitrary: runsAndSessions },
  { weight: 10, arbitrary: others },
)
